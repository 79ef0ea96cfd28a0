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

/// Acquires a lock. A drop abandons the acquire.
///
/// The wish is boxed so that it moves as one pointer from the caller into the session.
pub(crate) fn acquire(handle: &Arc<Handle>, wish: Box<AcquireRequest>) -> IsolatedWaker<Attempt<'_, Acquiring>> {
    let backoff = wish.backoff.clone();
    IsolatedWaker::new(Attempt::new(handle, wish, backoff))
}

/// Releases one guard of a hold. After the first poll the release continues even if the future is dropped.
pub(crate) fn release(handle: &Arc<Handle>, hold: HoldNumber, renewed: bool) -> IsolatedWaker<Attempt<'_, Releasing>> {
    IsolatedWaker::new(Attempt::new(handle, GivenBack { hold, renewed }, None))
}

/// Extends the lease of a hold. After the first poll the call continues even if the future is dropped.
pub(crate) fn extend(handle: &Arc<Handle>, hold: HoldNumber, lease: Duration) -> IsolatedWaker<Attempt<'_, Extending>> {
    IsolatedWaker::new(Attempt::new(handle, Extended { hold, lease }, None))
}

/// Offers a hold to another process. A drop releases the hold.
pub(crate) fn offer(handle: &Arc<Handle>, offer: Offer) -> IsolatedWaker<Attempt<'_, Offering>> {
    IsolatedWaker::new(Attempt::new(handle, offer, None))
}

/// Adopts a hold. A drop releases a hold that was adopted.
pub(crate) fn adopt(handle: &Arc<Handle>, wish: AdoptRequest) -> IsolatedWaker<Attempt<'_, Adopting>> {
    IsolatedWaker::new(Attempt::new(handle, wish, None))
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

/// The sorts of requests.
pub(crate) trait Request {
    /// The parameters of the request.
    type Wish: Unpin;
    type Outcome;

    fn begin(session: &mut Session, now: Instant, wish: Self::Wish) -> Ticket;
    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome>;
    fn abandon(session: &mut Session, now: Instant, ticket: Ticket);
}

pub(crate) struct Acquiring;

impl Request for Acquiring {
    type Wish = Box<AcquireRequest>;
    type Outcome = Result<Option<Granted>, AcquireError>;

    fn begin(session: &mut Session, now: Instant, wish: Box<AcquireRequest>) -> Ticket {
        session.acquire(now, wish)
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_acquire(now, ticket, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_acquire(now, ticket);
    }
}

pub(crate) struct Releasing;

/// A guard to release.
pub(crate) struct GivenBack {
    hold: HoldNumber,
    renewed: bool,
}

impl Request for Releasing {
    type Wish = GivenBack;
    type Outcome = Result<(), ReleaseError>;

    fn begin(session: &mut Session, now: Instant, guard: GivenBack) -> Ticket {
        session.release(now, guard.hold, guard.renewed)
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_release(now, ticket, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_release(now, ticket);
    }
}

pub(crate) struct Extending;

/// A lease to extend.
pub(crate) struct Extended {
    hold: HoldNumber,
    lease: Duration,
}

impl Request for Extending {
    type Wish = Extended;
    type Outcome = Result<(), AcquireError>;

    fn begin(session: &mut Session, now: Instant, wish: Extended) -> Ticket {
        session.extend(now, wish.hold, wish.lease)
    }

    fn poll(session: &mut Session, _: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_extension(ticket, waker)
    }

    fn abandon(session: &mut Session, _: Instant, ticket: Ticket) {
        session.abandon_extension(ticket);
    }
}

pub(crate) struct Offering;

/// A guard whose hold moves to another process.
pub(crate) struct Offer {
    pub(crate) hold: HoldNumber,
    pub(crate) renewed: bool,
    pub(crate) life: Duration,
    pub(crate) secret: Bytes,
}

impl Request for Offering {
    type Wish = Offer;
    type Outcome = Result<Offered, MoveError>;

    fn begin(session: &mut Session, now: Instant, offer: Offer) -> Ticket {
        session.offer(now, offer.hold, offer.renewed, offer.life, offer.secret)
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
        session.poll_offer(now, ticket, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_offer(now, ticket);
    }
}

pub(crate) struct Adopting;

impl Request for Adopting {
    type Wish = AdoptRequest;
    type Outcome = Result<Granted, MoveError>;

    fn begin(session: &mut Session, now: Instant, wish: AdoptRequest) -> Ticket {
        session.adopt(now, wish)
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Self::Outcome> {
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
    /// The wish, until the first poll.
    wish: Option<R::Wish>,
    /// `None` before the first poll, and after the outcome.
    ticket: Option<Ticket>,
    /// The caller's back-off. This reference outlives the session's, so user code is dropped here, without a lock.
    backoff: Option<Arc<Backoff>>,
}

impl<'a, R: Request> Attempt<'a, R> {
    const fn new(handle: &'a Arc<Handle>, wish: R::Wish, backoff: Option<Arc<Backoff>>) -> Self {
        Self { handle, wish: Some(wish), ticket: None, backoff }
    }

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
            let (known, wish) = (&mut this.ticket, &mut this.wish);
            let polled = this.handle.with(|session, now| {
                if let Some(wish) = wish.take() {
                    *known = Some(R::begin(session, now, wish));
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
            ("an acquire", size_of::<IsolatedWaker<Attempt<'_, Acquiring>>>()),
            ("a release", size_of::<IsolatedWaker<Attempt<'_, Releasing>>>()),
        ];
        for (what, size) in sizes {
            assert!(size <= 72, "the future of {what} has {size} bytes");
        }
    }
}
