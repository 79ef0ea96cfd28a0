//! `leasehold deadlocks` finds programs that wait for each other.

use crate::support::{Start as _, bare, held, leasehold, objects};
use leasehold::{Client, Guard, Owner};
use leasehold_test_support::{Server, until};
use std::time::Duration;

/// An owner of a client of its own that holds a lock.
async fn holds(server: &Server, application: &str, lock: &str) -> (Client, Owner, Guard) {
    let client = Client::builder().announce(application).connect(&server.url()).await.expect("a server");
    let owner = client.new_owner();
    let guard = owner.scope(async { client.lock(lock).acquire().await.expect("the lock") }).await;
    (client, owner, guard)
}

#[test]
fn circle_of_two_programs_is_found() {
    let server = Server::start();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let circle = [("orders\u{1b}[2J", "stock", "till"), ("bookings", "till", "stock")];
    // Both hold before one of them waits.
    let holders = circle.map(|(application, held, _)| runtime.block_on(holds(&server, application, held)));
    for ((client, owner, guard), (_, _, wanted)) in holders.into_iter().zip(circle) {
        let wanted = client.lock(wanted);
        runtime.spawn(async move {
            let waited = owner.scope(async { wanted.acquire().wait(Duration::from_secs(60)).await }).await;
            drop((client, guard, waited));
        });
    }
    until("the circle is found", || leasehold(&server).arg("deadlocks").finish().code() == 1);
    let done = leasehold(&server).arg("deadlocks").finish();
    assert_eq!((done.code(), done.stdout.lines().count(), done.stderr.as_str()), (1, 1, ""), "{done:?}");
    let process = format!("process {} on ", std::process::id());
    for word in [r"orders\u{1b}[2J", "bookings", &process, "for till, which", "for stock, which", "; "] {
        assert!(done.stdout.contains(word), "{done:?} has {word:?}");
    }
    let done = leasehold(&server).args(["deadlocks", "--json"]).finish();
    let found = objects(&done.stdout);
    assert_eq!((done.code(), found.len(), found[0]["waits"].as_array().map(Vec::len)), (1, 1, Some(2)), "{done:?}");
    assert!(found[0]["waits"][0]["waited_ms"].as_u64().is_some_and(|waited| waited >= 1_000), "{done:?}");
}

#[test]
fn wait_that_is_no_circle_is_none() {
    let server = Server::start();
    let done = leasehold(&server).arg("deadlocks").finish();
    assert_eq!((done.code(), done.stdout.as_str()), (0, ""));
    assert!(done.line().contains("no deadlock was found"), "{done:?}");
    let done = leasehold(&server).args(["deadlocks", "--json"]).finish();
    assert_eq!((done.code(), done.stdout.as_str(), objects(done.line()).len()), (0, "", 1));
}

#[test]
fn refusal_names_the_rights_and_takes_no_record_for_a_lock() {
    let commands = "+eval +evalsha +hget +type +pttl +time +exists +publish +subscribe +info +ping";
    for (rights, refused) in
        [("~x", "scan"), ("~x +scan", "keys"), ("~x ~leasehold:1:client:* +scan", "can't run this command")]
    {
        let server = Server::builder().user(&format!("app on >secret &* {commands} {rights}")).start();
        let _announced = held(&server, &["x"]);
        until("a program has announced itself", || {
            !server.command(&["KEYS", "leasehold:1:client:*"]).elements().is_empty()
        });
        let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
        let done = bare().env("LEASEHOLD_URL", &url).args(["deadlocks", "--json"]).finish();
        let told = objects(done.line()).remove(0);
        let message = told["message"].as_str().expect("a text");
        assert_eq!((done.code(), &told["lock"]), (77, &serde_json::Value::Null), "{told}");
        for word in ["what programs say of themselves", refused, "+scan, +hlen, +hmget and ~leasehold:1:client:*"] {
            assert!(message.contains(word), "{message} has {word}");
        }
        assert!(!message.contains("lock \""), "{message}");
    }
}
