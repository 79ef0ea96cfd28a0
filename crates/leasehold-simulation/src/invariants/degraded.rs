//! Guards that were granted without the server: each is restored or lost once its client can reach the server again, and the server never
//! hears of one that only passes through.

use crate::report::stats::Coverage;
use crate::world::{World, ms, trace};
use bytes::Bytes;
use std::time::Duration;

/// The time after the last fault in which the server is asked: the pause between two attempts, twice, and what settling takes.
const RESTORED_WITHIN: Duration = ms(2_000);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Degraded {
    /// Guards of which the server has not been told yet.
    guards: Vec<usize>,
}

impl World {
    /// A new guard was perhaps granted without the server.
    pub(crate) fn note_degraded(&mut self, guard: usize) {
        let state = &self.guards[guard];
        if !state.cell.is_degraded() {
            return;
        }
        if state.passes_through {
            self.stats.reach(Coverage::PassedThrough);
        } else {
            self.stats.reach(Coverage::Degraded);
            self.invariants.degraded.guards.push(guard);
        }
    }

    /// Wants every guard that the server has not heard of to be restored or lost in time.
    pub(crate) fn check_degraded(&mut self) {
        let mut guards = std::mem::take(&mut self.invariants.degraded.guards);
        guards.retain(|guard| self.is_still_degraded(*guard));
        self.invariants.degraded.guards = guards;
    }

    fn is_still_degraded(&mut self, guard: usize) -> bool {
        let state = &self.guards[guard];
        if !state.alive || !self.believes(state) {
            return false;
        }
        let client = state.client;
        if state.cell.is_degraded() {
            let reachable = self.net.wires[client].reachable && self.clients[client].runs();
            assert!(
                !reachable || !self.has_been_fault_free(client, RESTORED_WITHIN) || self.clients[client].clock_is_wrong,
                "client {client} has {:?} without the server, which it can reach",
                state.hold
            );
            return true;
        }
        trace!(self, "{:?} of client {client} is restored", state.hold);
        self.stats.reach(Coverage::Restored);
        // From here on it is held to all that holds promise.
        self.guards[guard].epoch_of_data = self.invariants.grants.epoch_of_promise(&self.guards[guard].wire_id, None);
        self.check_exclusion(&self.guards[guard]);
        false
    }

    /// Wants no hold to be granted that only passes through. A copy of an acquire may come late where copies do.
    pub(crate) fn check_not_passing_through(&self, id: &Bytes) {
        let passes = |id: &Bytes| self.guards.iter().any(|guard| guard.passes_through && guard.wire_id == id);
        assert!(self.plan.copies || !passes(id), "{id:?} is granted, which passes through");
    }
}
