//! The lease of a hold: until when it is believed in, and when it is renewed.

use crate::call::Replicas;
use crate::session::hold::Hold;
use crate::session::hold::change::Change;
use crate::session::hold::count::Range;
use crate::session::hold::deadline::{Deadline, Observed};
use crate::settings::Settings;
use crate::time::Instant;
use std::time::Duration;

impl Hold {
    /// Takes a grant or a renewal that was sent at `sent_at` and left `left` of the lease. Says whether the hold is not yet known to be
    /// lost.
    pub(crate) fn extend(&mut self, sent_at: Instant, left: Duration) -> bool {
        self.deadline.extend(&self.cell, sent_at, left)
    }

    /// Looks at the reply to a command that said how much of the lease is left. Says whether the deadline has not passed. A hold whose deadline
    /// was contradicted is renewed at once, unless a renewal is on its way.
    pub(crate) fn observe_reply(&mut self, now: Instant, sent_at: Instant, left: Duration) -> bool {
        match self.deadline.observe_reply(&self.cell, now, sent_at, left) {
            Observed::Holds => true,
            Observed::Contradicted => {
                self.renew_at = self.renew_at.and(Some(now));
                true
            }
            Observed::Passed => false,
        }
    }

    /// Whether its deadline has passed.
    pub(crate) fn has_passed(&self, now: Instant) -> bool {
        now >= self.cell.deadline()
    }

    /// Whether a command that was sent at `sent_at` proves by its grant that this hold is gone: nothing newer is known of it, and nothing is
    /// on its way.
    pub(crate) fn is_disproved_by(&self, sent_at: Instant) -> bool {
        self.is_live() && self.change.is_none() && self.deadline.is_older_than(sent_at)
    }

    /// Notes how many replicas have its last grant or renewal.
    pub(crate) fn note_acknowledged(&mut self, replicas: Option<u32>) {
        self.cell.set_acknowledged(replicas);
    }

    /// From now on these replicas must acknowledge it.
    pub(crate) fn require_replicas(&mut self, replicas: Option<Replicas>) {
        self.set_replicas(replicas);
    }

    /// The server has granted what was granted without it. That never makes the deadline later.
    pub(crate) fn restore(&mut self, now: Instant, change: &Change, left: Duration) {
        self.state.restore();
        self.deadline.note_reply(now);
        self.cell.set_degraded(false);
        self.cell.set_acknowledged(change.acknowledged());
        self.cell.set_deadline(Deadline::from_reply(change.sent_at(), left).min(self.cell.deadline()));
        self.extend_clean_up(now);
    }

    /// When it is renewed next, or asked for again where the server does not have it.
    pub(crate) const fn renew_at(&self) -> Option<Instant> {
        self.renew_at
    }

    /// It is asked for again at this instant, while the server does not have it.
    pub(crate) fn restore_at(&mut self, at: Instant) {
        self.renew_at = self.is_restorable().then_some(at);
    }

    /// Whether a renewal is to be sent, were it only to see whether the hold is still there.
    pub(crate) fn wants_renewal(&self) -> bool {
        self.is_live() && !self.state.is_degraded() && (self.count.is_renewed() || self.look)
    }

    /// Plans the next renewal for `at`, or earlier where a reply that took long leaves less than two thirds of the lease. Instants are rounded
    /// down to slots, so that renewals of one client meet in batches. A lease that is not renewed is looked at where `reasserts` says so.
    pub(crate) fn plan_renewal(&mut self, now: Instant, at: Instant, slot: Duration, reasserts: bool) {
        let deadline = self.cell.deadline();
        let at = if deadline < self.deadline.latest() { at.min(now + deadline.since(now) / 2) } else { at };
        let slot = u64::try_from(slot.as_nanos()).unwrap_or(u64::MAX).max(1);
        let at = Instant::from_nanos(at.as_nanos() / slot * slot).max(now);
        self.look |= reasserts && !self.count.is_renewed();
        self.renew_at = (self.wants_renewal() && (self.count.is_renewed() || reasserts)).then_some(at);
    }

    /// Nothing renews it any more.
    pub(crate) const fn stop_renewals(&mut self) {
        self.renew_at = None;
    }

    /// Has it looked at by then, although its lease may not be renewed.
    pub(crate) fn look_by(&mut self, at: Instant) {
        if !self.count.is_renewed() && !self.look {
            self.look = true;
            self.renew_at = Some(at);
        } else {
            // A hold without an instant has its renewal on the way, or waiting to go out.
            self.renew_at = self.renew_at.map(|planned| planned.min(at));
        }
    }

    /// A renewal of it failed, and is repeated at this instant.
    pub(crate) fn retry_renewal(&mut self, at: Instant) {
        self.renew_at = self.wants_renewal().then_some(at);
    }

    /// Takes the plan of a renewal that is due. Says whether one is.
    pub(crate) fn take_due_renewal(&mut self, now: Instant) -> bool {
        let is_due = self.renew_at.is_some_and(|at| at <= now) && self.is_live();
        if is_due {
            self.renew_at = None;
        }
        is_due
    }

    /// The replicas that must acknowledge a renewal. A lease that is only looked at is not renewed, so there is nothing to acknowledge.
    pub(crate) fn replicas_of_renewal(&self) -> Option<Replicas> {
        self.replicas().filter(|_| self.count.is_renewed())
    }

    /// The lease that a renewal asks for. It ends with the longest time for which the lock is to be held. A lease that is not renewed is only
    /// looked at: a millisecond extends nothing.
    pub(crate) fn lease_of_renewal(&self, now: Instant) -> Duration {
        let most = self.deadline.latest().since(now).saturating_add(Settings::margin(self.lease));
        let lease = if self.count.is_renewed() { self.lease.min(most) } else { Duration::ZERO };
        lease.max(Duration::from_millis(1))
    }

    /// A renewal is sent.
    pub(crate) fn begin_renewal(&mut self) {
        self.count.begin_renewal();
    }

    /// A renewal is answered. Gives the counts of which its reply may tell. Where it `looked`, the look is done.
    pub(crate) fn end_renewal(&mut self, looked: bool) -> Option<Range> {
        self.look &= !looked;
        self.count.end_renewal()
    }
}
