//! Exclusion: no client believes to hold what another is granted.

use crate::terms::CAPACITY;
use crate::world::client::Guard;
use crate::world::history::OF_NO_EPOCH;
use crate::world::{World, trace};
use bytes::Bytes;
use leasehold_core::command::Kind;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Exclusion {
    /// A grant beside another one is no fault.
    pub(crate) is_waived: bool,
}

impl Exclusion {
    /// No client believes to hold what the server grants to another.
    pub(crate) fn check_grant(&self, world: &World, script: &str, lock: &Bytes, id: &Bytes) {
        if self.is_waived || !world.plan.family.excludes() {
            return;
        }
        let reads = script.starts_with("read");
        let client = world.client_of(id);
        let believer = world.guards.iter().find(|guard| {
            let beside =
                guard.owner.is_some() && Some(guard.client) == client && matches!(guard.kind, Kind::Read | Kind::Write);
            guard.alive
                && guard.name.key() == lock
                && guard.wire_id != id
                && !(reads && guard.kind == Kind::Read)
                && !beside
                && world.is_believed(guard)
        });
        if let Some(guard) = believer {
            trace!(world, "the server grants {id:?} beside {guard:?}");
            panic!(
                "the server granted {lock:?} to {id:?}, and client {} still believes in {:?} until {:?}",
                guard.client,
                guard.hold,
                guard.cell.deadline()
            );
        }
    }

    /// Wants no other guard to believe that it has what was just granted, so far as the kind excludes it. Belief only ends between one
    /// grant and the next.
    pub(crate) fn check_belief(&self, world: &World, guard: &Guard) {
        let believers = world.guards.iter().filter(|other| {
            other.alive
                && other.name.key() == guard.name.key()
                && (other.client, other.hold) != (guard.client, guard.hold)
                && is_held_to_exclude(world, guard, other)
                && world.believes(other)
        });
        if matches!(guard.kind, Kind::Semaphore | Kind::Permits) {
            let taken: u32 = believers.map(|other| other.permits).sum::<u32>() + guard.permits;
            assert!(taken <= CAPACITY || self.is_waived, "{taken} permits of {} are held", guard.name);
            return;
        }
        if self.is_waived {
            return;
        }
        let other = believers.map(|other| (other.client, other.hold, other.kind, other.owner)).find(|other| {
            let both_read = guard.kind == Kind::Read && other.2 == Kind::Read;
            let halves = guard.kind != other.2 && other.3 == guard.owner;
            let one_owner = halves && guard.owner.is_some() && other.0 == guard.client;
            !both_read && !one_owner
        });
        assert_eq!(other, None, "has {} beside {:?} of client {}", guard.name, guard.hold, guard.client);
    }
}

/// Whether two guards must not be believed in at once, so far as it depends on when and how they were granted. Without the server, one
/// excludes the other tasks of its client, and no other process.
fn is_held_to_exclude(world: &World, guard: &Guard, other: &Guard) -> bool {
    if guard.passes_through || other.passes_through {
        return false;
    }
    if guard.cell.is_degraded() || other.cell.is_degraded() {
        return guard.client == other.client;
    }
    let is_wrong = |guard: &Guard| world.clients[guard.client].clock_is_wrong;
    other.epoch_of_data == guard.epoch_of_data
        && other.epoch_of_data != OF_NO_EPOCH
        && !is_wrong(other)
        && (!is_wrong(guard) || world.plan.family.counts())
}
