//! Releases: a guard less, and a count on the server that follows.

use crate::error::{HoldEnd, LossReason, ReleaseError};
use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::flow::send::give;
use crate::session::hold::change::CountChange;
use crate::session::parts::Parts;
use crate::session::request::{Release, Request};
use crate::time::Instant;
use std::task::{Poll, Waker};

impl Parts {
    /// See [`Session::keep_busy`](crate::session::Session::keep_busy).
    pub(crate) fn keep_busy(&mut self, number: HoldNumber, until: Instant) {
        if self.protocol_of(number).may_be_kept()
            && let Some(hold) = self.holds.get_mut(number)
        {
            hold.keep_busy(until);
        }
    }

    /// See [`Session::release`](crate::session::Session::release).
    pub(crate) fn release(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Ticket {
        let ticket = Ticket::new(self.next_id());
        let outcome = if self.keep(now, number, renewed) { Some(Ok(())) } else { self.give_back(now, number, renewed) };
        let release = Release::new(number, outcome);
        self.requests.insert(ticket, Request::Release(release));
        ticket
    }

    /// A guard goes: the hold goes to another task of this client, or is kept for the next. Says whether it is, so that the server is not told.
    fn keep(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> bool {
        if self.hand_over(now, number, renewed) {
            return true;
        }
        let Some(stay) = self.plan_stay(now, number, renewed) else {
            self.let_others_in(now, number);
            return false;
        };
        self.begin_stay(number, stay);
        self.take_guard(now, number, renewed);
        true
    }

    /// Takes a guard that is released. Gives the outcome that its caller is told at once, if there is one.
    fn give_back(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<Result<(), ReleaseError>> {
        // A hold with a guard exists. The number of an ended guard finds no hold.
        let gone = !self.holds.contains(number);
        let outcome = match self.take_guard(now, number, renewed) {
            Some(HoldEnd::Lost(reason)) => Some(Err(ReleaseError::Lost(reason))),
            None if gone => Some(Err(ReleaseError::Lost(LossReason::ShutDown))),
            Some(HoldEnd::Released | HoldEnd::Detached) | None => None,
        };
        if outcome.is_some() {
            self.clean_up_by_background(now, number);
        }
        outcome
    }

    /// See [`Session::poll_release`](crate::session::Session::poll_release).
    pub(crate) fn poll_release(
        &mut self,
        now: Instant,
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<(), ReleaseError>> {
        let Some(Request::Release(release)) = self.requests.get_mut(&ticket) else { return Poll::Ready(Ok(())) };
        let number = release.hold();
        let Some(hold) = self.holds.get_mut(number).filter(|_| !release.has_ended()) else {
            // A hold that is gone without a word to this request was released by another one of it.
            let outcome = release.take_outcome().unwrap_or(Ok(()));
            self.remove_request(ticket);
            return Poll::Ready(outcome);
        };
        if hold.is_settled() {
            self.remove_request(ticket);
            self.reconcile(now, number);
            return Poll::Ready(Ok(()));
        }
        if hold.is_for_caller() {
            let (lock, target) = (hold.lock(), hold.wanted());
            let call = give(now, &self.locks[lock], hold, &self.settings);
            release.note_polled(waker);
            self.send_change(now, number, Some(ticket), CountChange::LowerTo(target), call);
            if target == 0 {
                self.ask_ahead(lock);
            }
            return Poll::Pending;
        }
        release.note_polled(waker);
        if hold.is_flying_by(ticket) {
            return Poll::Pending;
        }
        hold.wait_once(ticket);
        // A release that has to wait leaves the rest to the background, which does not depend on being polled.
        hold.leave_to_background();
        self.limit_wait(now, ticket, number);
        self.reconcile(now, number);
        Poll::Pending
    }

    /// See [`Session::abandon_release`](crate::session::Session::abandon_release).
    pub(crate) fn abandon_release(&mut self, now: Instant, ticket: Ticket) {
        let Some(Request::Release(release)) = self.requests.get(&ticket) else { return };
        let number = release.hold();
        self.remove_request(ticket);
        if let Some(hold) = self.holds.get_mut(number) {
            hold.stop_waiting(ticket);
        }
        self.clean_up_by_background(now, number);
    }

    /// See [`Session::drop_guard`](crate::session::Session::drop_guard).
    pub(crate) fn drop_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        if !self.keep(now, number, renewed) {
            self.take_guard(now, number, renewed);
            self.clean_up_by_background(now, number);
        }
    }

    /// See [`Session::detach`](crate::session::Session::detach).
    pub(crate) fn detach(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        self.lose_if_passed(now, number);
        if self.holds.get_mut(number).is_some_and(|hold| hold.detach_guard(renewed)) {
            self.guard_ends(now, number, renewed, HoldEnd::Detached);
            self.reconcile(now, number);
        }
    }

    /// Takes a guard away from a hold, and tells how the hold has ended, if it has.
    fn take_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<HoldEnd> {
        self.lose_if_passed(now, number);
        let hold = self.holds.get_mut(number)?;
        if !hold.remove_guard(renewed) {
            return hold.end();
        }
        self.guard_ends(now, number, renewed, HoldEnd::Released);
        if self.protocol_of(number).may_be_prolonged() {
            // Time alone does not tell that the server has nothing of it.
            self.extend_clean_up(now, number);
        }
        self.holds.get(number)?.end()
    }

    /// A guard does not want the hold to be renewed any more. The last one ends the hold, if nothing else has.
    fn guard_ends(&mut self, now: Instant, number: HoldNumber, renewed: bool, end: HoldEnd) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        if hold.end_guard(now, renewed, end, self.out.woken()) {
            self.end_live_hold(now, number);
        }
        // Without a renewing guard, a hold that the server does not have ends one lease from now.
        self.set_hold_timer(number);
    }

    /// The last guard of a hold is gone: the hold is not entered again. Requests that were about to enter it acquire anew.
    pub(super) fn end_live_hold(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.stop_renewals();
        let (lock, owner, granted, permits) = (hold.lock(), hold.owner(), hold.is_granted(), hold.permits());
        let waiting = hold.take_waiting();
        if let Some(owner) = owner {
            self.owners.remove_hold(lock, owner, number);
        }
        if granted {
            self.locks[lock].remove_held(permits);
            self.open_gates(now, lock);
            self.drop_unwanted_notices(lock);
        }
        for ticket in waiting {
            if self.requests.acquire(ticket).is_some_and(|acquire| !acquire.is_taking_back()) {
                self.join_line(now, ticket);
            } else if let Some(hold) = self.holds.known_mut(number) {
                hold.wait(ticket);
            }
        }
    }
}
