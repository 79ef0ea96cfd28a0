//! The futures of requests. Each polls the session for its outcome.

use crate::client::inner::Handle;
use crate::runtime::waker::IsolatedWaker;
use bytes::Bytes;
use leasehold_core::backoff::Backoff;
use leasehold_core::error::{AcquireError, MoveError, ReleaseError};
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::{AcquireRequest, AdoptRequest, Granted, Offered, Session, Ticket};
use leasehold_core::time::Instant;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Begins a request at the first poll of the future.
pub(crate) fn request<R: Request>(handle: &Arc<Handle>, request: R) -> IsolatedWaker<Attempt<'_, R>> {
    let backoff = request.backoff();
    IsolatedWaker::new(Attempt { handle, request: Some(request), ticket: None, backoff })
}

/// Waits for `pause` on the client's own clock, without a timer of the caller's runtime.
pub(crate) async fn pause(handle: &Arc<Handle>, pause: Duration) {
    IsolatedWaker::new(Pausing { handle, ticket: handle.with(|session, now| session.pause(now, pause)) }).await;
}

struct Pausing<'a> {
    handle: &'a Arc<Handle>,
    ticket: Ticket,
}

impl Future for Pausing<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let over = self.handle.with(|session, now| session.poll_pause(now, self.ticket, cx.waker()));
        if over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        self.handle.with(|session, _| session.end_pause(self.ticket));
    }
}

/// The parameters of a request to the session.
pub(crate) trait Request: Unpin {
    type Outcome;

    fn begin(self, session: &mut Session, now: Instant) -> Ticket;
    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome>;
    fn abandon(session: &mut Session, now: Instant, ticket: Ticket);

    /// The caller's back-off.
    fn backoff(&self) -> Option<Arc<Backoff>> {
        None
    }
}

/// A lock to acquire. A drop abandons the acquire. Boxed, so that it moves as one pointer from the caller into the session.
impl Request for Box<AcquireRequest> {
    type Outcome = Result<Option<Granted>, AcquireError>;

    fn begin(self, session: &mut Session, now: Instant) -> Ticket {
        session.acquire(now, self)
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_acquire(now, ticket, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_acquire(now, ticket);
    }

    fn backoff(&self) -> Option<Arc<Backoff>> {
        self.backoff.clone()
    }
}

/// A guard to release. After the first poll the release continues even if the future is dropped.
pub(crate) struct Release {
    pub(crate) hold: HoldNumber,
    pub(crate) renewed: bool,
}

impl Request for Release {
    type Outcome = Result<(), ReleaseError>;

    fn begin(self, session: &mut Session, now: Instant) -> Ticket {
        session.release(now, self.hold, self.renewed)
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_release(now, ticket, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_release(now, ticket);
    }
}

/// A lease to extend. After the first poll the call continues even if the future is dropped.
pub(crate) struct Extend {
    pub(crate) hold: HoldNumber,
    pub(crate) lease: Duration,
}

impl Request for Extend {
    type Outcome = Result<(), AcquireError>;

    fn begin(self, session: &mut Session, now: Instant) -> Ticket {
        session.extend(now, self.hold, self.lease)
    }

    fn poll(session: &mut Session, _: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_extension(ticket, waker)
    }

    fn abandon(session: &mut Session, _: Instant, ticket: Ticket) {
        session.abandon_extension(ticket);
    }
}

/// A guard whose hold moves to another process. A drop releases the hold.
pub(crate) struct Offer {
    pub(crate) hold: HoldNumber,
    pub(crate) renewed: bool,
    pub(crate) life: Duration,
    pub(crate) secret: Bytes,
}

impl Request for Offer {
    type Outcome = Result<Offered, MoveError>;

    fn begin(self, session: &mut Session, now: Instant) -> Ticket {
        session.offer(now, self.hold, self.renewed, self.life, self.secret)
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_offer(now, ticket, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_offer(now, ticket);
    }
}

/// A hold to adopt. A drop releases a hold that was adopted.
impl Request for AdoptRequest {
    type Outcome = Result<Granted, MoveError>;

    fn begin(self, session: &mut Session, now: Instant) -> Ticket {
        session.adopt(now, &self)
    }

    fn poll(session: &mut Session, _: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_adopt(ticket, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_adopt(now, ticket);
    }
}

/// A request in progress. A drop only updates the session, without a runtime.
///
/// Written by hand to save memory, because a hundred thousand of these futures may wait at a time. The future of an `async fn` would store most
/// values that live across awaits twice.
pub(crate) struct Attempt<'a, R: Request> {
    handle: &'a Arc<Handle>,
    /// `None` after the first poll.
    request: Option<R>,
    /// `None` before the first poll, and after the outcome.
    ticket: Option<Ticket>,
    /// The caller's back-off. This reference outlives the session's, so user code is dropped here, without a lock.
    backoff: Option<Arc<Backoff>>,
}

impl<R: Request> Attempt<'_, R> {
    /// Calls the caller's back-off. The session is unlocked, because the back-off may use the client.
    fn ask_backoff(&self, ticket: Ticket, failures: u32) {
        let pause = self.backoff.as_ref().and_then(|backoff| backoff.pause(failures, 0.0));
        self.handle.with(|session, now| session.handle_backoff(now, ticket, pause));
    }
}

impl<R: Request> Drop for Attempt<'_, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.handle.with(|session, now| R::abandon(session, now, ticket));
        }
    }
}

impl<R: Request> Future for Attempt<'_, R> {
    type Output = R::Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R::Outcome> {
        let this = self.get_mut();
        loop {
            let (known, request) = (&mut this.ticket, &mut this.request);
            let polled = this.handle.with(|session, now| {
                if let Some(request) = request.take() {
                    *known = Some(request.begin(session, now));
                }
                let ticket = (*known)?;
                Some((ticket, R::poll(session, now, ticket, cx.waker()), session.poll_backoff(ticket)))
            });
            match polled {
                Some((_, Poll::Ready(outcome), _)) => {
                    this.ticket = None;
                    return Poll::Ready(outcome);
                }
                Some((ticket, Poll::Pending, Some(failures))) => this.ask_backoff(ticket, failures),
                Some((_, Poll::Pending, None)) | None => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_requests_are_small() {
        let sizes = [
            ("an acquire", size_of::<IsolatedWaker<Attempt<'_, Box<AcquireRequest>>>>()),
            ("a release", size_of::<IsolatedWaker<Attempt<'_, Release>>>()),
        ];
        for (what, size) in sizes {
            assert!(size <= 72, "the future of {what} has {size} bytes");
        }
    }
}
