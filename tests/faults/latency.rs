//! Slow links: what is free is had within its wait, by all who may have it at the same time.

use crate::support::{SLACK, connect, on_one_of_each, runtime, settings, until};
use futures_util::future::join_all;
use leasehold::Client;
use leasehold_test_support::{Proxy, Resp, Server, Way};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const READERS: usize = 100;

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
                let begun = Instant::now();
                let wait = Duration::from_millis(100);
                let read = join_all((0..READERS).map(|_| book.acquire().wait(wait).into_future())).await;
                let short = begun.elapsed();
                let got = read.iter().filter(|guard| guard.is_ok()).count();
                assert_eq!(got, READERS, "of those who wait for {wait:?}, round trip {round_trip:?}");
                for guard in read.into_iter().flatten() {
                    guard.detach();
                }
                let again = client.read_write_lock("another").read();
                let begun = Instant::now();
                let read = join_all((0..READERS).map(|_| again.acquire().into_future())).await;
                let took = begun.elapsed();
                eprintln!("round trip {round_trip:?}: {short:?} with a short wait, {took:?} without a limit");
                assert!(read.iter().all(|guard| guard.is_ok()));
                // One behind the other it is a hundred round trips.
                assert!(took < round_trip * 12 + SLACK, "{took:?}");
            }
        });
    });
}

/// How many tasks lock at the same time, each a name of its own.
const TASKS: usize = 200;

/// All tasks lock, and unlock again.
async fn lock_all(client: &Client, round: usize) -> Duration {
    let begun = Instant::now();
    let tasks = (0..TASKS).map(|task| {
        let lock = client.lock(format!("own:{round}:{task}"));
        tokio::spawn(async move { lock.acquire().await.expect("a free lock").release().await.expect("a release") })
    });
    assert!(join_all(tasks).await.iter().all(Result::is_ok), "no task panics");
    begun.elapsed()
}

#[test]
fn calls_in_batches_are_few_over_a_slow_link() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        for (millis, is_busy) in [(0, true), (5, false), (5, true), (100, false)] {
            let round_trip = Duration::from_millis(millis);
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                proxy.delay(Way::Both, Duration::ZERO);
                let client = settings().batch_calls(true).connect(&proxy.url()).await.expect("a client");
                // Batches are answered soon until now.
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
                let before = server.commandstats("evalsha");
                let took = lock_all(&client, 3).await;
                let sent = server.commandstats("evalsha") - before;
                busy.abort();
                eprintln!("round trip {round_trip:?}, on a busy thread: {is_busy}: {took:?}, {sent} commands");
                assert!(took < round_trip * 12 + SLACK, "{took:?} for {round_trip:?}");
                // A batch has up to 64 calls. Calls that are settled because their futures are late would be sent again, one by one.
                assert!(sent < TASKS as u64 / 4, "{sent} commands for {TASKS} pairs");
                client.shutdown(SLACK).await.expect("a shutdown");
            });
        }
    });
}

/// A lock that lingers is had without a round trip by its client, and by another one in a few.
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
                let lock = client.lock(format!("lingers:{round_trip:?}")).linger(Duration::from_secs(8));
                let begun = Instant::now();
                lock.acquire().await.expect("the lock").release().await.expect("a release");
                // It lingers although its holder's subscription is not confirmed.
                let pairs = 1_000;
                for _ in 0..pairs {
                    lock.acquire().await.expect("the lock").release().await.expect("a release");
                }
                let took = begun.elapsed();
                assert!(took < round_trip + SLACK, "{took:?} for {pairs} pairs");
                let channel = format!("redisson_lock__channel:{{{}}}", lock.name());
                let listeners =
                    || server.command(&["PUBSUB", "NUMSUB", &channel]).elements().get(1).and_then(Resp::as_int);
                until("the holder listens", || listeners() == Some(1)).await;
                let begun = Instant::now();
                let guard = other.lock(lock.name()).acquire().await.expect("the lock");
                let had = begun.elapsed();
                eprintln!("round trip {round_trip:?}: {pairs} pairs in {took:?}, and another client had it in {had:?}");
                assert!(had < round_trip * 5 + SLACK, "{had:?}");
                guard.release().await.expect("a release");
            }
        });
    });
}
