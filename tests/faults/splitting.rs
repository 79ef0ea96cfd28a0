//! A proxy with the URL of one server, which refuses commands with keys of several hash slots.

use crate::support::{RENEWED, held, on_one_of_each, pass, runtime, settings, soon, until};
use leasehold::{Client, Tuning};
use leasehold_test_support::SplittingProxy;

/// How many locks a client has at a time.
const MANY: usize = 200;

/// For how many leases it has them.
const LEASES: u32 = 10;

fn names() -> impl Iterator<Item = String> {
    (0..MANY).map(|number| format!("stock:{number}"))
}

#[test]
fn locks_of_many_slots_are_renewed_behind_a_proxy_that_splits_by_slot() {
    on_one_of_each(|binary| {
        let proxy = SplittingProxy::start(binary);
        runtime().block_on(async {
            let client = settings().lease(RENEWED).connect(&proxy.url()).await.expect("a client");
            let mut guards = Vec::new();
            for name in names() {
                guards.push(held(&client, &name).await);
            }
            pass(RENEWED * LEASES).await;
            let lost: Vec<_> = guards.iter().filter(|guard| !guard.is_held()).collect();
            assert_eq!(lost.len(), 0, "of {MANY} locks were lost: {lost:?}");
            for guard in guards {
                soon("a release", guard.release()).await.expect("a release");
            }
            until("the client is at rest", || client.stats().cleaning_up == 0).await;
            assert_eq!(proxy.server().command(&["DBSIZE"]).as_int(), Some(0));
        });
    });
}

/// Acquires all at once, so that acquires and releases share batches.
async fn all_at_once(client: &Client) {
    let locks: Vec<_> = names().map(|name| client.lock(name)).collect();
    let acquires = locks.iter().map(|lock| lock.acquire().into_future());
    let guards = futures_util::future::try_join_all(acquires).await.expect("locks that are free");
    let releases = guards.into_iter().map(leasehold::Guard::release);
    futures_util::future::try_join_all(releases).await.expect("releases");
}

#[test]
fn calls_of_many_slots_are_answered_behind_a_proxy_that_splits_by_slot() {
    on_one_of_each(|binary| {
        let proxy = SplittingProxy::start(binary);
        runtime().block_on(async {
            let client =
                settings().tuning(Tuning::new().batch_calls(true)).connect(&proxy.url()).await.expect("a client");
            for _ in 0..3 {
                soon("locks of many slots", all_at_once(&client)).await;
            }
            let locks = ["a", "b", "c"].map(|name| client.lock(name));
            let all = soon("a multi lock", client.multi_lock(locks).acquire()).await.expect("three locks");
            assert!(client.inspect("a").await.expect("an answer").is_some());
            soon("a release", all.release()).await.expect("a release");
            assert_eq!(proxy.server().command(&["DBSIZE"]).as_int(), Some(0));
        });
    });
}
