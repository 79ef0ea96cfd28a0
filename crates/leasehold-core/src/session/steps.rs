//! The steps of a session, for tests that replace the driver.

use crate::call::Call;
use crate::error::ReleaseError;
use crate::session::request::AcquireOutcome;
use crate::session::{Action, CallId, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::task::{Poll, Waker};

/// The result of polling a request.
#[derive(Debug)]
pub(super) enum Step<T> {
    /// It sends a call.
    Send(CallId, Call),
    Wait,
    /// It has an outcome.
    Done(T),
}

/// A call or an action of the background.
#[derive(Debug)]
pub(super) enum Deed {
    Call { id: CallId, call: Call },
    Settle { id: CallId },
    Subscribe { channel: Bytes },
    Unsubscribe { channel: Bytes },
}

impl Session {
    pub(super) fn step_acquire(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Step<AcquireOutcome> {
        let polled = self.poll_acquire(now, ticket, waker);
        self.step(polled)
    }

    pub(super) fn step_release(
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
            Poll::Pending => match self.out.poll_call_of(true) {
                Some((id, call)) => Step::Send(id, call),
                None => Step::Wait,
            },
        }
    }

    /// The background's next call or action.
    pub(super) fn poll_deed(&mut self) -> Option<Deed> {
        if let Some((id, call)) = self.out.poll_call_of(false) {
            return Some(Deed::Call { id, call });
        }
        Some(match self.poll_action()? {
            Action::Settle { id, .. } => Deed::Settle { id },
            Action::Subscribe { channel } => Deed::Subscribe { channel },
            Action::Unsubscribe { channel } => Deed::Unsubscribe { channel },
        })
    }
}
