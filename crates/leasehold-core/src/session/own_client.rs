//! Waiting for one's own client: ordinary contention of its tasks, or a task that waits for itself.
//!
//! The session cannot tell these apart at once, because no hold names a task. A wait that ends with a release was contention. So it is an
//! alarm only where one hold of the client has lasted for as long as the wait, and the wait for longer than a lease.

use super::ids::LockId;
use super::request::{Patience, Place, Ticket};
use super::{Event, Session};
use crate::time::Instant;
use std::time::Duration;

/// The reports of a wait for the waiter's own client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Alarm {
    /// Nothing.
    #[default]
    Silent,
    /// That it waits.
    Noted,
    /// That it may wait for itself.
    Raised,
}

/// There is no more than one alarm for a lock in this time, and none before where there are no leases.
const PAUSE: Duration = Duration::from_secs(60);

impl Session {
    /// A request waits: says so where its own client holds the lock, or its other half.
    pub(super) fn note_own_client(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.acquire_of(ticket) else { return };
        let (lock, alarm, started) = (acquire.lock, acquire.alarm, acquire.started);
        let leased = self.locks[lock].kind.verbs().renewal().is_some();
        let long = now >= started + if leased { acquire.wish.lease } else { PAUSE };
        let waits = acquire.place == Place::Line && acquire.wish.patience != Patience::Try;
        if !waits || alarm == Alarm::Raised || (alarm == Alarm::Noted && !long) {
            return;
        }
        if !self.same_name(lock).any(|at| self.locks[at].held > 0) {
            return;
        }
        let name = self.locks[lock].name.clone();
        if alarm == Alarm::Silent {
            self.out.tell(Event::QueuesBehindOwnClient { name: name.clone() });
        }
        let raised = long && self.may_raise(now, lock) && self.is_held_since(lock, started);
        if raised {
            self.locks[lock].alarmed_at = now;
            self.out.tell(Event::WaitsForOwnClient { name });
        }
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.alarm = if raised { Alarm::Raised } else { Alarm::Noted };
        }
    }

    fn may_raise(&self, now: Instant, lock: LockId) -> bool {
        let last = self.locks[lock].alarmed_at;
        last == Instant::from_nanos(0) || now.since(last) >= PAUSE
    }

    /// Whether one hold of this client has the lock, or its other half, since then.
    fn is_held_since(&self, lock: LockId, since: Instant) -> bool {
        let same: Vec<LockId> = self.same_name(lock).collect();
        self.holds.values().any(|hold| same.contains(&hold.lock) && hold.is_live() && hold.cell.acquired_at() <= since)
    }
}
