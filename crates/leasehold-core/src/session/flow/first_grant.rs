//! The first grant of a hold, and its effect on the owner's other requests and the next waiter.

use crate::command::WaitPolicy;
use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::hold::change::Change;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::LocalPlace;
use crate::time::Instant;
use std::time::Duration;

impl Parts {
    /// Handles the server's grant. Holds that the grant excludes are lost.
    #[expect(clippy::too_many_arguments, reason = "what the reply says, and what it is about")]
    pub(super) fn handle_first_grant(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        change: &Change,
        left: Duration,
        token: Option<u64>,
        in_all: Option<u64>,
    ) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.note_grant(token);
        if let Some(error) = change.shortfall() {
            self.take_back(now, ticket, number, error);
            return;
        }
        if self.is_held_without_server(number)
            && self.requests.acquire(ticket).is_some_and(|acquire| acquire.beside().is_none())
        {
            self.give_grant_back(now, ticket, number);
            return;
        }
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.confirm_grant(now, change, left);
        let beside = self.requests.acquire(ticket).and_then(|acquire| acquire.beside().cloned());
        self.first_grant(now, ticket, number, left);
        self.lose_what_a_grant_excludes(now, number, change.sent_at(), beside.as_ref());
        self.look_where_permits_are_missing(now, number, change.sent_at(), in_all);
    }

    /// Passes the grant to the request, unless its deadline has passed.
    fn first_grant(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, left: Duration) {
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let Some(hold) = self.holds.known_mut(number) else { return };
        acquire.forget_hold();
        hold.end_raising();
        if hold.has_passed(now) {
            self.granted_too_late(now, ticket, number);
            return;
        }
        let renewed = acquire.wish().renewed;
        hold.grant(renewed);
        let granted = hold.granted(number, renewed);
        let (lock, owner, place, permits) = (hold.lock(), hold.owner(), acquire.place(), hold.permits());
        let would_linger = acquire.wish().may_linger() && self.locks[lock].protocol().is_asked_for();
        let policy = self.locks[lock].wait_policy();
        if policy == WaitPolicy::Broadcast {
            acquire.end(Ok(Some(granted)));
            self.gate_opens(now, ticket, number, lock);
            return;
        }
        let until = acquire.read_until(now, policy.turn(&self.settings));
        acquire.grant(granted, until);
        self.locks[lock].add_held(permits);
        self.locks[lock].note_granted(number);
        if would_linger {
            self.listen_for_others(now, lock);
        }
        // A request of another client may have arrived, or been missed, before this reply.
        let is_wanted = self.contended.is_contended(now, self.locks[lock].name().key());
        let may_linger = self.holds.get(number).is_some_and(|hold| hold.may_linger());
        if may_linger && (is_wanted || !self.subscriptions.hears(lock)) {
            self.stop_lingering(now, number);
        }
        self.locks[lock].note_anomaly(None, true);
        self.leave_queue(ticket, lock);
        self.schedule_renewal(now, number);
        self.set_hold_timer(number);
        if let Some(owner) = owner {
            self.owners.add_hold(lock, owner, number);
            self.admit_owner(now, lock, owner, number);
            self.admit_readers(now, lock, owner);
        }
        if place == LocalPlace::Line {
            self.locks[lock].forget_failures();
            self.contender_granted(now, ticket, lock, left);
        }
        self.set_request_timer(now, ticket);
    }

    /// Releases a grant whose deadline has passed. A request without another attempt fails after the release.
    fn granted_too_late(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let why = "the server's reply took longer than the lease";
        if self.requests.acquire(ticket).is_some_and(|acquire| {
            acquire.is_final_attempt() || acquire.end_of_wish(self.settings.command_timeout) <= now
        }) {
            self.take_back(now, ticket, number, AcquireError::Unreachable(why.to_owned()));
            return;
        }
        if let Some(hold) = self.holds.known_mut(number) {
            hold.leave_to_background();
        }
        self.reconcile(now, number);
        self.record_failure(now, ticket, why, false);
        self.back_off(now, ticket);
    }

    /// The gate is open for all, and there is nothing to hold.
    fn gate_opens(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, lock: LockId) {
        let granted = self.requests.acquire_mut(ticket).and_then(|acquire| acquire.outcome().cloned());
        if let Some(hold) = self.holds.known_mut(number) {
            hold.forget_grant();
        }
        self.reconcile(now, number);
        let waiting: Vec<Ticket> = self.locks[lock].line().queue().iter().collect();
        if let Some(granted) = granted {
            for other in waiting {
                self.finish_acquire(now, other, granted.clone());
            }
        }
        self.locks[lock].forget_failures();
        self.leave_queue(ticket, lock);
        self.contender_granted(now, ticket, lock, Duration::ZERO);
    }
}
