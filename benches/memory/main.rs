//! The memory of a client: of a lock that is held, and of a task that waits.
//!
//! ```text
//! cargo bench -p leasehold-benches --bench memory
//! ```
//!
//! The server is a process of its own. Two figures are printed for each: the bytes that were asked of the allocator and not given back, which
//! are the same on every machine, and those by which the process has grown. Every allocation is counted, which takes time: so this is a program
//! apart from that of speed.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and stops at the first surprise")]

use leasehold::{Client, Guard};
use leasehold_test_support::{Binary, Server};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let binary = Binary::redis().expect("a Redis server: run `cargo xtask servers`");
    let server = Server::builder().binary(&binary).start();
    println!("server: {} {}", binary.flavor, binary.version);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for number in [10_000, 100_000] {
        runtime.block_on(held(&server, number));
        runtime.block_on(waiting(&server, number));
    }
}

/// What was used at an instant.
#[derive(Clone, Copy)]
struct Used {
    asked_for: usize,
    resident: usize,
}

impl Used {
    fn now() -> Self {
        let stats = ALLOCATOR.stats();
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
        Self { asked_for: stats.bytes_allocated - stats.bytes_deallocated, resident: pages * 4096 }
    }

    fn tell_since(before: Self, number: usize, what: &str) {
        let now = Self::now();
        let each = |now: usize, before: usize| now.saturating_sub(before) / number;
        println!(
            "{number} {what}: {} bytes each, and {} of the process",
            each(now.asked_for, before.asked_for),
            each(now.resident, before.resident)
        );
    }
}

/// Locks of names of their own, with their guards.
async fn held(server: &Server, number: usize) {
    let client = Client::connect(&server.url()).await.expect("a client");
    let warm: Guard = client.lock("bench:warm").acquire().await.expect("the lock");
    let before = Used::now();
    let mut guards = Vec::with_capacity(number);
    for at in 0..number {
        guards.push(client.lock(format!("bench:hold:{at}")).acquire().await.expect("the lock"));
    }
    Used::tell_since(before, number, "locks held");
    drop((warm, guards));
    client.shutdown(Duration::from_secs(60)).await.expect("everything is released");
}

/// Tasks that wait for one lock, and would release it.
async fn waiting(server: &Server, number: usize) {
    let client = Client::connect(&server.url()).await.expect("a client");
    let lock = client.lock("bench:waiters");
    let guard = lock.acquire().await.expect("the lock");
    let before = Used::now();
    let mut tasks = Vec::with_capacity(number);
    for _ in 0..number {
        let lock = lock.clone();
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.expect("the lock");
            guard.release().await.expect("released");
        }));
    }
    while client.stats().requests < number {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Used::tell_since(before, number, "tasks waiting");
    for task in tasks {
        task.abort();
    }
    guard.release().await.expect("released");
    client.shutdown(Duration::from_secs(60)).await.expect("everything is released");
}
