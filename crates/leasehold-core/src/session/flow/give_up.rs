//! Withdraws requests before their grant: places in queues, marks of writers, and acquires with an unknown outcome.
//!
//! A request whose wait elapsed ends after its withdrawal from the server. The background withdraws the hold of a dropped future. If another
//! request of this client finds the lock busy during a withdrawal, it retries once afterwards.

use crate::command::WaitPolicy;
use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::{Patience, Ticket};
use crate::time::Instant;

impl Parts {
    /// Withdraws the count that the request was raising. If a call is in flight, the background reverts its effect after the reply.
    pub(super) fn abandon_hold(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        self.outlast_place(now, number);
        let Some(hold) = self.holds.get_mut(number) else { return };
        hold.stop_waiting(ticket);
        if hold.stop_raising(ticket) {
            hold.leave_to_background();
        }
        self.reconcile(now, number);
    }

    /// Ends an acquire that found the lock busy until its patience ended. If it left a place or a mark on the server, it first waits for the
    /// withdrawal, so that the next request does not meet them. It ends one command timeout after its patience at the latest.
    pub(super) fn end_busy(&mut self, now: Instant, ticket: Ticket) {
        let more = self.settings.command_timeout;
        let Some(acquire) = self.requests.acquire(ticket).filter(|acquire| !acquire.has_ended()) else { return };
        let outcome = if acquire.wish().patience == Patience::Try { Ok(None) } else { Err(AcquireError::WaitElapsed) };
        let (lock, begun, until) =
            (acquire.lock(), acquire.target(), acquire.end_of_wish(self.settings.command_timeout).min(now) + more);
        self.leave_line(now, ticket, lock);
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
            acquire.stand_aside();
        }
        if let Some(number) = begun {
            self.abandon_hold(now, ticket, number);
        }
        let own = |number: &HoldNumber| self.holds.get(*number).is_some_and(|hold| hold.was_begun_by(ticket));
        let holds: Vec<HoldNumber> = self.locks[lock].given_up().filter(own).collect();
        if holds.is_empty() {
            self.finish_acquire(now, ticket, outcome);
            return;
        }
        for hold in &holds {
            if let Some(hold) = self.holds.known_mut(*hold) {
                hold.wait(ticket);
            }
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.take_back(outcome, holds, until);
        }
        if until <= now {
            self.stop_taking_back(now, ticket, "there was no time left");
        }
        self.set_request_timer(now, ticket);
    }

    /// Fails an acquire, and withdraws its hold.
    pub(super) fn fail_acquire(&mut self, now: Instant, ticket: Ticket, error: AcquireError) {
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return };
        let begun = acquire.forget_hold().or_else(|| acquire.entering());
        self.finish_acquire(now, ticket, Err(error));
        if let Some(number) = begun {
            self.abandon_hold(now, ticket, number);
        }
    }

    /// Releases a grant that must not reach the caller, then fails the request with `error`. The request waits for the release for one command
    /// timeout at most. The background continues the release.
    pub(super) fn take_back(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, error: AcquireError) {
        let until = now + self.settings.command_timeout;
        if let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) {
            acquire.take_back(Err(error), vec![number], until);
        }
        if let Some(hold) = self.holds.known_mut(number) {
            hold.end_raising();
            hold.leave_to_background();
            hold.wait(ticket);
        }
        self.set_request_timer(now, ticket);
        self.reconcile(now, number);
    }

    /// Releases the hold after the script of an acquire failed. The script may have written before its error.
    pub(super) fn take_back_refused(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, error: AcquireError) {
        self.outlast_place(now, number);
        self.take_back(now, ticket, number, error);
    }

    /// Forgets the request's hold: the server has no trace of it.
    pub(super) fn forget_begun(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
            acquire.failures_mut().set_outcome_unknown(false);
        }
        let pause = self.settings.command_timeout * 2;
        if let Some(hold) = self.holds.known_mut(number) {
            hold.note_absent();
            hold.end_raising();
            if hold.is_unproven() {
                hold.expect_late_copies(now + pause);
            }
        }
        self.reconcile(now, number);
    }

    /// Forgets the hold of a call that the server did not apply, unless an earlier call may have left a hold or a place.
    pub(super) fn forget_first(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let unsure = self.requests.acquire(ticket).is_some_and(|acquire| acquire.failures().is_outcome_unknown());
        let placed = self.holds.get(number).is_some_and(|hold| hold.is_queued());
        if !unsure && !placed {
            self.forget_begun(now, ticket, number);
        }
    }

    /// Gives up the hold after a temporary refusal. The server does not record the refusal, so it may grant a late copy of the call. For kinds
    /// without a lease such a grant would stay, so the background releases the hold as if granted.
    pub(super) fn forget_refused(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let protocol = self.protocol_of(number);
        let unsure = self.requests.acquire(ticket).is_some_and(|acquire| acquire.failures().is_outcome_unknown());
        if unsure || protocol.renewal().is_some() || protocol.wait_policy() == WaitPolicy::Broadcast {
            self.forget_first(now, ticket, number);
            return;
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
        }
        if let Some(hold) = self.holds.known_mut(number) {
            hold.end_raising();
            hold.expect_late_copies(now);
        }
        self.reconcile(now, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    /// The reply with a place behind a holder.
    const PLACED: [i64; 6] = [4, 4_000, 0, 1, 1, 0];
    const GRANTED: [i64; 3] = [1, 4_000, 0];
    const BUSY: [i64; 3] = [0, -1, 0];

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    fn asks(session: &mut Session, patience: Patience) -> (Ticket, CallId) {
        let name = LockName::new("", "stock").expect("a name");
        let wish = AcquireRequest { patience, ..AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4)) };
        let ticket = session.acquire(NOW, wish);
        let Step::Send(flight, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("it asks") };
        (ticket, flight)
    }

    fn replied(session: &mut Session, now: Instant, (_ticket, flight): (Ticket, CallId), parts: &[i64]) {
        let reply = Reply::Array(parts.iter().copied().map(Reply::Int).collect());
        session.handle_called(now, flight, Ok(reply));
    }

    /// The withdrawal that the background sends.
    fn withdrawal(session: &mut Session) -> Option<CallId> {
        std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } if call.script().name() == "fair/release" => Some(id),
            _ => None,
        })
    }

    #[test]
    fn elapsed_wait_is_told_when_the_place_is_gone() {
        for answered in [true, false] {
            let mut session = session();
            let end = NOW + Duration::from_millis(20);
            let waiter = asks(&mut session, Patience::Until(end));
            replied(&mut session, end, waiter, &PLACED);
            assert!(matches!(session.step_acquire(end, waiter.0, Waker::noop()), Step::Wait));
            let id = withdrawal(&mut session).expect("a withdrawal");
            let mut now = end;
            if answered {
                session.handle_called(end, id, Ok(Reply::Int(-1)));
            } else {
                now = end + session.settings().command_timeout;
                session.handle_timeout(now);
            }
            let step = session.step_acquire(now, waiter.0, Waker::noop());
            assert!(matches!(step, Step::Done(Err(AcquireError::WaitElapsed))), "{answered}: {step:?}");
        }
    }

    #[test]
    fn try_crossing_a_withdrawal_asks_exactly_once_more() {
        for (second, granted) in [(&GRANTED, true), (&BUSY, false)] {
            let mut session = session();
            let waiter = asks(&mut session, Patience::Forever);
            replied(&mut session, NOW, waiter, &PLACED);
            session.abandon_acquire(NOW, waiter.0);
            let id = withdrawal(&mut session).expect("a withdrawal");
            let (ticket, flight) = asks(&mut session, Patience::Try);
            replied(&mut session, NOW, (ticket, flight), &BUSY);
            assert!(matches!(session.step_acquire(NOW, ticket, Waker::noop()), Step::Wait));
            session.handle_called(NOW, id, Ok(Reply::Int(0)));
            let step = session.step_acquire(NOW, ticket, Waker::noop());
            let Step::Send(flight, _) = step else { panic!("it asks once more: {step:?}") };
            replied(&mut session, NOW, (ticket, flight), second);
            let Step::Done(outcome) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("no end") };
            assert_eq!(outcome.expect("an answer").is_some(), granted);
        }
    }

    #[test]
    fn a_try_does_not_wait_for_a_withdrawal_that_nobody_answers() {
        let mut session = session();
        let waiter = asks(&mut session, Patience::Forever);
        replied(&mut session, NOW, waiter, &PLACED);
        session.abandon_acquire(NOW, waiter.0);
        let (ticket, flight) = asks(&mut session, Patience::Try);
        replied(&mut session, NOW, (ticket, flight), &BUSY);
        let later = NOW + session.settings().command_timeout;
        session.handle_timeout(later);
        let step = session.step_acquire(later, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(None))), "{step:?}");
    }

    #[test]
    fn a_try_beside_which_nothing_is_given_up_asks_once() {
        let mut session = session();
        let (ticket, flight) = asks(&mut session, Patience::Try);
        replied(&mut session, NOW, (ticket, flight), &BUSY);
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(None))), "{step:?}");
    }
}
