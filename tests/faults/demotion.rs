//! A primary that becomes a replica while a client is connected to it.

use crate::support::{counts, held, on_each, runtime, settings, soon, until};
use leasehold::{Client, Error};
use leasehold_test_support::{Proxy, Server, Way};
use std::time::Duration;

/// Whatever waits for it hangs.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

const REPLICA: &str = "a replica that may only be read";

/// A replica of a primary that is not there.
fn demote(server: &Server) {
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
}

fn promote(server: &Server) {
    server.command(&["REPLICAOF", "NO", "ONE"]);
}

async fn client(url: &str) -> Client {
    settings().command_timeout(COMMAND_TIMEOUT).connect(url).await.expect("a client")
}

#[test]
fn try_is_told_early_of_a_primary_that_became_a_replica() {
    on_each(|binary| {
        for round_trip in [0, 5, 100] {
            let server = Server::builder().binary(binary).start();
            let proxy = Proxy::to(&server);
            proxy.delay(Way::Both, Duration::from_millis(round_trip / 2));
            runtime().block_on(async {
                let client = client(&proxy.url()).await;
                let impatient = settings().unreachable_after(Duration::from_secs(2));
                let impatient = impatient.connect(&proxy.url()).await.expect("a client");
                let owner = client.new_owner();
                let outer = owner.scope(held(&client, "outer")).await;
                demote(&server);
                let tried = soon("a try", client.lock("stock").try_acquire()).await;
                let told = |error: &Error| {
                    let text = error.to_string();
                    assert!(matches!(error, Error::Unreachable { .. }) && error.is_retryable(), "{error:?}");
                    assert!(text.contains(REPLICA), "{text}");
                };
                told(&tried.expect_err("a replica grants nothing"));
                // A re-entry that is tried.
                let tried = soon("a try", owner.scope(client.lock("outer").try_acquire())).await;
                told(&tried.expect_err("a replica grants nothing"));
                // A waiter may live to see a primary there, and is told in the end what it waited for.
                if round_trip == 5 {
                    let error = soon("a wait", impatient.lock("stock").acquire()).await.expect_err("a replica");
                    // Its last call may be on the way.
                    let expected = matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. });
                    assert!(expected && error.to_string().contains(REPLICA), "{error:?}");
                }
                let lock = client.lock("stock");
                let waiting = tokio::spawn(async move { lock.acquire().await });
                until("it waits", || client.stats().requests == 1).await;
                promote(&server);
                waiting.await.expect("a task").expect("the lock").release().await.expect("a release");
                outer.release().await.expect("a release");
                assert!(counts(&server, "stock").is_empty());
            });
        }
    });
}

#[test]
fn try_finds_the_new_primary_behind_one_name() {
    on_each(|binary| {
        for round_trip in [0, 5, 100] {
            let [old, new] = [(); 2].map(|()| Server::builder().binary(binary).start());
            let proxy = Proxy::to(&old);
            proxy.delay(Way::Both, Duration::from_millis(round_trip / 2));
            runtime().block_on(async {
                let client = client(&proxy.url()).await;
                // The connections that stand lead to the old one.
                proxy.retarget(new.addr());
                demote(&old);
                let tried = soon("a try", client.lock("stock").try_acquire()).await;
                let guard = tried.expect("an answer").expect("a lock that is free");
                assert_eq!(counts(&new, "stock"), [1]);
                guard.release().await.expect("a release");
            });
        }
    });
}
