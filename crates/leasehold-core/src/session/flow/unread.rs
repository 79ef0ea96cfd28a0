//! Unread grants: the session drops a grant that its future does not poll for in time.

use crate::session::flow::restore::RESTORE;
use crate::session::lock::line::End;
use crate::session::parts::Parts;
use crate::session::request::acquire::LocalPlace;
use crate::session::{Event, Ticket};
use crate::time::Instant;

impl Parts {
    /// Drops an unread grant whose hold has ended, before a poll would return it.
    pub(super) fn check_unread(&mut self, now: Instant, ticket: Ticket) {
        let unread = self.requests.acquire(ticket).and_then(|acquire| acquire.unread());
        let Some(granted) = unread else { return };
        let (number, has_ended) = (granted.hold, granted.cell.ended(now).is_some());
        if !has_ended {
            return;
        }
        if self.holds.get(number).is_some_and(|hold| hold.is_live()) {
            self.lose_by_deadline(now, number);
        }
        self.take_unread_back(now, ticket);
    }

    /// Takes an unread grant from a request at its deadline. The request waits again, behind requests whose futures are polled. It keeps a grant
    /// that the server has not confirmed, because it would get the same grant again.
    pub(super) fn unread_too_long(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if acquire.unread().is_some_and(|granted| granted.cell.is_degraded()) {
            acquire.keep_unread(now + RESTORE);
            return self.set_request_timer(now, ticket);
        }
        acquire.note_unpolled();
        let name = self.locks[acquire.lock()].name().clone();
        self.out.tell(Event::UnpolledTurn { name });
        self.take_unread_back(now, ticket);
    }

    /// Drops the unread grant's guard, and returns the request to its place.
    fn take_unread_back(&mut self, now: Instant, ticket: Ticket) {
        let granted = self.requests.known_acquire_mut(ticket).and_then(|acquire| acquire.take_unread());
        let Some(granted) = granted else { return };
        self.drop_guard(now, granted.hold, granted.renewed);
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, owner) = (acquire.lock(), acquire.wish().owner);
        if matches!(acquire.place(), LocalPlace::Entering(_)) || acquire.beside().is_some() {
            // In the line the request would wait for its own owner.
            self.begin_to_wait(now, ticket);
        } else if let Some(number) = owner.and_then(|owner| self.owners.hold(lock, owner)) {
            // Another request of this owner has re-entered the hold.
            if let Some(acquire) = self.requests.known_acquire_mut(ticket) {
                acquire.enter(number);
            }
            self.begin_to_wait(now, ticket);
        } else {
            self.join_line_at(now, ticket, End::Front);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::{ClientId, OwnerId};
    use crate::reply::Reply;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LATER: Instant = Instant::from_nanos(1_200_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    fn wish(kind: Kind, owner: Option<OwnerId>) -> AcquireRequest {
        let name = LockName::new("", "stock").expect("a name");
        AcquireRequest { owner, ..AcquireRequest::new(name, kind, Duration::from_secs(30)) }
    }

    /// Sends an acquire, and replies with `code`.
    fn answered(session: &mut Session, wish: AcquireRequest, code: i64) -> Ticket {
        let ticket = session.acquire(NOW, wish);
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        let Step::Send(id, _) = step else { panic!("it asks: {step:?}") };
        session.handle_called(NOW, id, Ok(Reply::Array([code, 30_000, 0].map(Reply::Int).to_vec())));
        ticket
    }

    /// Lets an unread grant expire, and replies to the calls that follow.
    fn miss(session: &mut Session) {
        session.handle_timeout(LATER);
        while let Some(deed) = session.poll_deed() {
            if let Deed::Call { id, .. } = deed {
                session.handle_called(LATER, id, Ok(Reply::Int(1)));
            }
        }
    }

    #[test]
    fn unread_read_beside_its_own_writer_is_asked_for_beside_it_again() {
        let mut session = session();
        let owner = Some(session.new_owner());
        let write = answered(&mut session, wish(Kind::Write, owner), 1);
        let step = session.step_acquire(NOW, write, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(Some(_)))), "{step:?}");
        let other = answered(&mut session, wish(Kind::Read, None), 0);
        assert!(matches!(session.step_acquire(NOW, other, Waker::noop()), Step::Wait), "the writer keeps it out");
        let read = answered(&mut session, wish(Kind::Read, owner), 1);
        miss(&mut session);
        let step = session.step_acquire(LATER, read, Waker::noop());
        assert!(matches!(step, Step::Send(..)), "{step:?}");
    }

    #[test]
    fn unread_re_entry_enters_the_same_hold_again() {
        let mut session = session();
        let first = answered(&mut session, wish(Kind::Lock, None), 1);
        let Step::Done(Ok(Some(guard))) = session.step_acquire(NOW, first, Waker::noop()) else { panic!("a guard") };
        let reenter = Some(guard.hold);
        let again = answered(&mut session, AcquireRequest { reenter, ..wish(Kind::Lock, None) }, 1);
        miss(&mut session);
        let step = session.step_acquire(LATER, again, Waker::noop());
        let Step::Send(_, call) = step else { panic!("it asks: {step:?}") };
        assert_eq!(call.args()[1].as_ref(), b"2", "it does not ask for a hold of its own");
    }

    #[test]
    fn call_given_up_before_it_left_is_not_sent() {
        let mut session = session();
        let ticket = session.acquire(NOW, wish(Kind::Lock, None));
        assert!(session.poll_acquire(NOW, ticket, Waker::noop()).is_pending());
        session.handle_timeout(NOW + Duration::from_secs(10));
        assert!(session.poll_call().is_none());
    }
}
