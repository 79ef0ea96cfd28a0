//! What a session does next, for tests that play the driver by hand.

use crate::call::Call;
use crate::error::ReleaseError;
use crate::session::request::acquire::AcquireOutcome;
use crate::session::{Action, CallId, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::task::{Poll, Waker};

/// The step of a request that was polled.
#[derive(Debug)]
pub(crate) enum Step<T> {
    /// It sends this call.
    Send(CallId, Call),
    /// It waits.
    Wait,
    /// It has ended.
    Done(T),
}

/// Something that the background does.
#[derive(Debug)]
pub(crate) enum Deed {
    Call { id: CallId, call: Call },
    Settle { id: CallId },
    Subscribe { channel: Bytes },
    Unsubscribe { channel: Bytes },
}

impl Session {
    pub(crate) fn step_acquire(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Step<AcquireOutcome> {
        let polled = self.poll_acquire(now, ticket, waker);
        self.step(polled)
    }

    pub(crate) fn step_release(
        &mut self,
        now: Instant,
        ticket: Ticket,
        waker: &Waker,
    ) -> Step<Result<(), ReleaseError>> {
        let polled = self.poll_release(now, ticket, waker);
        self.step(polled)
    }

    fn step<T>(&mut self, polled: Poll<T>) -> Step<T> {
        match polled {
            Poll::Ready(outcome) => Step::Done(outcome),
            Poll::Pending => match self.parts.out.poll_call_of(true) {
                Some((id, call)) => Step::Send(id, call),
                None => Step::Wait,
            },
        }
    }

    /// The next thing that the background does: a call, or something else.
    pub(crate) fn poll_deed(&mut self) -> Option<Deed> {
        if let Some((id, call)) = self.parts.out.poll_call_of(false) {
            return Some(Deed::Call { id, call });
        }
        Some(match self.poll_action()? {
            Action::Settle { id, .. } => Deed::Settle { id },
            Action::Subscribe { channel } => Deed::Subscribe { channel },
            Action::Unsubscribe { channel } => Deed::Unsubscribe { channel },
        })
    }
}
