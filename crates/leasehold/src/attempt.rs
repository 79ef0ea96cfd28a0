//! The futures of requests: they ask the session what to do next, send what it says, and hand in what came of it.

use crate::client_inner::Handle;
use crate::relay::Relayed;
use futures_util::future::BoxFuture;
use leasehold_core::backoff::Backoff;
use leasehold_core::call::Call;
use leasehold_core::error::{AcquireError, ReleaseError};
use leasehold_core::link::{Link, LinkError, Plane, Settlings};
use leasehold_core::owner::HoldNumber;
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, FlightId, Granted, Session, Step, Ticket, Via};
use leasehold_core::time::Instant;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// Acquires, and abandons what it has begun when it is dropped.
///
/// The wish is boxed, because the session keeps it for as long as the request waits: it moves as one pointer from the caller into the session.
pub(crate) fn acquire(handle: &Arc<Handle>, wish: Box<AcquireRequest>) -> Relayed<Attempt<'_, Acquiring>> {
    let backoff = wish.backoff.clone();
    Relayed::new(Attempt::new(handle, wish, backoff))
}

/// Releases one guard's worth of a hold. Once it has been polled, the release goes on even if it is dropped.
pub(crate) fn release(handle: &Arc<Handle>, hold: HoldNumber, renewed: bool) -> Relayed<Attempt<'_, Releasing>> {
    Relayed::new(Attempt::new(handle, GivenBack { hold, renewed }, None))
}

/// Waits for `pause` to pass, on the client's own clock and without a timer of the caller's runtime.
pub(crate) async fn pause(handle: &Arc<Handle>, pause: Duration) {
    Relayed::new(Pausing { handle, ticket: handle.with(|session, now| session.pause(now, pause)) }).await;
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

/// The two sorts of requests.
pub(crate) trait Request {
    /// What it is begun with.
    type Wish: Unpin;
    type Outcome;

    fn begin(session: &mut Session, now: Instant, wish: Self::Wish) -> Ticket;
    fn poll(session: &mut Session, now: Instant, ticket: Ticket, via: Via, waker: &Waker) -> Step<Self::Outcome>;
    fn abandon(session: &mut Session, now: Instant, ticket: Ticket);
}

pub(crate) struct Acquiring;

impl Request for Acquiring {
    type Wish = Box<AcquireRequest>;
    type Outcome = Result<Option<Granted>, AcquireError>;

    fn begin(session: &mut Session, now: Instant, wish: Box<AcquireRequest>) -> Ticket {
        session.acquire(now, wish)
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, via: Via, waker: &Waker) -> Step<Self::Outcome> {
        session.poll_acquire(now, ticket, via, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_acquire(now, ticket);
    }
}

pub(crate) struct Releasing;

/// A guard that is given back.
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

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, via: Via, waker: &Waker) -> Step<Self::Outcome> {
        session.poll_release(now, ticket, via, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_release(now, ticket);
    }
}

/// A request that is under way. Its drop is the note to the background: no await, no runtime, no I/O.
///
/// It is a future written by hand: a hundred thousand of them may wait at a time, and one that the compiler makes has room for every value
/// on the way, most of them twice.
pub(crate) struct Attempt<'a, R: Request> {
    handle: &'a Arc<Handle>,
    /// The wish, until the first poll, which begins the request and asks in the same step what to do.
    wish: Option<R::Wish>,
    /// There is none before the first poll, and none when the session has forgotten it.
    ticket: Option<Ticket>,
    /// The caller's back-off, which may be foreign code. The session's is another reference to it: its end is here, where no lock is held.
    backoff: Option<Arc<Backoff>>,
    sent: Option<Sent<'a>>,
}

/// A call on its way. Its future is boxed, because most requests that wait have none: they wait for others.
struct Sent<'a> {
    flight: FlightId,
    reply: BoxFuture<'a, Result<Reply, LinkError>>,
    polled: bool,
}

impl<'a, R: Request> Attempt<'a, R> {
    const fn new(handle: &'a Arc<Handle>, wish: R::Wish, backoff: Option<Arc<Backoff>>) -> Self {
        Self { handle, wish: Some(wish), ticket: None, backoff, sent: None }
    }
}

