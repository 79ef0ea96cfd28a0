//! One behaviour each.

mod checkers;
mod disasters;
mod driver;
mod endings;
mod fallback;
mod halves;
mod losses;
mod many;
mod notices;
mod places;
mod processes;
mod reentry;
mod refusals;
mod releases;
mod renewals;
mod unknown;
mod waiting;

use crate::world::{World, ms, settings};
use std::time::Duration;

/// A calm world with so many clients.
fn world(clients: usize) -> World {
    let mut world = World::new(7);
    for _ in 0..clients {
        world.add_client(settings());
    }
    world
}

/// The same, in which client 0 has the lock `a`.
fn holding(clients: usize) -> (World, usize) {
    let mut world = world(clients);
    let guard = world.hold(0, driver::wish("a"));
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
fn elapsed(world: &World, since: leasehold_core::time::Instant) -> Duration {
    world.now.since(since)
}
