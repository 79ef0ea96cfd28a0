//! Acquire and release of a lock without contention.

use crate::floor::Floor;
use crate::measure::{Ratio, processor_time, quantile};
use bytes::Bytes;
use leasehold::Client;
use leasehold_core::name::LockName;
use leasehold_test_support::Server;
use rlock::async_lock::RLock;
use rslock::LockManager;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 15;
const PAIRS: usize = 2_000;
const SLICE: Duration = Duration::from_millis(600);
/// How many tasks there are, each with a lock of its own.
const TASKS: [usize; 3] = [16, 64, 256];

pub(crate) async fn run(server: &Server) {
    let variants = [
        Variant::Floor(Floor::connect(&server.url()).await),
        Variant::Leasehold(Client::connect(&server.url()).await.expect("a client")),
        Variant::Batches(Client::builder().batch_calls(true).connect(&server.url()).await.expect("a client")),
        Variant::Rslock(Arc::new(LockManager::new(vec![server.url()]))),
        Variant::Rlock(RLock::new(server.url()).await.expect("a client")),
    ];
    one_task(&variants).await;
    for tasks in TASKS {
        many_tasks(&variants, tasks).await;
    }
}

#[derive(Clone)]
enum Variant {
    Floor(Floor),
    Leasehold(Client),
    /// leasehold with group commit.
    Batches(Client),
    Rslock(Arc<LockManager>),
    Rlock(RLock),
}

impl Variant {
    const fn name(&self) -> &'static str {
        match self {
            Self::Floor(_) => "bare fred",
            Self::Leasehold(_) => "leasehold",
            Self::Batches(_) => "leasehold in batches",
            Self::Rslock(_) => "rslock",
            Self::Rlock(_) => "rlock",
        }
    }

    /// Acquires and releases `name` until told to stop; gives each pair's time to `each`.
    async fn repeat(&self, name: &str, mut each: impl FnMut(Duration) -> bool) {
        let lease = Duration::from_secs(30);
        match self {
            Self::Floor(floor) => {
                let lock = LockName::new("", name).expect("a name");
                let uuid = uuid::Uuid::new_v4();
                let mut number = 0_u64;
                loop {
                    let begun = Instant::now();
                    number += 1;
                    let hold = Bytes::from(format!("{}:{number}", uuid.hyphenated()));
                    floor.acquire(&lock, &hold).await;
                    floor.release(&lock, &hold).await;
                    if !each(begun.elapsed()) {
                        return;
                    }
                }
            }
            Self::Leasehold(client) | Self::Batches(client) => {
                let lock = client.lock(name);
                loop {
                    let begun = Instant::now();
                    let guard = lock.acquire().await.expect("the lock");
                    guard.release().await.expect("released");
                    if !each(begun.elapsed()) {
                        return;
                    }
                }
            }
            Self::Rslock(manager) => loop {
                let begun = Instant::now();
                let lock = manager.lock(name.as_bytes(), lease).await.expect("the lock");
                manager.unlock(&lock).await;
                if !each(begun.elapsed()) {
                    return;
                }
            },
            Self::Rlock(manager) => loop {
                let begun = Instant::now();
                let mut guard = manager.acquire_mutex(name).await.expect("the lock");
                guard.release().await.expect("released");
                if !each(begun.elapsed()) {
                    return;
                }
            },
        }
    }
}

async fn one_task(variants: &[Variant]) {
    let mut halves = vec![Vec::new(); variants.len()];
    let mut tails = vec![Vec::new(); variants.len()];
    for round in 0..=ROUNDS {
        for (index, variant) in variants.iter().enumerate() {
            let mut times = Vec::with_capacity(PAIRS);
            let name = format!("bench:one:{}", variant.name());
            variant
                .repeat(&name, |time| {
                    times.push(time);
                    times.len() < PAIRS
                })
                .await;
            // The first round warms up.
            if round > 0 {
                halves[index].push(quantile(&mut times, 0.5).as_secs_f64());
                tails[index].push(quantile(&mut times, 0.99).as_secs_f64());
            }
        }
    }
    for (index, variant) in variants.iter().enumerate().skip(1) {
        println!("1 task, p50 of a pair, {} : bare fred = {}", variant.name(), Ratio::of(&halves[index], &halves[0]));
        println!("1 task, p99 of a pair, {} : bare fred = {}", variant.name(), Ratio::of(&tails[index], &tails[0]));
    }
}

async fn many_tasks(variants: &[Variant], count: usize) {
    let mut rates = vec![Vec::new(); variants.len()];
    let mut costs = vec![Vec::new(); variants.len()];
    let mut tails = vec![Vec::new(); variants.len()];
    for round in 0..=ROUNDS {
        for (index, variant) in variants.iter().enumerate() {
            let pairs = Arc::new(AtomicU64::new(0));
            let used = processor_time();
            let begun = Instant::now();
            let mut tasks = Vec::new();
            for task in 0..count {
                let (variant, pairs) = (variant.clone(), pairs.clone());
                tasks.push(tokio::spawn(async move {
                    let name = format!("bench:many:{}:{task}", variant.name());
                    let mut times = Vec::new();
                    variant
                        .repeat(&name, |time| {
                            times.push(time);
                            pairs.fetch_add(1, Ordering::Relaxed);
                            begun.elapsed() < SLICE
                        })
                        .await;
                    times
                }));
            }
            let mut times = Vec::new();
            for task in tasks {
                times.extend(task.await.expect("a task"));
            }
            if round > 0 {
                #[expect(clippy::cast_precision_loss, reason = "a rate")]
                let pairs = pairs.load(Ordering::Relaxed) as f64;
                rates[index].push(pairs / begun.elapsed().as_secs_f64());
                costs[index].push((processor_time() - used).as_secs_f64() / pairs);
                tails[index].push(quantile(&mut times, 0.99).as_secs_f64());
            }
        }
    }
    for (index, variant) in variants.iter().enumerate().skip(1) {
        for (what, figures) in [("throughput", &rates), ("p99 of a pair", &tails), ("client CPU a pair", &costs)] {
            println!(
                "{count} tasks, {what}, {} : bare fred = {}",
                variant.name(),
                Ratio::of(&figures[index], &figures[0])
            );
        }
    }
}
