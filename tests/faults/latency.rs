//! Slow links: what is free is had within its wait, by all who may have it at the same time.

use crate::support::{NEVER, connect, on_one_of_each, runtime, scripts, settings, soon};
use futures_util::future::join_all;
use leasehold::{Client, Lock};
use leasehold_test_support::{Proxy, Rounds, Server, Way};
use std::time::Duration;
use tokio::runtime::Builder;

const READERS: usize = 100;

/// How many round trips all of them take together is counted in paused time, in `tests/suite/acquire.rs`.
#[test]
fn hundred_impatient_readers_all_read_over_a_slow_link() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        runtime().block_on(async {
            let client = connect(&proxy.url()).await;
            client.read_write_lock("book").read().acquire().await.expect("a lock").release().await.expect("a release");
            for round_trip in [5, 100].map(Duration::from_millis) {
                for way in [Way::ToServer, Way::ToClient] {
                    proxy.delay(way, round_trip / 2);
                }
                let book = client.read_write_lock("book").read();
                let wait = Duration::from_millis(100);
                // A grant that comes to a task which is held up beyond its wait is worth nothing.
                let mut rounds = Rounds::default();
                loop {
                    let read = join_all((0..READERS).map(|_| book.acquire().wait(wait).into_future())).await;
                    let got = read.iter().filter(|guard| guard.is_ok()).count();
                    if rounds.end_with(got == READERS, format!("{got} of those who wait for {wait:?}")) {
                        break;
                    }
                }
                let again = client.read_write_lock("another").read();
                let read = soon("reading", join_all((0..READERS).map(|_| again.acquire().into_future()))).await;
                assert!(read.iter().all(|guard| guard.is_ok()));
            }
        });
    });
}

/// How many tasks lock at the same time, each a name of its own.
const TASKS: usize = 200;

/// All tasks lock, and unlock again.
async fn lock_all(client: &Client, round: usize) {
    let tasks = (0..TASKS).map(|task| {
        let lock = client.lock(format!("own:{round}:{task}"));
        tokio::spawn(async move { lock.acquire().await.expect("a free lock").release().await.expect("a release") })
    });
    assert!(soon("locking", join_all(tasks)).await.iter().all(Result::is_ok), "no task panics");
}

#[test]
fn calls_share_commands_over_a_slow_link() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        for (millis, is_busy) in [(0, true), (5, false), (5, true), (100, false)] {
            let round_trip = Duration::from_millis(millis);
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                proxy.delay(Way::Both, Duration::ZERO);
                let client = settings().connect(&proxy.url()).await.expect("a client");
                // The first batch loads its script.
                for round in 0..3 {
                    lock_all(&client, round).await;
                }
                proxy.delay(Way::Both, round_trip / 2);
                let busy = tokio::spawn(async move {
                    if is_busy {
                        loop {
                            std::thread::sleep(Duration::from_millis(20));
                            tokio::task::yield_now().await;
                        }
                    }
                });
                // A late future causes a settling, and its call is resent alone. On a busy runtime futures are late in every round, so this only
                // bounds the resends.
                let most = if is_busy { 3 * TASKS } else { TASKS } as u64;
                let mut rounds = Rounds::default();
                for round in 3.. {
                    let before = server.commandstats("evalsha");
                    lock_all(&client, round).await;
                    let sent = server.commandstats("evalsha") - before;
                    if rounds.end_with(sent < most, format!("{sent} commands for {TASKS} pairs")) {
                        break;
                    }
                }
                busy.abort();
                client.shutdown(NEVER).await.expect("a shutdown");
            });
        }
    });
}

/// Takes a lock and releases it. Gives the name of the hold.
async fn take(lock: &Lock) -> String {
    let guard = lock.acquire().await.expect("the lock");
    let holder = guard.holder_id().to_string();
    guard.release().await.expect("a release");
    holder
}

/// A lock that lingers is had without a command by its client, and by another one long before it has lingered.
#[test]
fn lingering_lock_is_had_at_once_and_given_up_soon() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        runtime().block_on(async {
            let (client, other) = (connect(&proxy.url()).await, connect(&proxy.url()).await);
            for round_trip in [5, 100].map(Duration::from_millis) {
                for way in [Way::ToServer, Way::ToClient] {
                    proxy.delay(way, round_trip / 2);
                }
                let lock = client.lock(format!("lingers:{round_trip:?}")).linger(NEVER / 3);
                // The first hold begins the subscription, and does not linger.
                while !take(&lock).await.ends_with('~') {}
                let before = scripts(&server);
                for _ in 0..1_000 {
                    lock.acquire().await.expect("the lock").release().await.expect("a release");
                }
                assert_eq!(scripts(&server), before, "the server is asked");
                let guard = soon("an acquire", other.lock(lock.name()).acquire()).await.expect("the lock");
                guard.release().await.expect("a release");
            }
        });
    });
}
