//! The futures of requests: they ask the session what to do next, send what it says, and hand in what came of it.

use crate::client_inner::Handle;
use crate::relay::Relay;
use leasehold_core::backoff::Backoff;
use leasehold_core::call::Call;
use leasehold_core::error::{AcquireError, ReleaseError};
use leasehold_core::link::{Link, LinkError, Plane};
use leasehold_core::owner::HoldNumber;
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, FlightId, Granted, Session, Step, Ticket, Via};
use leasehold_core::time::Instant;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Acquires, and abandons what it has begun when it is dropped.
pub(crate) async fn acquire(handle: &Arc<Handle>, wish: AcquireRequest) -> Result<Option<Granted>, AcquireError> {
    let backoff = wish.backoff.clone();
    let relay = Relay::new();
    let begin = |session: &mut Session, now| session.acquire(now, wish);
    let attempt = pin!(Attempt::<Acquiring>::new(handle, backoff).run(Some(begin)));
    relay.run(attempt).await
}

/// Releases one guard's worth of a hold. Once it has been polled, the release goes on even if it is dropped.
pub(crate) async fn release(handle: &Arc<Handle>, hold: HoldNumber, renewed: bool) -> Result<(), ReleaseError> {
    let relay = Relay::new();
    let begin = |session: &mut Session, now| session.release(now, hold, renewed);
    let attempt = Attempt::<Releasing>::new(handle, None).run(Some(begin));
    relay.run(pin!(attempt)).await
}

/// Waits for `pause` to pass, on the client's own clock and without a timer of the caller's runtime.
pub(crate) async fn pause(handle: &Arc<Handle>, pause: Duration) {
    let relay = Relay::new();
    let pausing = Pausing { handle, ticket: handle.with(|session, now| session.pause(now, pause)) };
    let over = pin!(poll_fn(|cx| {
        let over = pausing.handle.with(|session, now| session.poll_pause(now, pausing.ticket, cx.waker()));
        if over { Poll::Ready(()) } else { Poll::Pending }
    }));
    relay.run(over).await;
}

struct Pausing<'a> {
    handle: &'a Arc<Handle>,
    ticket: Ticket,
}

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        self.handle.with(|session, _| session.end_pause(self.ticket));
    }
}

/// The two sorts of requests.
trait Request {
    type Outcome;

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, via: Via, waker: &Waker) -> Step<Self::Outcome>;
    fn abandon(session: &mut Session, now: Instant, ticket: Ticket);
}

struct Acquiring;

impl Request for Acquiring {
    type Outcome = Result<Option<Granted>, AcquireError>;

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, via: Via, waker: &Waker) -> Step<Self::Outcome> {
        session.poll_acquire(now, ticket, via, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_acquire(now, ticket);
    }
}

struct Releasing;

impl Request for Releasing {
    type Outcome = Result<(), ReleaseError>;

    fn poll(session: &mut Session, now: Instant, ticket: Ticket, via: Via, waker: &Waker) -> Step<Self::Outcome> {
        session.poll_release(now, ticket, via, waker)
    }

    fn abandon(session: &mut Session, now: Instant, ticket: Ticket) {
        session.abandon_release(now, ticket);
    }
}

/// A request that is under way. Its drop is the note to the background: no await, no runtime, no I/O.
struct Attempt<'a, R: Request> {
    handle: &'a Arc<Handle>,
    /// There is none before the first poll, and none when the session has forgotten it.
    ticket: Option<Ticket>,
    /// The caller's back-off, which may be foreign code. The session's is another reference to it: its end is here, where no lock is held.
    backoff: Option<Arc<Backoff>>,
    sort: PhantomData<R>,
}

impl<'a, R: Request> Attempt<'a, R> {
    const fn new(handle: &'a Arc<Handle>, backoff: Option<Arc<Backoff>>) -> Self {
        Self { handle, ticket: None, backoff, sort: PhantomData }
    }
}

impl<R: Request> Drop for Attempt<'_, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.handle.with(|session, now| R::abandon(session, now, ticket));
        }
    }
}

impl<R: Request> Attempt<'_, R> {
    /// Begins the request by `begin`, which is taken in the same step in which it first asks what to do.
    async fn run(mut self, mut begin: Option<impl FnOnce(&mut Session, Instant) -> Ticket>) -> R::Outcome {
        let mut reply = None;
        loop {
            match self.next_step(&mut begin, &mut reply).await {
                Next::Send(via, ticket, flight, call) => {
                    reply = self.send(via.plane, ticket, flight, call).await.map(|result| (flight, result));
                }
                Next::Done(outcome) => {
                    self.ticket = None;
                    return outcome;
                }
            }
        }
    }

    /// Hands in the reply to the last call, if there is one, and waits until the session knows what comes next.
    async fn next_step(
        &mut self,
        begin: &mut Option<impl FnOnce(&mut Session, Instant) -> Ticket>,
        reply: &mut Option<(FlightId, Result<Reply, LinkError>)>,
    ) -> Next<R::Outcome> {
        poll_fn(|cx| {
            loop {
                let via = self.handle.via();
                let known = &mut self.ticket;
                let step = self.handle.with(|session, now| {
                    if let Some(begin) = begin.take() {
                        *known = Some(begin(session, now));
                    }
                    let ticket = (*known)?;
                    if let Some((flight, result)) = reply.take() {
                        session.handle_reply(now, ticket, flight, result);
                    }
                    let step = R::poll(session, now, ticket, via, cx.waker());
                    Some((ticket, step, session.poll_backoff(ticket)))
                });
                return match step {
                    Some((ticket, Step::Send(flight, call), _)) => Poll::Ready(Next::Send(via, ticket, flight, call)),
                    Some((_, Step::Done(outcome), _)) => Poll::Ready(Next::Done(outcome)),
                    Some((ticket, Step::Wait, Some(failures))) => {
                        self.ask_backoff(ticket, failures);
                        continue;
                    }
                    Some((_, Step::Wait, None)) | None => Poll::Pending,
                };
            }
        })
        .await
    }

    /// Asks the caller's own back-off, without the session's lock: it may look at the client.
    fn ask_backoff(&self, ticket: Ticket, failures: u32) {
        let pause = self.backoff.as_ref().and_then(|backoff| backoff.pause(failures, 0.0));
        self.handle.with(|session, now| session.handle_backoff(now, ticket, pause));
    }

    /// Sends the call and waits for its reply; `None` where the session has given the call up meanwhile.
    async fn send(
        &self,
        plane: Plane,
        ticket: Ticket,
        flight: FlightId,
        call: Call,
    ) -> Option<Result<Reply, LinkError>> {
        let plane = Plane::for_call(&call, plane);
        let resend = || self.handle.with(|session, now| session.may_resend(now, ticket, flight));
        let mut calling = pin!(self.handle.link.call_watched(plane, call, resend));
        let mut polled = false;
        poll_fn(|cx| {
            let reply = calling.as_mut().poll(cx);
            // The background may have gone on in place of a future that is woken without a reply.
            let again = std::mem::replace(&mut polled, true);
            let is_current = || self.handle.with(|session, _| session.is_current(ticket, flight, cx.waker()));
            if again && reply.is_pending() && !is_current() {
                return Poll::Ready(None);
            }
            reply.map(Some)
        })
        .await
    }
}

enum Next<T> {
    Send(Via, Ticket, FlightId, Call),
    Done(T),
}
