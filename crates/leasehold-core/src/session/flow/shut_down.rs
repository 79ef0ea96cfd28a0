//! The shutdown of a client: grants stop, guards end, and the remaining guards are lost.
//!
//! | step | effect |
//! |---|---|
//! | `close` | waiting callers fail; unread grants and lingering holds are released |
//! | time passes | guards end as usual; holds with a guard are renewed |
//! | `lose_all` | the remaining guards are lost; a lock is released only when its last guard is gone |
//! | `end` | pending releases fail: the session sends nothing more |

use crate::error::{AcquireError, LossReason};
use crate::name::LockName;
use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::time::Instant;

impl Parts {
    /// See [`Session::close`](crate::session::Session::close).
    pub(crate) fn close(&mut self, now: Instant) {
        self.closed = true;
        let mut waiting: Vec<Ticket> = self.requests.acquires().map(|(ticket, _)| ticket).collect();
        waiting.sort_unstable();
        for ticket in waiting {
            self.take_grant_back(now, ticket);
            self.fail_acquire(now, ticket, AcquireError::Closed);
        }
        self.stop_all_lingering(now);
        self.stop_all_listening();
    }

    /// An unread grant does not count: its caller gets the error that the client is closed.
    fn take_grant_back(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return };
        if !matches!(acquire.outcome(), Some(Ok(Some(_)))) {
            return;
        }
        let granted = acquire.take_outcome().and_then(Result::ok).flatten();
        acquire.end(Err(AcquireError::Closed));
        if let Some(granted) = granted {
            self.drop_guard(now, granted.hold, granted.renewed);
        }
    }

    /// See [`Session::lose_all`](crate::session::Session::lose_all).
    pub(crate) fn lose_all(&mut self, now: Instant) -> bool {
        self.lost_all = true;
        let pauses = self.requests.iter().filter(|(_, request)| matches!(request, Request::Pause(_)));
        let pauses: Vec<Ticket> = pauses.map(|(ticket, _)| ticket).collect();
        pauses.into_iter().for_each(|ticket| self.wake(ticket));
        let guarded = self.holds.iter().filter(|(_, hold)| hold.is_granted() && hold.has_guards());
        let mut guarded: Vec<HoldNumber> = guarded.map(|(number, _)| number).collect();
        guarded.sort_unstable();
        for number in &guarded {
            self.lose(now, *number, LossReason::ShutDown);
            self.reconcile(now, *number);
        }
        !guarded.is_empty()
    }

    /// See [`Session::end`](crate::session::Session::end).
    pub(crate) fn end(&mut self, now: Instant) {
        self.close(now);
        self.lose_all(now);
        let open = self.requests.iter().filter_map(|(ticket, request)| match request {
            Request::Release(release) if !release.has_ended() => Some((ticket, release.hold())),
            _ => None,
        });
        for (ticket, number) in open.collect::<Vec<_>>() {
            self.give_up_release(ticket, number, "no reply came before the client was shut down");
        }
    }

    /// See [`Session::is_quiet`](crate::session::Session::is_quiet).
    pub(crate) fn is_quiet(&self) -> bool {
        self.holds.is_empty() && self.subscriptions.is_empty()
    }

    /// See [`Session::holds_nothing`](crate::session::Session::holds_nothing).
    pub(crate) fn holds_nothing(&self) -> bool {
        self.holds.is_empty()
    }

    /// See [`Session::has_clean_up`](crate::session::Session::has_clean_up).
    pub(crate) fn has_clean_up(&self) -> bool {
        self.holds.iter().map(|(_, hold)| hold).any(|hold| !hold.has_guards())
    }

    /// See [`Session::unreleased`](crate::session::Session::unreleased).
    pub(crate) fn unreleased(&self) -> Vec<LockName> {
        let mut names: Vec<LockName> =
            self.holds.iter().map(|(_, hold)| hold).map(|hold| self.locks[hold.lock()].name().clone()).collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::error::{HoldEnd, ReleaseError};
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn release_without_a_reply_ends_with_its_client() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let wish =
            AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Lock, Duration::from_secs(30));
        let ticket = session.acquire(NOW, wish);
        let Step::Send(call, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("it asks") };
        session.handle_called(NOW, call, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
        let Step::Done(Ok(Some(guard))) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("a guard") };
        let ticket = session.release(NOW, guard.hold, guard.renewed);
        assert!(matches!(session.step_release(NOW, ticket, Waker::noop()), Step::Send(..)));
        session.close(NOW);
        session.lose_all(NOW);
        assert!(matches!(session.step_release(NOW, ticket, Waker::noop()), Step::Wait), "a reply may come yet");
        session.end(NOW);
        let step = session.step_release(NOW, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Err(ReleaseError::OutcomeUnknown(_)))), "{step:?}");
    }

    #[test]
    fn end_of_a_client_is_told_to_its_waiters_and_its_holders() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let stock = LockName::new("", "stock").expect("a name");
        assert!(session.is_quiet() && session.holds_nothing());
        let mut wish = || session.acquire(NOW, AcquireRequest::new(stock.clone(), Kind::Lock, Duration::from_secs(30)));
        let [holder, waiter] = [(); 2].map(|()| wish());
        let poll = |session: &mut Session, ticket| session.step_acquire(NOW, ticket, Waker::noop());
        let Step::Send(flight, _) = poll(&mut session, holder) else { panic!("it asks") };
        session.handle_called(NOW, flight, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
        let Step::Done(Ok(Some(granted))) = poll(&mut session, holder) else { panic!("it is granted") };
        assert!(!session.is_closed());
        session.close(NOW);
        assert!(session.is_closed());
        assert!(matches!(poll(&mut session, waiter), Step::Done(Err(AcquireError::Closed))));
        assert_eq!(granted.cell.ended(NOW), None, "a hold may be used until it is released");
        assert!(!session.has_clean_up() && !session.holds_nothing() && !session.is_quiet());
        assert_eq!(session.unreleased(), std::slice::from_ref(&stock));
        assert!(session.lose_all(NOW));
        assert_eq!(granted.cell.ended(NOW), Some(HoldEnd::Lost(LossReason::ShutDown)));
        let acts = std::iter::from_fn(|| session.poll_deed()).any(|action| matches!(action, Deed::Call { .. }));
        assert!(!acts && !session.has_clean_up(), "its work may not have stopped yet");
        session.drop_guard(NOW, granted.hold, granted.renewed);
        assert!(session.has_clean_up());
        let mut released = 0;
        while let Some(action) = session.poll_deed() {
            match action {
                Deed::Call { id, call, .. } if call.script().name() == "lock/release" => {
                    session.handle_called(NOW, id, Ok(Reply::Int(1)));
                    released += 1;
                }
                Deed::Unsubscribe { channel, .. } => session.handle_unsubscribed(NOW, &channel, Ok(())),
                _ => {}
            }
        }
        assert_eq!(released, 1);
        assert!(session.holds_nothing() && !session.has_clean_up() && session.unreleased().is_empty());
    }
}
