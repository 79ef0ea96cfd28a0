//! The line of the requests that wait for a lock within this client: how one joins it, and how all fail with it.

use crate::command::WaitPolicy;
use crate::error::AcquireError;
use crate::session::ids::LockId;
use crate::session::lock::line::{End, Phase};
use crate::session::lock::wait_queue::WaitQueue;
use crate::session::parts::Parts;
use crate::session::request::acquire::{Acquire, LocalPlace};
use crate::session::{Fallback, Ticket};
use crate::time::Instant;
use std::time::Duration;

impl Parts {
    /// Puts a request that was to re-enter a hold into the line, because the hold has ended.
    pub(super) fn join_line(&mut self, now: Instant, ticket: Ticket) {
        self.join_line_at(now, ticket, End::Back);
    }

    /// Moves a request into the line.
    pub(super) fn join_line_at(&mut self, now: Instant, ticket: Ticket, end: End) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if acquire.place() == LocalPlace::Line || acquire.has_ended() {
            return;
        }
        if self.requests.acquire(ticket).is_some_and(|acquire| {
            acquire.is_final_attempt() || acquire.end_of_wish(self.settings.command_timeout) <= now
        }) {
            // Its patience has ended, so it does not wait again.
            self.end_busy(now, ticket);
            return;
        }
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        acquire.join_line();
        let lock = acquire.lock();
        let line = self.locks[lock].line_mut();
        line.push(ticket, end);
        // If no polled future holds the turn, this one takes it.
        if line.contender().is_none() && matches!(line.phase(), Phase::Idle | Phase::Due(_)) {
            self.begin_turn(now, lock);
        }
        self.begin_to_wait(now, ticket);
    }

    /// Fails all requests of the line. If the server is out of reach, requests with a fallback stay.
    pub(super) fn fail_line(&mut self, now: Instant, lock: LockId, error: &AcquireError) {
        let out_of_reach = matches!(error, AcquireError::Unreachable(_));
        let (mut stay, mut fail) = (WaitQueue::default(), Vec::new());
        for ticket in self.locks[lock].line_mut().take_queue().iter() {
            match self.requests.waiter(ticket).map(|acquire| acquire.wish().fallback) {
                None => debug_assert!(false, "a request that waits no more has left the queue"),
                Some(fallback) if out_of_reach && fallback != Fallback::Fail => stay.push_back(ticket),
                Some(_) => fail.push(ticket),
            }
        }
        if let Some(contender) = self.locks[lock].line().contender() {
            if self.requests.acquire(contender).is_some_and(|acquire| acquire.is_taking_back()) {
                // The contender has already failed, and waits for its withdrawal.
                self.stop_taking_back(now, contender, &error.to_string());
            } else {
                let error =
                    if self.is_outcome_unknown(contender) { self.failure_error(contender) } else { error.clone() };
                self.fail_acquire(now, contender, error);
            }
        }
        for ticket in fail {
            // In a server queue other waiters than the contender send acquires too.
            let unsure = self.is_outcome_unknown(ticket);
            let error = if unsure { AcquireError::OutcomeUnknown(error.to_string()) } else { error.clone() };
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.stand_aside();
            }
            self.fail_acquire(now, ticket, error);
        }
        if stay.is_empty() {
            self.line_is_empty(lock);
            return;
        }
        let state = &mut self.locks[lock];
        state.line_mut().put_queue(stay);
        state.forget_failures();
        self.begin_turn(now, lock);
    }

    /// See [`Session::handle_backoff`](crate::session::Session::handle_backoff).
    pub(crate) fn handle_backoff(&mut self, now: Instant, ticket: Ticket, pause: Option<Duration>) {
        let waits = |acquire: &&Acquire| acquire.waits_in_line();
        let Some(lock) = self.requests.acquire(ticket).filter(waits).map(|acquire| acquire.lock()) else { return };
        let line = self.locks[lock].line_mut();
        if line.is_contender(ticket) && matches!(line.phase(), Phase::Sleeping(_)) {
            line.sleep(now + pause.unwrap_or_default());
            self.set_lock_timer(lock);
        }
        if pause.is_none() {
            self.end_busy(now, ticket);
        }
    }

    /// Takes the turn from a request whose future was not polled in time, until its next poll. At a fair lock it loses its place in the queue.
    pub(super) fn turn_missed(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, last) = (acquire.lock(), acquire.is_final_attempt());
        let begun = acquire.note_unpolled();
        if let Some(number) = begun {
            self.abandon_hold(now, ticket, number);
        }
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        if acquire.place() != LocalPlace::Line || !self.locks[lock].line().is_contender(ticket) {
            return;
        }
        if last {
            self.end_busy(now, ticket);
            return;
        }
        let state = &mut self.locks[lock];
        // Give up its place on the server. Its next poll takes a new place, at the tail.
        let in_places = state.wait_policy() == WaitPolicy::ServerQueue;
        state.line_mut().step_back(ticket, if in_places { End::Back } else { End::Front });
        self.begin_to_wait(now, ticket);
        self.begin_turn(now, lock);
    }

    /// Retries a request whose call was settled.
    pub(super) fn retry_after_settlement(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, place, last) = (acquire.lock(), acquire.place(), acquire.is_final_attempt());
        if last {
            let error = self.failure_error(ticket);
            self.fail_acquire(now, ticket, error);
        } else if place == LocalPlace::Line && self.locks[lock].line().is_contender(ticket) {
            self.begin_turn(now, lock);
        } else {
            self.wake(ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, ServerError};
    use crate::name::LockName;
    use crate::owner::{ClientId, OwnerId};
    use crate::reply::Reply;
    use crate::session::request::Request;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Patience, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    /// Asks for a fair lock, and gives the call that takes a place in its queue.
    fn asks(session: &mut Session, owner: Option<OwnerId>) -> (Ticket, CallId) {
        let name = LockName::new("", "stock").expect("a name");
        let wish = AcquireRequest { owner, ..AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4)) };
        let ticket = session.acquire(NOW, wish);
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        let Step::Send(flight, _) = step else { panic!("everybody takes a place at once: {step:?}") };
        (ticket, flight)
    }

    fn reply(parts: &[i64]) -> Result<Reply, LinkError> {
        Ok(Reply::Array(parts.iter().copied().map(Reply::Int).collect()))
    }

    /// Every member of a queue waits.
    fn the_queue_has_waiters_only(session: &Session) {
        for (_, state) in session.parts.locks.iter() {
            let waits = |ticket: Ticket| session.parts.requests.waiter(ticket).is_some();
            assert!(state.line().queue().iter().all(waits), "{:?}", state.line());
        }
    }

    #[test]
    fn grant_out_of_turn_leaves_only_waiters_in_the_queue() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let [placed, held] = [&[4, 4_000, 0, 1, 1, 0][..], &[1, 4_000, 0]];
        let (contender, flight) = asks(&mut session, Some(owner));
        session.handle_called(NOW, flight, reply(placed));
        let (granted, flight) = asks(&mut session, Some(owner));
        asks(&mut session, None);
        let (other, of_other) = asks(&mut session, Some(owner));
        session.handle_called(NOW, of_other, reply(placed));
        asks(&mut session, None);
        session.handle_called(NOW, flight, reply(held));
        the_queue_has_waiters_only(&session);
        // Those who were to re-enter wait again.
        let Some(Request::Acquire(acquire)) = session.parts.requests.get(&granted) else { panic!("it is there") };
        let Some(Ok(Some(guard))) = acquire.outcome().cloned() else { panic!("it is granted") };
        session.drop_guard(NOW, guard.hold, guard.renewed);
        the_queue_has_waiters_only(&session);
        for ticket in [contender, other] {
            let _ = session.step_acquire(NOW, ticket, Waker::noop());
            the_queue_has_waiters_only(&session);
        }
    }

    #[test]
    fn who_is_refused_at_once_never_stood_in_the_line() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let [_, second, _] = [(); 3].map(|()| asks(&mut session, None).0);
        let name = LockName::new("", "stock").expect("a name");
        let wish = AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4));
        let refused = session.acquire(NOW, AcquireRequest { patience: Patience::Try, ..wish });
        // Its future is dropped before it has read that.
        session.abandon_acquire(NOW, refused);
        the_queue_has_waiters_only(&session);
        session.abandon_acquire(NOW, second);
        the_queue_has_waiters_only(&session);
    }

    #[test]
    fn a_re_entry_that_has_left_the_line_does_not_fail_with_it() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let [_, waits] = [(); 2].map(|()| asks(&mut session, None).0);
        let (_granted, flight) = asks(&mut session, Some(owner));
        let (entering, _) = asks(&mut session, Some(owner));
        session.handle_called(NOW, flight, reply(&[1, 4_000, 0]));
        let lock = session.parts.requests.acquire(entering).map(|acquire| acquire.lock()).expect("it is there");
        assert!(session.parts.requests.acquire(entering).is_some_and(|acquire| acquire.entering().is_some()));
        session.parts.fail_line(NOW, lock, &AcquireError::Refused(ServerError::new("no")));
        assert!(session.parts.requests.acquire(waits).is_some_and(|acquire| acquire.has_ended()));
        assert!(session.parts.requests.acquire(entering).is_some_and(|acquire| !acquire.has_ended()));
    }

    #[test]
    fn call_under_way_when_the_line_fails_is_outcome_unknown() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let (contender, flight) = asks(&mut session, None);
        session.handle_called(NOW, flight, reply(&[4, 4_000, 0, 1, 1, 0]));
        let (waits, _) = asks(&mut session, None);
        let lock = session.parts.requests.acquire(waits).map(|acquire| acquire.lock()).expect("it is there");
        session.parts.fail_line(NOW, lock, &AcquireError::Unreachable("no answer".to_owned()));
        let outcome = session.parts.requests.acquire(waits).and_then(|acquire| acquire.outcome().cloned());
        assert!(matches!(outcome, Some(Err(AcquireError::OutcomeUnknown(_)))), "{outcome:?}");
        let outcome = session.parts.requests.acquire(contender).and_then(|acquire| acquire.outcome().cloned());
        assert!(matches!(outcome, Some(Err(AcquireError::Unreachable(_)))), "{outcome:?}");
    }

    #[test]
    fn a_place_that_was_not_asked_for_is_none_in_the_line() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let (_contender, flight) = asks(&mut session, None);
        let loading = ServerError::new("LOADING the data");
        session.handle_called(NOW, flight, Err(LinkError::Refused(loading)));
        let name = LockName::new("", "stock").expect("a name");
        let wish = AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4));
        let ticket = session.acquire(NOW, AcquireRequest { patience: Patience::Try, ..wish });
        let mut step = session.step_acquire(NOW, ticket, Waker::noop());
        // It is done after the first. Were it not, the second would be a new one, behind all others.
        for placed in [[4, 4_000, 0, 1, 1, 0]; 2] {
            let Step::Send(flight, _) = step else { break };
            session.handle_called(NOW, flight, reply(&placed));
            the_queue_has_waiters_only(&session);
            step = session.step_acquire(NOW, ticket, Waker::noop());
        }
        // It is told so when the server has given up the place.
        let gives_back = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } if call.script().name() == "fair/release" => Some(id),
            _ => None,
        });
        session.handle_called(NOW, gives_back.expect("a withdrawal"), Ok(Reply::Int(-1)));
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(None))), "{step:?}");
    }
}
