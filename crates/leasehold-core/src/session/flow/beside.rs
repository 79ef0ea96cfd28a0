//! Requests that ask beside the contender, where several may hold the lock.

use crate::command::WaitPolicy;
use crate::session::Ticket;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::session::request::acquire::LocalPlace;

impl Parts {
    /// A waiter of a shared lock was granted: others are likely to get in beside it.
    pub(super) fn invite(&mut self, lock: LockId) {
        let state = &mut self.locks[lock];
        if state.wait_policy() != WaitPolicy::Shared {
            return;
        }
        let (round, width) = (state.invitations().round(), state.invitations_mut().widen());
        let requests = &self.requests;
        let uninvited = |ticket: &Ticket| {
            requests.waiter(*ticket).is_some_and(|acquire| acquire.is_awake() && !acquire.is_invited(round))
        };
        let invited: Vec<Ticket> = state.line().queue().iter().filter(uninvited).take(width).collect();
        for ticket in invited {
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.invite(round);
            }
            self.wake(ticket);
        }
    }

    /// Whether a request may ask beside the contender: it is invited, it is its last attempt, or it has asked and does not know what became
    /// of that. The last may have the very permits that all others wait for.
    pub(super) fn may_ask_beside(&self, ticket: Ticket) -> bool {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return false };
        let lock = &self.locks[acquire.lock()];
        let waits = acquire.place() == LocalPlace::Line && !lock.line().is_contender(ticket);
        let may_ask = match acquire.hold().and_then(|number| self.holds.get(number)) {
            Some(begun) => acquire.is_final_attempt() || !begun.has_change(),
            None => acquire.is_final_attempt() || acquire.is_invited(lock.invitations().round()),
        };
        waits && lock.wait_policy() == WaitPolicy::Shared && may_ask && !self.is_gated(acquire.lock())
    }

    /// Whether a request that does not wait asks the server although others of its client are ahead. It does if they may all get in, and if
    /// no request has asked yet: the one whose turn it is may be a future that is never polled.
    pub(super) fn tries_beside(&self, lock: LockId) -> bool {
        let state = &self.locks[lock];
        let shared = state.wait_policy() == WaitPolicy::Shared;
        (shared || state.line().is_due()) && !self.is_gated(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, Settled};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Session};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn sent(session: &mut Session, ticket: Ticket) -> Option<CallId> {
        match session.step_acquire(NOW, ticket, Waker::noop()) {
            Step::Send(flight, _) => Some(flight),
            _ => None,
        }
    }

    fn reply(first: i64) -> Result<Reply, LinkError> {
        Ok(Reply::Array([first, 1_000, 0].map(Reply::Int).to_vec()))
    }

    #[test]
    fn waiter_whose_reply_was_lost_asks_again_although_busy() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let mut acquire = || {
            let name = LockName::new("", "seats").expect("a name");
            let ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Semaphore, Duration::from_secs(4)));
            (ticket, sent(&mut session, ticket))
        };
        let [(_first, contends), (second, _), (third, _)] = [(); 3].map(|()| acquire());
        session.handle_called(NOW, contends.expect("it is sent"), reply(1));
        let contends = sent(&mut session, second).expect("it is the contender");
        let invited = sent(&mut session, third).expect("it is invited");
        session.handle_called(NOW, contends, reply(0));
        session.handle_called(NOW, invited, Err(LinkError::Unknown("the connection was lost".to_owned())));
        let id = std::iter::from_fn(|| session.poll_deed())
            .find_map(|action| match action {
                Deed::Settle { id, .. } => Some(id),
                _ => None,
            })
            .expect("it is settled");
        session.handle_settled(NOW, id, Ok(Settled::Proven));
        assert!(sent(&mut session, third).is_some(), "it may have the permit that all wait for");
    }

    #[test]
    fn an_invitation_is_void_once_somebody_has_found_the_lock_busy() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let wish = || AcquireRequest::new(name.clone(), Kind::Read, Duration::from_secs(4));
        let tickets = [(); 6].map(|()| session.acquire(NOW, wish()));
        // The contender asks, and each grant invites twice as many.
        let first = sent(&mut session, tickets[0]).expect("the first asks");
        assert!(tickets[1..].iter().all(|ticket| sent(&mut session, *ticket).is_none()), "the others wait");
        session.handle_called(NOW, first, reply(1));
        let second = sent(&mut session, tickets[1]).expect("the next asks");
        session.handle_called(NOW, second, reply(1));
        let third = sent(&mut session, tickets[2]).expect("the contender asks");
        let beside = sent(&mut session, tickets[3]).expect("who was invited asks beside it");
        session.handle_called(NOW, beside, reply(0));
        session.handle_called(NOW, third, reply(0));
        assert_eq!(sent(&mut session, tickets[3]), None, "it waits behind the contender again");
    }
}
