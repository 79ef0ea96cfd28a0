//! Random worlds of locks that are made of locks: the multi lock, the striped lock and the quorum lock.
//!
//! These kinds are no part of the core: the `leasehold` crate builds them of several locks, each with a client and a server of its own. So
//! whole processes of that crate run here, with its futures, its guards and its backgrounds, against one or several embedded servers. One
//! virtual time is behind the clocks of all, and nothing has a thread or sleeps.

mod checks;
mod disturb;
mod doubts;
mod event;
mod faults;
mod plan;
mod process;
mod user;
mod waiters;
mod wish;
mod world;

use crate::report::stats::Stats;
use crate::workload::family::LockFamily;
use leasehold::embedded::EmbeddedServer;

/// Plays the world of a seed to its end, and tells its history if it is to. Its servers go on with the Lua states of those that an earlier
/// world gave back.
pub(crate) fn run(
    seed: u64,
    family: LockFamily,
    tracing: bool,
    engines: Vec<EmbeddedServer>,
) -> (Stats, Vec<EmbeddedServer>) {
    let mut world = world::World::new(seed, tracing, engines);
    plan::run(&mut world, seed, family);
    world.end()
}
