//! Least times: nobody is granted a lock that was released before the time is over for which it is to stay busy.

use crate::report::stats::Coverage;
use crate::world::World;
use crate::world::client::{Outcome, TaskKind};
use bytes::Bytes;
use leasehold_core::time::Instant;
use rustc_hash::FxHashMap;

/// The locks that are to stay busy, by the callers that were told of their release.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    by_lock: FxHashMap<Bytes, (Instant, Bytes)>,
    /// Number of [`Kept::forget`] calls.
    pub(crate) forgotten: u32,
}

impl Kept {
    /// No lock is to stay busy any more.
    pub(crate) fn forget(&mut self) {
        self.by_lock.clear();
        self.forgotten += 1;
    }
}

impl World {
    /// A release has this outcome: what was held to the end keeps its lock busy from here on.
    pub(crate) fn note_kept(&mut self, client: usize, task: usize, outcome: &Outcome) {
        let TaskKind::Release { guard, held: true, last: true, handed_on: false, .. } =
            self.clients[client].tasks[task].kind
        else {
            return;
        };
        let (guard, state) = (&self.guards[guard], &self.clients[client]);
        // The time is on the client's clock. The server may have lost the lock before the future reads its outcome.
        let was_forgotten = state.tasks[task].kept_forgotten != self.invariants.kept.forgotten;
        if state.clock_left_margin || state.clock_jumped.is_some() || was_forgotten {
            return;
        }
        let of_hold = self.guards.iter().filter(|other| (other.client, other.hold) == (client, guard.hold));
        let until = of_hold.filter_map(|guard| guard.busy_until).max();
        let is_left = self.detached_of(client, guard.hold) > 0 || guard.fell_back;
        if let Some(until) = until.filter(|_| *outcome == Outcome::Released && !is_left) {
            let (lock, id) = (guard.name.to_key(), guard.wire_id.clone());
            self.invariants.kept.by_lock.insert(lock, (until, id));
        }
    }

    /// The server grants a lock.
    pub(crate) fn check_kept(&mut self, lock: &Bytes) {
        let Some((until, id)) = self.invariants.kept.by_lock.remove(lock) else { return };
        // What the server has lost since, or was told to end, does not keep it busy.
        if self.invariants.grants.epoch_of_promise(&id, None) != self.server.data_epoch {
            return;
        }
        assert!(self.now >= until, "{lock:?} is granted at {:?}, and was to stay busy until {until:?}", self.now);
        self.stats.reach(Coverage::GrantedAfterLeastTime);
    }
}