impl<R: Request> Drop for Attempt<'_, R> {
    fn drop(&mut self) {
        // The call first: the session settles what may still come of it.
        self.sent = None;
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
            let reply = ready!(this.poll_sent(cx));
            match ready!(this.next_step(reply, cx)) {
                Next::Send(sent) => this.sent = Some(sent),
                Next::Done(outcome) => {
                    this.ticket = None;
                    return Poll::Ready(outcome);
                }
            }
        }
    }
}

impl<'a, R: Request> Attempt<'a, R> {
    /// Hands in the reply to the last call, if there is one, and waits until the session knows what comes next.
    fn next_step(
        &mut self,
        mut reply: Option<(FlightId, Result<Reply, LinkError>)>,
        cx: &Context<'_>,
    ) -> Poll<Next<'a, R::Outcome>> {
        loop {
            let via = self.handle.via();
            let decided = self.handle.link.settlings(via.plane);
            let (known, wish) = (&mut self.ticket, &mut self.wish);
            let step = self.handle.with(|session, now| {
                if let Some(wish) = wish.take() {
                    *known = Some(R::begin(session, now, wish));
                }
                let ticket = (*known)?;
                if let Some((flight, result)) = reply.take() {
                    session.handle_reply(now, ticket, flight, result);
                }
                let step = R::poll(session, now, ticket, via, cx.waker());
                Some((ticket, step, session.poll_backoff(ticket)))
            });
            return match step {
                Some((ticket, Step::Send(flight, call), _)) => {
                    Poll::Ready(Next::Send(self.send(via.plane, decided, ticket, flight, call)))
                }
                Some((_, Step::Done(outcome), _)) => Poll::Ready(Next::Done(outcome)),
                Some((ticket, Step::Wait, Some(failures))) => {
                    self.ask_backoff(ticket, failures);
                    continue;
                }
                Some((_, Step::Wait, None)) | None => Poll::Pending,
            };
        }
    }

    /// Asks the caller's own back-off, without the session's lock: it may look at the client.
    fn ask_backoff(&self, ticket: Ticket, failures: u32) {
        let pause = self.backoff.as_ref().and_then(|backoff| backoff.pause(failures, 0.0));
        self.handle.with(|session, now| session.handle_backoff(now, ticket, pause));
    }

    /// Begins a call that was decided on after `decided`.
    fn send(&self, plane: Plane, decided: Settlings, ticket: Ticket, flight: FlightId, call: Call) -> Sent<'a> {
        let plane = Plane::for_call(&call, plane);
        let handle = self.handle;
        let resend = move || handle.with(|session, now| session.may_resend(now, ticket, flight));
        Sent { flight, reply: Box::pin(handle.link.call_watched(plane, decided, call, resend)), polled: false }
    }

    /// Waits for the reply to the call that is on its way. There is none if no call is, or if the session has given it up meanwhile.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Option<(FlightId, Result<Reply, LinkError>)>> {
        let (Some(sent), Some(ticket)) = (&mut self.sent, self.ticket) else { return Poll::Ready(None) };
        let flight = sent.flight;
        let reply = sent.reply.as_mut().poll(cx);
        // The background may have gone on in place of a future that is woken without a reply.
        let again = std::mem::replace(&mut sent.polled, true);
        let is_current = || self.handle.with(|session, _| session.is_current(ticket, flight, cx.waker()));
        if reply.is_pending() && (!again || is_current()) {
            return Poll::Pending;
        }
        self.sent = None;
        Poll::Ready(match reply {
            Poll::Ready(result) => Some((flight, result)),
            Poll::Pending => None,
        })
    }
}

enum Next<'a, T> {
    Send(Sent<'a>),
    Done(T),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait_have_no_room_for_calls() {
        let sizes = [
            ("an acquire", size_of::<Relayed<Attempt<'_, Acquiring>>>()),
            ("a release", size_of::<Relayed<Attempt<'_, Releasing>>>()),
        ];
        for (what, size) in sizes {
            assert!(size <= 104, "the future of {what} has {size} bytes");
        }
    }
}
