//! When something last went wrong, and with whom.

use crate::world::World;
use leasehold_core::time::Instant;
use std::time::Duration;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct LastFaults {
    with_all: Instant,
    with_each: Vec<Instant>,
}

impl World {
    /// Something goes wrong with the server, until this instant.
    pub(crate) fn note_fault(&mut self, until: Instant) {
        let last = &mut self.faults.last.with_all;
        *last = until.max(*last);
    }

    /// Something goes wrong with one client, or on the way from it or to it, until this instant.
    pub(crate) fn note_fault_of(&mut self, client: usize, until: Instant) {
        let each = &mut self.faults.last.with_each;
        each.resize(each.len().max(client + 1), Instant::default());
        each[client] = until.max(each[client]);
    }

    /// Until when something last went wrong that a client could be aware of.
    pub(crate) fn last_fault_of(&self, client: usize) -> Instant {
        let own = self.faults.last.with_each.get(client).copied().unwrap_or_default();
        own.max(self.faults.last.with_all)
    }

    /// Whether nothing has gone wrong for a client for so long.
    pub(crate) fn has_been_fault_free(&self, client: usize, pause: Duration) -> bool {
        self.now >= self.last_fault_of(client) + pause
    }
}
