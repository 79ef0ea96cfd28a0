//! Many tasks of one client that wait for one lock.

use crate::measure::resident;
use leasehold::Client;
use leasehold_test_support::Server;
use std::time::{Duration, Instant};

const WAITERS: usize = 10_000;

pub(crate) async fn run(server: &Server) {
    let client = Client::connect(&server.url()).await.expect("a client");
    let lock = client.lock("bench:waiters");
    let guard = lock.acquire().await.expect("the lock");
    let before = resident();
    let tasks: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                let guard = lock.acquire().await.expect("the lock");
                guard.release().await.expect("released");
            })
        })
        .collect();
    while client.stats().requests < WAITERS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let bytes = (resident() - before) / WAITERS;
    let subscriptions = client.stats().subscriptions;
    let commands = server.commandstats("evalsha");
    let begun = Instant::now();
    guard.release().await.expect("released");
    for task in tasks {
        task.await.expect("a task");
    }
    let commands = server.commandstats("evalsha") - commands;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let (each, rate) = (commands as f64 / (WAITERS + 1) as f64, WAITERS as f64 / begun.elapsed().as_secs_f64());
    println!(
        "{WAITERS} tasks waiting for one lock: {subscriptions} subscription, {each:.2} commands a hand-over (2 are the least), \
         {bytes} bytes a waiter, {rate:.0} hand-overs a second"
    );
    client.shutdown(Duration::from_secs(5)).await.expect("everything is released");
}
