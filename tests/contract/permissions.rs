//! The permissions that docs/operations.md names are enough: a user who may do nothing else can do everything.

use crate::files;
use leasehold::{Client, LossReason};
use leasehold_test_support::Server;
use std::collections::BTreeSet;
use std::time::Duration;

/// The commands that the page names, and the keys and channels of its example, as an ACL rule.
fn rule() -> String {
    let page = files::read("docs/operations.md");
    let part = page.split("### Permissions").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the part");
    let example = part.lines().find_map(|line| line.strip_prefix("user ")).expect("the example of a user");
    let (places, rest) = example.split_once(" …").expect("the commands are left to the text above");
    assert_eq!(rest, "");
    let prose = part.split("```").step_by(2).collect::<String>();
    let is_command = |word: &&str| word.chars().all(|letter| letter.is_ascii_uppercase() || letter == ' ');
    let commands: BTreeSet<_> = prose.split('`').skip(1).step_by(2).filter(is_command).collect();
    assert!(commands.len() > 15, "the page names commands: {commands:?}");
    let commands = commands.iter().map(|command| format!(" +{}", command.to_lowercase().replace(' ', "|")));
    format!("{places} -@all{}", commands.collect::<String>())
}

#[tokio::test]
async fn the_permissions_of_the_page_are_enough() {
    let rule = rule();
    let server = Server::builder().user(&rule).start();
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let lease = Duration::from_millis(500);
    let connect =
        async || Client::builder().prefix("app:").lease(lease).connect(&url).await.expect("the user may connect");
    let (client, other) = (connect().await, connect().await);
    assert_eq!(client.server().eviction_policy.as_deref(), Some("noeviction"), "the policy can be read");

    let lock = client.lock("stock");
    let guard = lock.acquire().await.expect("the lock is granted");
    let again = guard.reenter().await.expect("it is re-entered");
    let waiter = tokio::spawn(other.lock("stock").acquire().wait(Duration::from_secs(20)).into_future());
    tokio::time::timeout(Duration::from_secs(20), async {
        while other.census().subscriptions == 0 || guard.held_for() < lease * 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the waiter subscribes");
    assert!(guard.is_held(), "the lease is renewed");
    again.release().await.expect("the count is lowered");
    guard.release().await.expect("the lock is released");
    let second = waiter.await.expect("the waiter does not panic").expect("the waiter is woken");

    let holder = lock.inspect().await.expect("it can be inspected").expect("it is held");
    assert!(holder.id.starts_with(&other.id()));
    lock.force_release().await.expect("it can be force-released").expect("it is held");
    assert_eq!(second.lost().await.reason(), LossReason::Removed);
    for client in [client, other] {
        client.shutdown(Duration::from_secs(5)).await.expect("nothing is left");
    }
    let log = server.command(&["ACL", "LOG"]);
    assert_eq!(log.elements(), [], "nothing was denied");
}
