//! The grant of a hold, its guards, and its end.

use crate::error::{HoldEnd, LossReason};
use crate::session::Ticket;
use crate::session::hold::Hold;
use crate::session::hold::change::Change;
use crate::session::hold::state::CountedBy;
use crate::time::Instant;
use std::task::Waker;
use std::time::Duration;

impl Hold {
    /// The server has given it a place, or a mark. Says whether it had none before.
    pub(crate) fn take_place(&mut self) -> bool {
        self.count.set_on_server(1);
        self.state.take_place()
    }

    /// Its place is gone from the server's queue.
    pub(crate) fn lose_place(&mut self) {
        self.state.leave_place();
    }

    /// The server says that it has granted the hold, with this fencing token.
    pub(crate) fn note_grant(&mut self, token: Option<u64>) {
        self.count.set_on_server(1);
        self.state.leave_place();
        self.cell.set_token(token);
    }

    /// The grant counts: the replicas have it, and this is left of its lease.
    pub(crate) fn confirm_grant(&mut self, now: Instant, change: &Change, left: Duration) {
        self.cell.set_acknowledged(change.acknowledged());
        self.extend(change.sent_at(), left);
        self.deadline.note_reply(now);
        self.begin_tenure(change.sent_at(), now);
    }

    /// It has its first guard, whom the server counts.
    pub(crate) fn grant(&mut self, renewed: bool) {
        self.add_first_guard(CountedBy::Server, renewed);
    }

    /// The same without the server. Nothing renews it, and nothing needs to: it lasts as long as its guard, unless a fixed time was asked for.
    ///
    /// The server is asked for it at `restore_at`; without an instant it is never asked.
    pub(crate) fn grant_locally(&mut self, now: Instant, renewed: bool, restore_at: Option<Instant>) {
        self.raising = None;
        let by = if restore_at.is_some() { CountedBy::ClientAlone } else { CountedBy::PassedThrough };
        self.add_first_guard(by, renewed);
        self.cell.set_degraded(true);
        self.reckon_locally(now);
        self.renew_at = restore_at;
    }

    /// Without the server a hold lasts for as long as a renewing guard of it does, and for one lease from now where there is none.
    fn reckon_locally(&self, now: Instant) {
        if self.state.is_degraded() {
            self.cell.set_deadline(if self.count.is_renewed() { Instant::FAR_FUTURE } else { now + self.lease });
        }
    }

    fn add_first_guard(&mut self, by: CountedBy, renewed: bool) {
        self.state.grant(by);
        self.count.add_guard(renewed);
        self.cell.set_count(1);
        self.cell.set_renewed(self.count.renewing());
    }

    /// Its owner has re-entered it, and asks for this lease.
    pub(crate) fn add_guard(&mut self, now: Instant, renewed: bool, lease: Duration) {
        self.raising = None;
        self.count.add_guard(renewed);
        self.lease = self.lease.max(lease);
        self.extend_clean_up(now);
        self.reckon_locally(now);
        self.cell.set_count(self.count.wanted());
        self.cell.set_renewed(self.count.renewing());
    }

    /// Removes a guard. Returns whether it existed.
    pub(crate) fn remove_guard(&mut self, renewed: bool) -> bool {
        let has_guards = self.count.has_guards();
        if has_guards {
            self.count.remove_guard(renewed);
        }
        has_guards
    }

    /// A guard is given up without a release. Says whether it was one.
    pub(crate) fn detach_guard(&mut self, renewed: bool) -> bool {
        let has_guards = self.count.has_guards();
        if has_guards {
            self.count.detach_guard(renewed);
        }
        has_guards
    }

    /// A guard does not want it to be renewed any more. The last one ends it, if nothing else has: says whether this was the last.
    pub(crate) fn end_guard(&mut self, now: Instant, renewed: bool, end: HoldEnd, woken: &mut Vec<Waker>) -> bool {
        self.cell.set_renewed(self.count.renewing());
        if !self.count.is_renewed() {
            if renewed {
                self.reckon_locally(now);
            }
            if !self.is_restorable() {
                self.renew_at = None;
            }
        }
        let is_last = !self.count.has_guards();
        if is_last && self.state.finish(end) {
            self.cell.end(end, woken);
        }
        is_last
    }

    /// Its guards are told that it is lost. Says whether it was not yet.
    pub(crate) fn lose(&mut self, reason: LossReason, woken: &mut Vec<Waker>) -> bool {
        if !self.state.finish(HoldEnd::Lost(reason)) {
            return false;
        }
        self.renew_at = None;
        self.cell.end(HoldEnd::Lost(reason), woken);
        if reason == LossReason::Removed {
            self.count.set_on_server(0);
        }
        true
    }

    /// It is forgotten: what still listens to its end is told.
    pub(crate) fn forget(&mut self, woken: &mut Vec<Waker>) {
        if self.state.end().is_none() {
            self.cell.end(HoldEnd::Released, woken);
        }
    }

    /// The kind of the lock has no holders: the grant counts for nothing.
    pub(crate) fn forget_grant(&mut self) {
        self.state.forget_grant();
        self.count.clear();
    }

    /// The server has nothing of it.
    pub(crate) fn note_absent(&mut self) {
        self.count.set_on_server(0);
    }

    /// The request that was raising its count does not want that any more. Says whether this one was.
    pub(crate) fn stop_raising(&mut self, ticket: Ticket) -> bool {
        self.raising.take_if(|raising| *raising == ticket).is_some()
    }

    /// No request is raising its count any more.
    pub(crate) const fn end_raising(&mut self) {
        self.raising = None;
    }
}
