//! The memory that a client takes for a lock that is held, and for a task that waits, in bytes that were asked of the allocator.
//!
//! All allocations of this program are counted, so it has one test: others beside it would be counted, too.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and tells its figures"
)]

use leasehold::Client;
use leasehold::embedded::EmbeddedServer;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// So many that what a client has in any case does not count, and that tables have much room in reserve.
const NUMBER: usize = 10_000;

/// The most that a lock may take that is held: guard, name, hold, timer, and its share of the tables.
const OF_A_LOCK: usize = 800;

/// The most that a task may take that waits and then releases, with all that the runtime has for it.
const OF_A_WAITER: usize = 1_250;

/// Bytes that are in use.
fn used() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// The bytes that are in use for each of [`NUMBER`] things, since there were so many in all.
fn each_since(before: usize) -> usize {
    used().saturating_sub(before) / NUMBER
}

fn name(at: usize) -> String {
    format!("memory:hold:{at}")
}

/// What the engine, which is in this process, keeps for a lock that is held.
fn of_the_engine() -> usize {
    let (server, field) = (EmbeddedServer::new(), [b'f'; 41]);
    let before = used();
    for at in 0..NUMBER {
        server.command(&[b"HSET", name(at).as_bytes(), &field, b"1"]).expect("a hash");
        server.command(&[b"PEXPIRE", name(at).as_bytes(), b"30000"]).expect("a lease");
    }
    let each = each_since(before);
    keep(server);
    each
}

/// Keeps something until the process ends: what a background gives back while others are measured would be taken off from theirs.
fn keep<T>(what: T) {
    std::mem::forget(what);
}

async fn of_a_lock() -> usize {
    let client = Client::embedded();
    let warm = client.lock("memory:warm").acquire().await.expect("the lock");
    let before = used();
    let mut guards = Vec::with_capacity(NUMBER);
    for at in 0..NUMBER {
        guards.push(client.lock(name(at)).acquire().await.expect("the lock"));
    }
    let each = each_since(before);
    keep((client, warm, guards));
    each
}

async fn of_a_waiter() -> usize {
    let client = Client::embedded();
    let lock = client.lock("memory:waiters");
    let guard = lock.acquire().await.expect("the lock");
    let before = used();
    let mut tasks = Vec::with_capacity(NUMBER);
    for _ in 0..NUMBER {
        let lock = lock.clone();
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.expect("the lock");
            guard.release().await.expect("a release");
        }));
    }
    while client.stats().requests < NUMBER {
        tokio::task::yield_now().await;
    }
    let each = each_since(before);
    keep((client, lock, guard, tasks));
    each
}

#[test]
fn held_locks_and_waiting_tasks_take_little_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let engine = of_the_engine();
    let lock = runtime.block_on(of_a_lock()).saturating_sub(engine);
    let waiter = runtime.block_on(of_a_waiter());
    println!("a lock takes {lock} bytes, and {engine} of the engine; a waiter takes {waiter}");
    assert!((1..=OF_A_LOCK).contains(&lock), "a lock takes {lock} bytes");
    assert!((1..=OF_A_WAITER).contains(&waiter), "a waiter takes {waiter} bytes");
}
