//! Models of a whole client on the embedded engine: its threads and its background, in every order with few preemptions.
//!
//! The background runs on a thread of loom, and the clock does not advance. No timer masks a missing wake-up, so loom reports it as a deadlock.

use crate::Client;
use crate::blocking::wait;
use leasehold_embedded::{EmbeddedServer, ManualClock};
use loom::thread::JoinHandle;
use std::time::Duration;

/// The stack in machine words. Lua and its compiler need more than loom's default.
const STACK: usize = 0x2_0000;

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    loom::thread::Builder::new().stack_size(STACK).spawn(work).expect("a thread")
}

/// Runs a scenario in all thread orders with at most three preemptions.
fn explore(scenario: impl Fn(World) + Copy + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 10_000;
    model.check(move || spawn(move || scenario(World::new())).join().expect("the scenario"));
}

/// One client, whose background has a thread.
struct World {
    client: Client,
    server: EmbeddedServer,
    background: JoinHandle<()>,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        let inner = Client::builder().without_background(&server, clock);
        let client = Client::new(inner.clone());
        let background = spawn(move || wait(super::run(inner)));
        Self { client, server, background }
    }

    /// Drops the last handle, which waits for the background.
    fn end(self) {
        drop(self.client);
        assert_eq!(self.server.keys(), [""; 0], "something is left on the server");
        self.background.join().expect("the background ends");
    }
}

#[test]
fn the_last_handle_waits_for_the_release_of_its_lock() {
    explore(|world| {
        drop(wait(world.client.lock("stock").acquire()).expect("the lock"));
        world.end();
    });
}

#[test]
fn a_thread_that_waits_is_woken_by_a_release() {
    explore(|world| {
        let lock = world.client.lock("stock");
        let waits = spawn(move || wait(wait(lock.acquire()).expect("the lock").release()).expect("a release"));
        wait(wait(world.client.lock("stock").acquire()).expect("the lock").release()).expect("a release");
        waits.join().expect("it gets the lock");
        world.end();
    });
}

#[test]
fn a_thread_that_waits_is_woken_by_a_drop() {
    explore(|world| {
        let lock = world.client.lock("stock");
        let waits = spawn(move || drop(wait(lock.acquire()).expect("the lock")));
        drop(wait(world.client.lock("stock").acquire()).expect("the lock"));
        waits.join().expect("it gets the lock");
        world.end();
    });
}

#[test]
fn a_shutdown_and_the_drop_of_a_guard_both_end() {
    explore(|world| {
        let guard = wait(world.client.lock("stock").acquire()).expect("the lock");
        let drops = spawn(move || drop(guard));
        wait(world.client.shutdown(Duration::from_secs(5))).expect("nothing is left");
        drops.join().expect("a drop");
        world.end();
    });
}

#[test]
fn threads_that_drop_the_last_handles_at_once_both_go_on() {
    explore(|world| {
        let other = world.client.clone();
        let drops = spawn(move || drop(other));
        world.end();
        drops.join().expect("a drop");
    });
}
