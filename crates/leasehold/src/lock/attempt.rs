//! The futures of requests. Each polls the session for its outcome.

use crate::client::inner::Handle;
use crate::runtime::waker::IsolatedWaker;
use bytes::Bytes;
use leasehold_core::backoff::Backoff;
use leasehold_core::error::{AcquireError, MoveError, ReleaseError};
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::{AcquireRequest, AdoptRequest, Granted, Offered, Session, Ticket};
use leasehold_core::time::Instant;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Acquires a lock. The request is boxed: it moves as one pointer from the caller into the session.
pub(crate) fn acquire(
    handle: &Arc<Handle>,
    wish: Box<AcquireRequest>,
) -> impl Future<Output = Result<Option<Granted>, AcquireError>> + Unpin {
    let backoff = wish.backoff.clone();
    request(handle, backoff, |session, now| session.acquire(now, wish), Session::poll_acquire, Session::abandon_acquire)
}

/// Releases a guard. After the first poll, a drop of the future does not stop the release.
pub(crate) fn release(
    handle: &Arc<Handle>,
    hold: HoldNumber,
    renewed: bool,
) -> impl Future<Output = Result<(), ReleaseError>> + Unpin {
    let begin = move |session: &mut Session, now| session.release(now, hold, renewed);
    request(handle, None, begin, Session::poll_release, Session::abandon_release)
}

/// Extends a lease. After the first poll, a drop of the future does not stop the call.
pub(crate) fn extend(
    handle: &Arc<Handle>,
    hold: HoldNumber,
    lease: Duration,
) -> impl Future<Output = Result<(), AcquireError>> + Unpin {
    let begin = move |session: &mut Session, now| session.extend(now, hold, lease);
    let poll = |session: &mut Session, _, ticket, waker: &Waker| session.poll_extension(ticket, waker);
    request(handle, None, begin, poll, |session, _, ticket| session.abandon_extension(ticket))
}

/// Moves the hold of a guard to another process. A drop releases the hold.
pub(crate) fn offer(
    handle: &Arc<Handle>,
    hold: HoldNumber,
    renewed: bool,
    life: Duration,
    secret: Bytes,
) -> impl Future<Output = Result<Offered, MoveError>> + Unpin {
    let begin = move |session: &mut Session, now| session.offer(now, hold, renewed, life, secret);
    request(handle, None, begin, Session::poll_offer, Session::abandon_offer)
}

/// Adopts a hold. A drop releases the adopted hold.
pub(crate) fn adopt(
    handle: &Arc<Handle>,
    wish: AdoptRequest,
) -> impl Future<Output = Result<Granted, MoveError>> + Unpin {
    let poll = |session: &mut Session, _, ticket, waker: &Waker| session.poll_adopt(ticket, waker);
    request(handle, None, move |session, now| session.adopt(now, &wish), poll, Session::abandon_adopt)
}

/// Waits for `pause` on the client's own clock, without a timer of the caller's runtime.
pub(crate) fn pause(handle: &Arc<Handle>, pause: Duration) -> impl Future<Output = ()> + Unpin {
    let poll = |session: &mut Session, now, ticket, waker: &Waker| {
        if !session.poll_pause(now, ticket, waker) {
            return Poll::Pending;
        }
        session.end_pause(ticket);
        Poll::Ready(())
    };
    let begin = move |session: &mut Session, now| session.pause(now, pause);
    request(handle, None, begin, poll, |session, _, ticket| session.end_pause(ticket))
}

/// Begins a request at the first poll, and abandons it on drop. A drop only updates the session, without a runtime.
///
/// Hand-written, because a hundred thousand of these futures may wait: an `async fn` stores most values that live across awaits twice.
fn request<T>(
    handle: &Arc<Handle>,
    backoff: Option<Arc<Backoff>>,
    begin: impl FnOnce(&mut Session, Instant) -> Ticket + Unpin,
    poll: impl Fn(&mut Session, Instant, Ticket, &Waker) -> Poll<T> + Unpin,
    abandon: impl Fn(&mut Session, Instant, Ticket) + Unpin,
) -> impl Future<Output = T> + Unpin {
    let mut attempt = Attempt { handle, ticket: None, abandon, backoff };
    let mut begin = Some(begin);
    IsolatedWaker::new(poll_fn(move |cx| {
        loop {
            let polled = attempt.handle.with(|session, now| {
                if let Some(begin) = begin.take() {
                    attempt.ticket = Some(begin(session, now));
                }
                let ticket = attempt.ticket?;
                Some((ticket, poll(session, now, ticket, cx.waker()), session.poll_backoff(ticket)))
            });
            match polled {
                Some((_, Poll::Ready(outcome), _)) => {
                    attempt.ticket = None;
                    return Poll::Ready(outcome);
                }
                Some((ticket, Poll::Pending, Some(failures))) => {
                    // The session is unlocked, because the caller's back-off may use the client.
                    let pause = attempt.backoff.as_ref().and_then(|backoff| backoff.pause(failures, 0.0));
                    attempt.handle.with(|session, now| session.handle_backoff(now, ticket, pause));
                }
                Some((_, Poll::Pending, None)) | None => return Poll::Pending,
            }
        }
    }))
}

/// A request in progress.
struct Attempt<'a, A: Fn(&mut Session, Instant, Ticket)> {
    handle: &'a Arc<Handle>,
    /// `None` before the first poll, and after the outcome.
    ticket: Option<Ticket>,
    abandon: A,
    /// The caller's back-off. This reference outlives the session's, so user code is dropped here, without a lock.
    backoff: Option<Arc<Backoff>>,
}

impl<A: Fn(&mut Session, Instant, Ticket)> Drop for Attempt<'_, A> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.handle.with(|session, now| (self.abandon)(session, now, ticket));
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::Client;
    use leasehold_core::command::Kind;
    use leasehold_core::name::LockName;

    #[tokio::test]
    async fn waiting_requests_are_small() {
        let client = Client::embedded();
        let name = LockName::new("", "stock").expect("a name");
        let acquiring = acquire(client.handle(), Box::new(AcquireRequest::new(name, Kind::Lock, Duration::ZERO)));
        assert!(size_of_val(&acquiring) <= 72, "the future of an acquire has {} bytes", size_of_val(&acquiring));
        let guard = client.lock("stock").acquire().await.expect("the lock");
        let releasing = release(client.handle(), guard.hold(), true);
        assert!(size_of_val(&releasing) <= 72, "the future of a release has {} bytes", size_of_val(&releasing));
    }
}
