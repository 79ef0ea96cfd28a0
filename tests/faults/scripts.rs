//! Servers that do not know the scripts: after a restart, a failover, or `SCRIPT FLUSH`.

use crate::support::{connect, on_each, on_one_of_each, settings, soon};
use leasehold_core::script::ACQUIRE;
use leasehold_test_support::{Proxy, Server, Way};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// How often the script of the acquire was sent by its hash, and by its text.
fn sent(proxy: &Proxy) -> (usize, usize) {
    let by_hash = proxy.requests_with("EVALSHA").iter().filter(|request| request.contains(ACQUIRE.sha1())).count();
    let by_text = proxy.requests_with(ACQUIRE.source()).iter().filter(|request| request.command() == "EVAL").count();
    (by_hash, by_text)
}

#[test]
fn a_first_acquire_behind_a_slow_link_takes_two_round_trips() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        crate::support::runtime().block_on(async {
            // A client that is late by less does not send a call again.
            let client = settings().command_timeout(MS(60_000)).connect(&proxy.url()).await.expect("a client");
            for round_trip in [5, 50, 100, 200, 400].map(MS) {
                for way in [Way::ToServer, Way::ToClient] {
                    proxy.delay(way, round_trip / 2);
                }
                server.command(&["SCRIPT", "FLUSH"]);
                proxy.clear_requests();
                let guard = soon("an acquire", client.lock("stock").acquire()).await.expect("a lock that is free");
                assert_eq!(sent(&proxy), (1, 1), "once by its hash, once by its text; round trip {round_trip:?}");
                guard.release().await.expect("a release");
            }
        });
    });
}

#[test]
fn a_first_acquire_on_a_busy_executor_is_granted() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = connect(&server.url()).await;
            let over = Arc::new(AtomicBool::new(false));
            let done = Arc::clone(&over);
            let busy = tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let until = Instant::now() + MS(30);
                    while Instant::now() < until {}
                    tokio::task::yield_now().await;
                }
            });
            let rounds = std::env::var("LEASEHOLD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4);
            for round in 0..rounds {
                server.command(&["SCRIPT", "FLUSH"]);
                let guard = soon("an acquire", client.lock("stock").acquire()).await;
                let guard = guard.unwrap_or_else(|error| panic!("round {round}: {error}"));
                guard.release().await.expect("a release");
            }
            over.store(true, Ordering::Relaxed);
            busy.await.expect("a task that ends");
        });
    });
}
