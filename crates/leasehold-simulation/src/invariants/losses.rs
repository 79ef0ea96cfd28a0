//! Losses: a hold ends when its holder believes so, the holder is told in time, and none is lost for no reason.

use crate::report::stats::Coverage;
use crate::workload::plan::LEASE;
use crate::world::client::Guard;
use crate::world::event::WorldEvent;
use crate::world::{World, ms};
use leasehold_core::error::{HoldEnd, LossReason};
use leasehold_core::time::Instant;
use std::time::Duration;

impl World {
    /// Wants every holder to know in time that its hold has ended, and no deadline to be put earlier.
    pub(crate) fn check_ends(&mut self) {
        // Hardly any step has one.
        let mut ends = Vec::new();
        for (index, guard) in self.guards.iter_mut().enumerate() {
            let client = &self.clients[guard.client];
            if client.dead || client.stands_since.is_some() {
                continue;
            }
            guard.check_deadline(guard.epoch_of_data != self.server.data_epoch || client.clock_is_wrong);
            let Some(end) = guard.cell.would_end(client.clock.shows(self.now)) else {
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
            self.note_end(guard, end);
        }
    }

    /// The holder knows that its hold has ended.
    pub(crate) fn note_end(&mut self, guard: usize, end: HoldEnd) {
        let HoldEnd::Lost(reason) = end else { return };
        check_loss(self, guard, reason);
        let Guard { client, ref name, alive, .. } = self.guards[guard];
        if alive {
            self.clients[client].lost.insert(name.to_key());
            match reason {
                LossReason::NotRenewed | LossReason::LeaseExpired => self.stats.reach(Coverage::DeadlineTold),
                LossReason::NotRestored => self.stats.reach(Coverage::NotRestored),
                _ => {}
            }
        }
    }

    /// Those whose holds have just been removed must be told: within `within`, and the time that a command takes.
    pub(crate) fn note_removals(&mut self, within: Duration) {
        for guard in 0..self.guards.len() {
            let state = &self.guards[guard];
            let is_gone = !state.cell.is_degraded() && !self.is_on_server(state);
            if state.alive && state.renewed && self.believes(state) && is_gone {
                let beside = self.guards.iter().filter(|other| other.client == state.client && other.alive).count();
                let slack = ms(60) + ms(20) * u32::try_from(beside).unwrap_or(u32::MAX);
                self.after(within + slack, WorldEvent::Promptness { guard, removed: self.now });
            }
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
pub(crate) fn check_promptness(world: &World, guard: usize, removed: Instant) -> Option<Coverage> {
    let state = &world.guards[guard];
    let client = &world.clients[state.client];
    if !state.alive || !client.runs() {
        return None;
    }
    if !world.believes(state) {
        let told = state.cell.would_end(world.local(state.client)) == Some(HoldEnd::Lost(LossReason::Removed));
        return told.then_some(Coverage::RemovalTold);
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
    None
}
