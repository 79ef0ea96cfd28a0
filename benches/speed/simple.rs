//! The simple lock without contention, against rslock and against redsync and bsm/redislock in Go: one key and one owner each, a value that
//! is compared when it is released, a fixed lease.

use crate::floor::Floor;
use crate::go::{Go, Pairs};
use crate::measure::{Ratio, processor_time, quantile};
use bytes::Bytes;
use leasehold::Client;
use leasehold_core::name::LockName;
use leasehold_test_support::Server;
use rslock::LockManager;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 11;
const LEASE: Duration = Duration::from_secs(30);
/// How many tasks there are, and how often each acquires and releases in a round.
const LOADS: [(usize, usize); 2] = [(1, 1_500), (64, 150)];

#[derive(Clone)]
enum Variant {
    Floor(Floor),
    Leasehold(Client),
    Rslock(Arc<LockManager>),
}

/// The results of the rounds of one variant.
#[derive(Default)]
struct Seen {
    halves: Vec<f64>,
    tails: Vec<f64>,
    rates: Vec<f64>,
    costs: Vec<f64>,
}

pub(crate) async fn run(server: &Server) {
    let variants = [
        ("bare fred", Variant::Floor(Floor::connect(&server.url()).await)),
        ("leasehold", Variant::Leasehold(Client::connect(&server.url()).await.expect("a client"))),
        ("rslock", Variant::Rslock(Arc::new(LockManager::new(vec![server.url()])))),
    ];
    let mut go = Go::start(server.addr());
    if let Err(why) = &go {
        println!("redsync and bsm/redislock are SKIPPED: {why}");
    }
    println!(
        "| simple lock, to bare fred | tasks | p50 | p99 | throughput | client's processor time |\n|---|---|---|---|---|---|"
    );
    for (tasks, pairs) in LOADS {
        let mut seen: Vec<(&str, Seen)> = variants.iter().map(|(name, _)| (*name, Seen::default())).collect();
        if go.is_ok() {
            seen.extend([("redsync", Seen::default()), ("redislock", Seen::default())]);
        }
        for round in 0..=ROUNDS {
            for (at, (name, seen)) in seen.iter_mut().enumerate() {
                let figures = match (variants.get(at), &mut go) {
                    (Some((_, variant)), _) => variant.repeat(tasks, pairs).await,
                    (None, Ok(go)) => tokio::task::block_in_place(|| go.repeat(name, tasks, pairs)),
                    (None, Err(_)) => continue,
                };
                // The first round warms up.
                if round > 0 {
                    seen.halves.push(figures.half.as_secs_f64());
                    seen.tails.push(figures.tail.as_secs_f64());
                    seen.rates.push(figures.number / figures.all.as_secs_f64());
                    seen.costs.push(figures.processor.as_secs_f64() / figures.number);
                }
            }
        }
        let (_, floor) = &seen[0];
        for (name, seen) in &seen[1..] {
            println!(
                "| {name} | {tasks} | {} | {} | {} | {} |",
                Ratio::of(&seen.halves, &floor.halves),
                Ratio::of(&seen.tails, &floor.tails),
                Ratio::of(&seen.rates, &floor.rates),
                Ratio::of(&seen.costs, &floor.costs),
            );
        }
        let (_, ours) = &seen[1];
        for (name, peer) in &seen[2..] {
            println!(
                "| leasehold : {name} | {tasks} | {} | {} | {} | {} |",
                Ratio::of(&ours.halves, &peer.halves),
                Ratio::of(&ours.tails, &peer.tails),
                Ratio::of(&ours.rates, &peer.rates),
                Ratio::of(&ours.costs, &peer.costs),
            );
        }
    }
    println!();
}

impl Variant {
    /// Has each of so many tasks acquire and release a lock of its own so many times.
    async fn repeat(&self, tasks: usize, pairs: usize) -> Pairs {
        let used = processor_time();
        let begun = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|task| {
                let variant = self.clone();
                tokio::spawn(async move { variant.one_task(task, pairs).await })
            })
            .collect();
        let mut times = Vec::with_capacity(tasks * pairs);
        for task in running {
            times.extend(task.await.expect("a task"));
        }
        let (all, processor) = (begun.elapsed(), processor_time() - used);
        #[expect(clippy::cast_precision_loss, reason = "a rate is made of it")]
        let number = times.len() as f64;
        Pairs { number, all, half: quantile(&mut times, 0.5), tail: quantile(&mut times, 0.99), processor }
    }

    async fn one_task(&self, task: usize, pairs: usize) -> Vec<Duration> {
        let mut times = Vec::with_capacity(pairs);
        match self {
            Self::Floor(floor) => {
                let name = LockName::new("", &format!("bench:simple:floor:{task}")).expect("a name");
                for _ in 0..pairs {
                    let begun = Instant::now();
                    let hold = Bytes::from(uuid::Uuid::new_v4().simple().to_string());
                    floor.acquire_simple(&name, &hold).await;
                    floor.release_simple(&name, &hold).await;
                    times.push(begun.elapsed());
                }
            }
            Self::Leasehold(client) => {
                let lock = client.simple_lock(format!("bench:simple:leasehold:{task}"), LEASE);
                for _ in 0..pairs {
                    let begun = Instant::now();
                    let guard = lock.acquire().await.expect("the lock");
                    guard.release().await.expect("released");
                    times.push(begun.elapsed());
                }
            }
            Self::Rslock(manager) => {
                let name = format!("bench:simple:rslock:{task}");
                for _ in 0..pairs {
                    let begun = Instant::now();
                    let lock = manager.lock(name.as_bytes(), LEASE).await.expect("the lock");
                    manager.unlock(&lock).await;
                    times.push(begun.elapsed());
                }
            }
        }
        times
    }
}
