//! The steps of scenarios with a world.

use crate::faults::rates::{CallFault, PlannedFault};
use crate::world::client::{Outcome, PollPolicy, Task};
use crate::world::{World, ms, name};
use leasehold_core::command::Kind;
use leasehold_core::session::{AcquireRequest, Event};
use std::time::Duration;

/// A wish for a renewed lease, without end of patience.
pub(crate) fn wish(lock: &str) -> AcquireRequest {
    AcquireRequest::new(name(lock), Kind::Lock, ms(3_000))
}

impl World {
    /// Runs until the task is done, and says how it ended.
    pub(crate) fn outcome(&mut self, client: usize, task: usize) -> Outcome {
        let until = self.now + Duration::from_secs(120);
        while self.clients[client].tasks[task].outcome.is_none() {
            assert!(self.step(until), "the task never ends");
        }
        self.clients[client].tasks[task].outcome.clone().expect("it is done")
    }

    /// Runs until a client has what it wishes.
    pub(crate) fn hold(&mut self, client: usize, wish: AcquireRequest) -> usize {
        let task = self.acquire(client, wish);
        self.granted(client, task)
    }

    /// Runs until the task has a lock that excludes only those of its own client, or none at all.
    pub(crate) fn granted_beside(&mut self, client: usize, task: usize) -> usize {
        self.invariants.exclusion.is_waived = true;
        let guard = self.granted(client, task);
        self.invariants.exclusion.is_waived = false;
        guard
    }

    /// Runs until the task has the lock.
    pub(crate) fn granted(&mut self, client: usize, task: usize) -> usize {
        match self.outcome(client, task) {
            Outcome::Granted(guard) => guard,
            other => panic!("not granted: {other:?}"),
        }
    }

    pub(crate) fn acquire(&mut self, client: usize, wish: AcquireRequest) -> usize {
        self.acquire_polled(client, wish, PollPolicy::AtOnce)
    }

    pub(crate) fn release(&mut self, guard: usize) -> usize {
        self.release_polled(guard, PollPolicy::AtOnce)
    }

    /// Releases a guard, and wants that to succeed.
    pub(crate) fn give_back(&mut self, guard: usize) {
        let client = self.guards[guard].client;
        let task = self.release(guard);
        assert_eq!(self.outcome(client, task), Outcome::Released);
    }

    /// How often an event happened to a client.
    pub(crate) fn events(&self, client: usize, is_it: impl Fn(&Event) -> bool) -> usize {
        self.clients[client].events.iter().filter(|event| is_it(event)).count()
    }

    pub(crate) fn task(&self, client: usize, task: usize) -> &Task {
        &self.clients[client].tasks[task]
    }

    /// The next call of a script by a client meets this.
    pub(crate) fn fault(&mut self, client: usize, script: &'static str, kind: CallFault) {
        self.faults.planned.push(PlannedFault { client, script, kind });
    }
}
