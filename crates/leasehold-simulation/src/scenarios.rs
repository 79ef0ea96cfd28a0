//! One behaviour each, and the steps that they are made of.

mod checkers;
mod disasters;
mod fallback;
mod losses;
mod places;
mod reentry;
mod refusals;
mod releases;
mod renewals;
mod unknown;
mod waiting;

use crate::invariants::Invariants;
use crate::run::{Audience, observed};
use crate::world::client::{Outcome, PollPolicy, Task};
use crate::world::history::Fact;
use crate::world::network::{CallFault, PlannedFault};
use crate::world::{Engines, World, ms, name, settings};
use leasehold_core::command::Kind;
use leasehold_core::session::{AcquireRequest, Event};
use leasehold_core::time::Instant;
use std::any::Any;
use std::time::Duration;

/// A calm world without clients.
fn seeded(seed: u64) -> World {
    observed(seed, &mut Engines::default())
}

/// The same, with so many clients.
fn world(clients: usize) -> World {
    let mut world = seeded(7);
    for _ in 0..clients {
        world.add_client(settings());
    }
    world
}

/// A calm world in which client 0 has the lock `a`.
fn holding(clients: usize) -> (World, usize) {
    let mut world = world(clients);
    let guard = world.hold(0, wish("a"));
    (world, guard)
}

/// Waits until the clients have nothing to look after, and wants nothing to be left.
fn nothing_left(world: &mut World) {
    world.run(ms(1_500));
    world.check_nothing_left();
}

/// The same, once this last guard is given back.
fn nothing_left_after(world: &mut World, guard: usize) {
    world.give_back(guard);
    nothing_left(world);
}

/// How long after `since` it is in the world.
fn elapsed(world: &World, since: Instant) -> Duration {
    world.now.since(since)
}

/// A wish for a renewed lease, without end of patience.
fn wish(lock: &str) -> AcquireRequest {
    AcquireRequest::new(name(lock), Kind::Lock, ms(3_000))
}

impl World {
    /// Looks at the records of the rules.
    pub(crate) fn judged<T>(&mut self, look: impl FnOnce(&mut Invariants, &mut Self) -> T) -> T {
        let observer = self.observer.clone();
        let observer: &mut dyn Any = &mut *observer.borrow_mut();
        look(&mut observer.downcast_mut::<Audience>().expect("a world has an audience").invariants, self)
    }

    /// The checks after every step.
    pub(crate) fn check(&mut self) {
        self.tell(Fact::Stepped);
    }

    /// A caller is told of this.
    pub(crate) fn check_outcome(&mut self, client: usize, task: usize, outcome: &Outcome) {
        self.tell(Fact::Told { client, task, outcome });
    }

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
        self.judged(|rules, _| rules.exclusion.is_waived = true);
        let guard = self.granted(client, task);
        self.judged(|rules, _| rules.exclusion.is_waived = false);
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

    /// Extends the lease of a guard, and drops the future: the call goes on.
    pub(crate) fn extend(&mut self, guard: usize, lease: Duration) {
        let (client, hold) = (self.guards[guard].client, self.guards[guard].hold);
        let now = self.local(client);
        let session = &mut self.clients[client].session;
        let ticket = session.extend(now, hold, lease);
        session.abandon_extension(ticket);
        self.look_after(client);
    }

    pub(crate) fn task(&self, client: usize, task: usize) -> &Task {
        &self.clients[client].tasks[task]
    }

    /// The next call of a script by a client meets this.
    pub(crate) fn fault(&mut self, client: usize, script: &'static str, kind: CallFault) {
        self.net.planned.push(PlannedFault { client, script, kind });
    }
}
