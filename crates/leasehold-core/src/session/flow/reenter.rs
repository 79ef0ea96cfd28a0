//! Re-entry: an owner that already holds raises the count of its hold, beside the line.

use crate::command::Acquired;
use crate::error::{AcquireError, HoldEnd, LossReason};
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::Ticket;
use crate::session::hold::change::{Change, CountChange};
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::time::Instant;

impl Parts {
    /// Fails the entry at once where the owner's hold has been lost; where it has ended otherwise, the request acquires anew.
    pub(super) fn check_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        if !self.holds.contains(number) {
            self.join_line(now, ticket);
            return;
        }
        self.lose_if_passed(now, number);
        match self.holds.get(number).and_then(|hold| hold.end()) {
            Some(HoldEnd::Lost(reason)) => self.fail_acquire(now, ticket, AcquireError::Lost(reason)),
            Some(HoldEnd::Released | HoldEnd::Detached) => {
                self.abandon_hold(now, ticket, number);
                self.join_line(now, ticket);
            }
            None => {}
        }
    }

    /// Sends the re-entry unless another change of the hold is in flight. Returns whether it was sent.
    pub(super) fn send_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) -> bool {
        let Some(acquire) = self.requests.acquire(ticket) else { return false };
        let lease = acquire.wish().lease;
        if !acquire.may_try(now) {
            return false;
        }
        let Some(hold) = self.holds.get_mut(number) else { return false };
        if hold.is_in_the_way_of(ticket) {
            hold.wait_once(ticket);
            // It is not the server that it waits for: if that is out of reach, the hold is lost in the end.
            if let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) {
                acquire.failures_mut().forget_since();
            }
            return false;
        }
        let target = hold.begin_entry(ticket);
        if let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) {
            // Whatever it sent before has been taken back.
            acquire.failures_mut().set_outcome_unknown(false);
        }
        let lease = hold.limit_lease(now, lease);
        let Some(call) = self.ask(number, ticket, target, lease, None) else { return false };
        self.send_change(now, number, Some(ticket), CountChange::RaiseTo(target), call);
        true
    }

    /// Takes the outcome of an entry.
    pub(super) fn handle_enter_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) {
        let Some((change, outcome)) = self.end_raise(now, ticket, number, result) else { return };
        let Some(hold) = self.holds.known_mut(number) else { return };
        match outcome {
            Ok(Acquired::Held { left, .. }) if hold.end().is_none() => {
                // A reply that is read after the deadline brings nothing back: a guard's owner may have given up already.
                if !hold.observe_reply(now, change.sent_at(), left) {
                    self.lose_by_deadline(now, number);
                } else if let Some(error) = change.shortfall() {
                    self.take_back(now, ticket, number, error);
                } else if hold.extend(change.sent_at(), left) {
                    hold.note_acknowledged(change.acknowledged());
                    hold.require_replicas(change.replicas());
                    self.grant_entry(now, ticket, number);
                } else {
                    self.lose_by_deadline(now, number);
                }
            }
            Ok(Acquired::Mismatch) => self.lose(now, number, LossReason::CountMismatch),
            Ok(Acquired::Lost | Acquired::Busy { .. } | Acquired::Unset { .. } | Acquired::Kind(_)) => {
                self.lose(now, number, LossReason::Removed);
            }
            Ok(
                Acquired::Held { .. }
                | Acquired::TooLate { .. }
                | Acquired::Placed { .. }
                | Acquired::Withdrawn
                | Acquired::UpgradeNotSupported
                | Acquired::ExceedsCapacity { .. },
            ) => {}
            Err(LinkError::Refused(error)) if !error.proves_nothing_done() => {
                self.take_back_refused(now, ticket, number, AcquireError::Refused(error));
            }
            Err(LinkError::Refused(error)) if !error.is_transient() => {
                self.not_raised(number, &change);
                self.fail_acquire(now, ticket, AcquireError::Refused(error));
            }
            Err(error) if error.is_worth_going_again() && self.may_resend_now(ticket, change.sent_at()) => {
                self.not_raised(number, &change);
                self.resend_now(now, ticket);
            }
            Err(error) => {
                self.not_raised(number, &change);
                self.retry_later(now, ticket, &change, &error);
            }
        }
        if self.requests.acquire(ticket).is_some_and(|acquire| acquire.is_open()) {
            self.check_entry(now, ticket, number);
        }
        self.reconcile(now, number);
    }

    /// The entry was not applied: the server has what it had before.
    fn not_raised(&mut self, number: HoldNumber, change: &Change) {
        if let Some(hold) = self.holds.known_mut(number) {
            hold.undo_entry(change);
        }
    }
}
