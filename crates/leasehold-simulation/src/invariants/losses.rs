//! Losses: a hold ends when its holder believes so, the holder is told in time, and none is lost for no reason.

use crate::invariants::Invariants;
use crate::terms::LEASE;
use crate::world::client::Guard;
use crate::world::events::Act;
use crate::world::stats::Coverage;
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::error::{HoldEnd, LossReason};
use leasehold_core::time::Instant;
use std::time::Duration;

/// Wants every holder to know in time that its hold has ended, and no deadline to be put earlier.
pub(super) fn check_ends(world: &mut World) {
    // Hardly any step has one.
    let mut ends = Vec::new();
    for (index, guard) in world.guards.iter_mut().enumerate() {
        let client = &world.clients[guard.client];
        if client.dead || client.stands_since.is_some() {
            continue;
        }
        guard.check_deadline(guard.epoch_of_data != world.server.data_epoch || client.clock_is_wrong);
        let Some(end) = guard.cell.would_end(client.clock.shows(world.now)) else {
            assert!(!guard.passed, "{:?} of client {} is held again after it had ended", guard.hold, guard.client);
            continue;
        };
        // A client that does not run is told when it runs again.
        let is_seen = !guard.over && client.runs();
        let told = guard.ended.is_raised();
        assert!(!is_seen || told, "nobody was told in time that {:?} of client {} ended", guard.hold, guard.client);
        guard.passed = true;
        if is_seen {
            guard.over = true;
            ends.push((index, end));
        }
    }
    for (guard, end) in ends {
        note_end(world, guard, end);
    }
}

/// The holder knows that its hold has ended.
pub(crate) fn note_end(world: &mut World, guard: usize, end: HoldEnd) {
    let HoldEnd::Lost(reason) = end else { return };
    check_loss(world, guard, reason);
    let Guard { client, ref name, alive, .. } = world.guards[guard];
    if alive {
        world.clients[client].lost.insert(name.to_key());
        match reason {
            LossReason::NotRenewed | LossReason::LeaseExpired => world.stats.reach(Coverage::DeadlineTold),
            LossReason::NotRestored => world.stats.reach(Coverage::NotRestored),
            _ => {}
        }
    }
}

/// Those whose holds have just been removed must be told: within `within`, and the time that a command takes.
pub(super) fn note_removals(world: &mut World, within: Duration) {
    for guard in 0..world.guards.len() {
        let state = &world.guards[guard];
        let is_gone = !state.cell.is_degraded() && !world.is_on_server(state);
        if state.alive && state.renewed && world.believes(state) && is_gone {
            let beside = world.guards.iter().filter(|other| other.client == state.client && other.alive).count();
            let slack = ms(60) + ms(20) * u32::try_from(beside).unwrap_or(u32::MAX);
            world.after(within + slack, Promptness { guard, removed: world.now });
        }
    }
}

impl Guard {
    /// Wants no deadline to be put earlier while nothing has disproved it.
    pub(crate) fn check_deadline(&mut self, expected_by_fault: bool) {
        let deadline = self.cell.deadline();
        assert!(deadline >= self.until || expected_by_fault, "the deadline of {:?} was put earlier", self.hold);
        if !self.cell.is_degraded() {
            self.until = deadline;
        }
    }
}

/// If no data is lost, no hold is lost that nothing has gone wrong with for a lease.
fn check_loss(world: &World, guard: usize, reason: LossReason) {
    let Guard { client, alive, renewed, hold, fell_back, passes_through, .. } = world.guards[guard];
    if reason == LossReason::NotRestored {
        assert!(fell_back && !passes_through, "{hold:?} of client {client} was granted by the server");
        return;
    }
    // Near the end of `max_hold` the leases are short. A guard that was never read may have set it.
    let limited = world.guards.iter().any(|guard| guard.client == client && guard.hold == hold && guard.limited)
        || world.asked_with_limit(&world.guards[guard]);
    let fault_free = world.plan.fault_free || world.plan.keeps_data && world.has_been_fault_free(client, LEASE);
    assert!(!fault_free || limited || !renewed || !alive, "{hold:?} of client {client} was lost: {reason}");
}

