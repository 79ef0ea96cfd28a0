//! The number of heap allocations of an acquire and its release.
//!
//! The counts include every thread of the program, so it has one test.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and prints its figures"
)]

use leasehold::{Client, Lock};
use leasehold_test_support::Server;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The most allocations of an acquire and its release, when nobody else wants the lock.
const MOST: usize = 7;

/// Number of acquires and releases per round.
const PAIRS: usize = 200;

/// Number of rounds. The background allocates in some of them.
const ROUNDS: usize = 20;

/// Number of held locks with which debug builds skip the allocating checks of a session.
const UNCHECKED: usize = 300;

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

async fn round(lock: &Lock) -> usize {
    let before = allocations();
    for _ in 0..PAIRS {
        lock.acquire().await.expect("the lock").release().await.expect("a release");
    }
    allocations() - before
}

#[test]
fn uncontended_pair_allocates_at_most_7_times() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let least = runtime.block_on(async {
        let client = Client::connect(&server.url()).await.expect("a client");
        let mut held = Vec::new();
        for at in 0..UNCHECKED {
            held.push(client.lock(format!("allocations:held:{at}")).acquire().await.expect("the lock"));
        }
        let lock = client.lock("allocations:lock");
        round(&lock).await;
        let mut least = usize::MAX;
        for _ in 0..ROUNDS {
            least = least.min(round(&lock).await);
        }
        least
    });
    println!("{PAIRS} pairs allocate {least} times");
    assert!((1..=MOST).contains(&(least / PAIRS)), "{PAIRS} pairs allocate {least} times");
}
