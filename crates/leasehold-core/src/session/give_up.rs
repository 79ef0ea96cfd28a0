//! Requests that are given up before they are granted: places in queues, marks of writers, and acquires whose outcome is not known.
//!
//! A caller whose wait has run out is told when the server has nothing of it any more. The hold of a dropped future is given up in the
//! background; a request of the same client that finds the lock busy meanwhile asks once more when it is gone.

use super::Session;
use super::clean_up::Repeats;
use super::request::{GivenUp, Patience, Place, Ticket, Undoing};
use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::time::Instant;

impl Session {
    /// Ends an acquire that found others in its way until its patience ended. If the server may still have something that it began, such as
    /// a place or a mark, its caller is told when that is gone: it would be in the way of the next request. It is told a command timeout
    /// after the end of its patience at the latest.
    pub(super) fn end_busy(&mut self, now: Instant, ticket: Ticket) {
        let more = self.settings.command_timeout;
        let Some(acquire) = self.acquire_of(ticket).filter(|acquire| acquire.outcome.is_none()) else { return };
        let outcome = if acquire.wish.patience == Patience::Try { Ok(None) } else { Err(AcquireError::WaitElapsed) };
        let (lock, begun, until) =
            (acquire.lock, acquire.hold.or_else(|| acquire.entering()), self.end_of_wish(acquire).min(now) + more);
        self.leave_line(now, ticket, lock);
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.hold = None;
            acquire.place = Place::Aside;
        }
        if let Some(number) = begun {
            self.forsake(now, ticket, number);
        }
        let own = |number: &HoldNumber| self.holds.get(number).is_some_and(|hold| hold.begun_by == ticket);
        let holds: Vec<HoldNumber> = self.locks[lock].given_up.iter().copied().filter(own).collect();
        if holds.is_empty() {
            self.finish_acquire(now, ticket, outcome);
            return;
        }
        for hold in &holds {
            if let Some(hold) = self.holds.get_mut(hold) {
                hold.waiting.push(ticket);
            }
        }
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.undoing = Some(Undoing { outcome, holds, until });
        }
        if until <= now {
            self.undone_later(now, ticket, "there was no time left");
        }
        self.set_request_timer(now, ticket);
    }

    /// The hold that an acquire had begun is gone: its caller is told how it ended. Requests that waited for it to be gone ask again.
    pub(super) fn undone(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let Some(acquire) = self.acquire_of_mut(ticket) else { return };
        if let Some(undoing) = &mut acquire.undoing {
            undoing.holds.retain(|awaited| *awaited != number);
            if undoing.holds.is_empty()
                && let Some(undoing) = acquire.undoing.take()
            {
                self.finish_acquire(now, ticket, undoing.outcome);
            }
            return;
        }
        let GivenUp::Awaited(holds, _) = &mut acquire.given_up else { return };
        holds.retain(|awaited| *awaited != number);
        if holds.is_empty() && acquire.outcome.is_none() {
            self.ask_once_more(now, ticket);
        }
    }

    /// The hold that an acquire had begun could not be taken back yet, and is left to the lifeline: its caller is told how it ended, and
    /// that the server may still have it. A place is no hold, and need not be known.
    pub(super) fn undone_later(&mut self, now: Instant, ticket: Ticket, why: &str) {
        let Some(undoing) = self.acquire_of_mut(ticket).and_then(|acquire| acquire.undoing.take()) else { return };
        let is_place = |number: &HoldNumber| self.holds.get(number).is_none_or(|hold| hold.placed);
        let places = undoing.holds.iter().all(is_place);
        let unknown = |text: &str| {
            Err(AcquireError::OutcomeUnknown(format!("{text}; what that left behind is not taken back yet: {why}")))
        };
        let outcome = match undoing.outcome {
            Err(AcquireError::Refused(text) | AcquireError::Unreachable(text)) => unknown(&text),
            Ok(None) | Err(AcquireError::WaitElapsed) if !places => unknown("an attempt was given up"),
            other => other,
        };
        self.finish_acquire(now, ticket, outcome);
    }

    /// Keeps in mind whether a hold was given up before it was granted, and may still be on the server.
    pub(super) fn note_given_up(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.get(&number) else { return };
        let given_up = &mut self.locks[hold.lock].given_up;
        if !hold.granted && hold.is_high() && hold.clean_up.repeats == Repeats::No {
            given_up.insert(number);
        } else if !given_up.is_empty() {
            given_up.remove(&number);
        }
    }

    /// A request is about to ask: notes whether this client is giving up something of the same lock.
    pub(super) fn note_crossing(&mut self, ticket: Ticket) {
        let Some(acquire) = self.acquire_of(ticket) else { return };
        let may_end_busy = acquire.wish.patience != Patience::Forever && !matches!(acquire.given_up, GivenUp::Over);
        let crosses = may_end_busy && self.same_name(acquire.lock).any(|lock| !self.locks[lock].given_up.is_empty());
        if let Some(acquire) = self.acquire_of_mut(ticket).filter(|_| may_end_busy) {
            acquire.given_up = if crosses { GivenUp::Crossed } else { GivenUp::Nothing };
        }
    }

    /// A request has found the lock busy, and would be told so. If this client was giving up something of the lock when it asked, that may
    /// be all that was in its way: it asks once more when that is gone. Says whether it does.
    pub(super) fn await_given_up(&mut self, now: Instant, ticket: Ticket) -> bool {
        let Some(acquire) = self.acquire_of(ticket) else { return false };
        if !matches!(acquire.given_up, GivenUp::Crossed) {
            return false;
        }
        let same = self.same_name(acquire.lock);
        let holds: Vec<HoldNumber> = same.flat_map(|lock| self.locks[lock].given_up.iter().copied()).collect();
        for number in &holds {
            if let Some(hold) = self.holds.get_mut(number) {
                hold.waiting.push(ticket);
            }
        }
        let Some(acquire) = self.acquire_of(ticket) else { return false };
        // Its caller is not to wait for two commands more where the server is slow.
        let until = self.end_of_wish(acquire).min(now) + self.settings.command_timeout / 2;
        let gone = holds.is_empty();
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.last = true;
            acquire.given_up = GivenUp::Awaited(holds, until);
        }
        if gone {
            self.ask_once_more(now, ticket);
        } else {
            self.set_request_timer(now, ticket);
        }
        true
    }

    fn ask_once_more(&mut self, now: Instant, ticket: Ticket) {
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.given_up = GivenUp::Over;
        }
        self.set_request_timer(now, ticket);
        self.go_again(now, ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::{Epoch, Plane};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::{AcquireRequest, Action, CallId, FlightId, Step, Via};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const VIA: Via = Via { plane: Plane::Foreground, epoch: Epoch(1) };
    /// A place behind a holder.
    const PLACED: [i64; 6] = [4, 4_000, 0, 1, 1, 0];
    const GRANTED: [i64; 3] = [1, 4_000, 0];
    const BUSY: [i64; 3] = [0, -1, 0];

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    fn asks(session: &mut Session, patience: Patience) -> (Ticket, FlightId) {
        let name = LockName::new("", "stock").expect("a name");
        let wish = AcquireRequest { patience, ..AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4)) };
        let ticket = session.acquire(NOW, wish);
        let Step::Send(flight, _) = session.poll_acquire(NOW, ticket, VIA, Waker::noop()) else { panic!("it asks") };
        (ticket, flight)
    }

    fn replied(session: &mut Session, now: Instant, (ticket, flight): (Ticket, FlightId), parts: &[i64]) {
        let reply = Reply::Array(parts.iter().copied().map(Reply::Int).collect());
        session.handle_reply(now, ticket, flight, Ok(reply));
    }

    /// The withdrawal that the lifeline sends.
    fn withdrawal(session: &mut Session) -> Option<CallId> {
        std::iter::from_fn(|| session.poll_action()).find_map(|action| match action {
            Action::Call { id, call } if call.script().name() == "fair/release" => Some(id),
            _ => None,
        })
    }

    #[test]
    fn a_caller_is_told_that_its_wait_is_over_when_its_place_is_gone_and_not_much_later() {
        for answered in [true, false] {
            let mut session = session();
            let end = NOW + Duration::from_millis(20);
            let waiter = asks(&mut session, Patience::Until(end));
            replied(&mut session, end, waiter, &PLACED);
            assert!(matches!(session.poll_acquire(end, waiter.0, VIA, Waker::noop()), Step::Wait));
            let id = withdrawal(&mut session).expect("a withdrawal");
            let mut now = end;
            if answered {
                session.handle_called(end, id, Epoch(1), Ok(Reply::Int(-1)));
            } else {
                now = end + session.settings().command_timeout;
                session.handle_timeout(now);
            }
            let step = session.poll_acquire(now, waiter.0, VIA, Waker::noop());
            assert!(matches!(step, Step::Done(Err(AcquireError::WaitElapsed))), "{answered}: {step:?}");
        }
    }

    #[test]
    fn a_try_that_crosses_a_withdrawal_of_its_client_asks_once_more_and_no_more() {
        for (second, granted) in [(&GRANTED, true), (&BUSY, false)] {
            let mut session = session();
            let waiter = asks(&mut session, Patience::Forever);
            replied(&mut session, NOW, waiter, &PLACED);
            session.abandon_acquire(NOW, waiter.0);
            let id = withdrawal(&mut session).expect("a withdrawal");
            let (ticket, flight) = asks(&mut session, Patience::Try);
            replied(&mut session, NOW, (ticket, flight), &BUSY);
            assert!(matches!(session.poll_acquire(NOW, ticket, VIA, Waker::noop()), Step::Wait));
            session.handle_called(NOW, id, Epoch(1), Ok(Reply::Int(0)));
            let step = session.poll_acquire(NOW, ticket, VIA, Waker::noop());
            let Step::Send(flight, _) = step else { panic!("it asks once more: {step:?}") };
            replied(&mut session, NOW, (ticket, flight), second);
            let Step::Done(outcome) = session.poll_acquire(NOW, ticket, VIA, Waker::noop()) else { panic!("no end") };
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
        let step = session.poll_acquire(later, ticket, VIA, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(None))), "{step:?}");
    }

    #[test]
    fn a_try_beside_which_nothing_is_given_up_asks_once() {
        let mut session = session();
        let (ticket, flight) = asks(&mut session, Patience::Try);
        replied(&mut session, NOW, (ticket, flight), &BUSY);
        let step = session.poll_acquire(NOW, ticket, VIA, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(None))), "{step:?}");
    }
}