/// A removal is told in time, unless something else went wrong since.
pub(crate) fn check_promptness(world: &mut World, guard: usize, removed: Instant) {
    let state = &world.guards[guard];
    let client = &world.clients[state.client];
    if !state.alive || !client.runs() {
        return;
    }
    if !world.believes(state) {
        let told = state.cell.would_end(world.local(state.client)) == Some(HoldEnd::Lost(LossReason::Removed));
        return world.stats.reach_all(told.then_some(Coverage::RemovalTold));
    }
    let leapt = client.leapt.is_some_and(|at| at >= client.clock.shows(removed));
    let reachable = world.net.wires[state.client].reachable;
    // A clock that is too slow lets a renewal come late.
    let expected_by_fault = world.last_fault_of(state.client) > removed
        || leapt
        || !reachable
        || client.clock_is_wrong
        || world.is_on_server(state);
    assert!(
        expected_by_fault,
        "client {} was not told that {:?} was removed at {removed:?}, although nothing else went wrong",
        state.client, state.hold
    );
}

/// The holder must have been told by now that its hold was removed.
#[derive(Debug)]
struct Promptness {
    guard: usize,
    removed: Instant,
}

impl Act for Promptness {
    fn within(&self, _world: &World) -> Option<usize> {
        None
    }

    fn draws_for(&self, _world: &World, _number: u64) -> u64 {
        0
    }

    fn happen(self: Box<Self>, world: &mut World) {
        check_promptness(world, self.guard, self.removed);
    }
}

/// The time after the last fault in which the server is asked: the pause between two attempts, twice, and what settling takes.
const RESTORED_WITHIN: Duration = ms(2_000);

/// Guards that were granted without the server: each is restored or lost once its client can reach the server again, and the server never
/// hears of one that only passes through.
#[derive(Debug, Default)]
pub(crate) struct Degraded {
    /// Guards of which the server has not been told yet.
    guards: Vec<usize>,
}

impl Invariants {
    /// A new guard was perhaps granted without the server.
    pub(super) fn note_degraded(&mut self, world: &mut World, guard: usize) {
        let state = &world.guards[guard];
        if !state.cell.is_degraded() {
            return;
        }
        if state.passes_through {
            world.stats.reach(Coverage::PassedThrough);
        } else {
            world.stats.reach(Coverage::Degraded);
            self.degraded.guards.push(guard);
        }
    }

    /// Wants every guard that the server has not heard of to be restored or lost in time.
    pub(super) fn check_degraded(&mut self, world: &mut World) {
        let mut guards = std::mem::take(&mut self.degraded.guards);
        guards.retain(|guard| self.is_still_degraded(world, *guard));
        self.degraded.guards = guards;
    }

    fn is_still_degraded(&mut self, world: &mut World, guard: usize) -> bool {
        let state = &world.guards[guard];
        if !state.alive || !world.believes(state) {
            return false;
        }
        let client = state.client;
        if state.cell.is_degraded() {
            let reachable = world.net.wires[client].reachable && world.clients[client].runs();
            assert!(
                !reachable
                    || !world.has_been_fault_free(client, RESTORED_WITHIN)
                    || world.clients[client].clock_is_wrong,
                "client {client} has {:?} without the server, which it can reach",
                state.hold
            );
            return true;
        }
        trace!(world, "{:?} of client {client} is restored", state.hold);
        world.stats.reach(Coverage::Restored);
        // From here on it is held to all that holds promise.
        world.guards[guard].epoch_of_data = self.grants.epoch_of_promise(&world.guards[guard].wire_id, None);
        self.exclusion.check_belief(world, &world.guards[guard]);
        false
    }

    /// Wants no hold to be granted that only passes through. A copy of an acquire may come late where copies do.
    pub(super) fn check_not_passing_through(world: &World, id: &Bytes) {
        let passes = |id: &Bytes| world.guards.iter().any(|guard| guard.passes_through && guard.wire_id == id);
        assert!(world.plan.copies || !passes(id), "{id:?} is granted, which passes through");
    }
}
