//! The futures of requests: they ask the session what to do next, send what it says, and hand in what came of it.

use crate::shared::Handle;
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

/// Acquires, and abandons what it has begun when it is dropped.
pub(crate) async fn acquire(handle: &Arc<Handle>, wish: AcquireRequest) -> Result<Option<Granted>, AcquireError> {
    let ticket = handle.with(|session, now| session.acquire(now, wish));
    Attempt::<Acquiring>::new(handle, ticket).run().await
}

/// Releases one guard's worth of a hold. Once it has been polled, the release goes on even if it is dropped.
pub(crate) async fn release(handle: &Arc<Handle>, hold: HoldNumber, renewed: bool) -> Result<(), ReleaseError> {
    let ticket = handle.with(|session, now| session.release(now, hold, renewed));
    Attempt::<Releasing>::new(handle, ticket).run().await
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

/// A request that is under way. Its drop is the note to the lifeline: no await, no runtime, no I/O.
struct Attempt<'a, R: Request> {
    handle: &'a Arc<Handle>,
    ticket: Ticket,
    /// The session has forgotten the ticket: there is nothing to abandon.
    done: bool,
    sort: PhantomData<R>,
}

impl<'a, R: Request> Attempt<'a, R> {
    const fn new(handle: &'a Arc<Handle>, ticket: Ticket) -> Self {
        Self { handle, ticket, done: false, sort: PhantomData }
    }
}

impl<R: Request> Drop for Attempt<'_, R> {
    fn drop(&mut self) {
        if !self.done {
            self.handle.with(|session, now| R::abandon(session, now, self.ticket));
        }
    }
}

impl<R: Request> Attempt<'_, R> {
    async fn run(mut self) -> R::Outcome {
        let mut reply = None;
        loop {
            match self.next_step(&mut reply).await {
                Next::Send(via, flight, call) => {
                    reply = self.send(via.plane, flight, call).await.map(|result| (flight, result));
                }
                Next::Done(outcome) => {
                    self.done = true;
                    return outcome;
                }
            }
        }
    }

    /// Hands in the reply to the last call, if there is one, and waits until the session knows what comes next.
    async fn next_step(&self, reply: &mut Option<(FlightId, Result<Reply, LinkError>)>) -> Next<R::Outcome> {
        poll_fn(|cx| {
            let via = self.handle.via();
            let step = self.handle.with(|session, now| {
                if let Some((flight, result)) = reply.take() {
                    session.handle_reply(now, self.ticket, flight, result);
                }
                R::poll(session, now, self.ticket, via, cx.waker())
            });
            match step {
                Step::Send(flight, call) => Poll::Ready(Next::Send(via, flight, call)),
                Step::Done(outcome) => Poll::Ready(Next::Done(outcome)),
                Step::Wait => Poll::Pending,
            }
        })
        .await
    }

    /// Sends the call and waits for its reply; `None` where the session has given the call up meanwhile.
    async fn send(&self, plane: Plane, flight: FlightId, call: Call) -> Option<Result<Reply, LinkError>> {
        let mut calling = pin!(self.handle.link.call(plane, call));
        let mut polled = false;
        poll_fn(|cx| {
            if polled && !self.handle.with(|session, _| session.is_current(self.ticket, flight)) {
                return Poll::Ready(None);
            }
            polled = true;
            // The lifeline's connections live on its own runtime, and their timers can be set from that one only.
            let _entered =
                (plane == Plane::Lifeline).then(|| self.handle.lifeline.runtime()).flatten().map(|it| it.enter());
            calling.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

enum Next<T> {
    Send(Via, FlightId, Call),
    Done(T),
}
