//! The requests of callers to a session, and its answers to their futures.

use crate::error::ReleaseError;
use crate::number_map::NumberMap;
use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::missing::Missing;
use crate::session::request::acquire::Acquire;
use crate::time::Instant;
use std::task::Waker;

pub(super) mod acquire;

/// The request behind a ticket.
#[derive(Debug)]
pub(super) enum Request {
    Acquire(Acquire),
    Release(Release),
    Pause(Pause),
}

/// A request to give one guard of a hold back.
#[derive(Debug)]
pub(super) struct Release {
    hold: HoldNumber,
    timer: Option<Instant>,
    waker: Option<Waker>,
    outcome: Option<Result<(), ReleaseError>>,
}

impl Release {
    /// A release of a guard of this hold, which may have an outcome already.
    pub(super) const fn new(hold: HoldNumber, outcome: Option<Result<(), ReleaseError>>) -> Self {
        Self { hold, timer: None, waker: None, outcome }
    }

    /// The hold of the guard.
    pub(super) const fn hold(&self) -> HoldNumber {
        self.hold
    }

    /// Its future is polled.
    pub(super) fn note_polled(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    /// Whether its caller is to be told how it ended.
    pub(super) const fn has_ended(&self) -> bool {
        self.outcome.is_some()
    }

    /// It ends. The first outcome is the one that counts.
    pub(super) fn end(&mut self, outcome: Result<(), ReleaseError>) {
        self.outcome.get_or_insert(outcome);
    }

    /// Takes out how it ended, if it has.
    pub(super) const fn take_outcome(&mut self) -> Option<Result<(), ReleaseError>> {
        self.outcome.take()
    }
}

/// A caller that waits for time to pass, without a timer of its runtime.
#[derive(Debug)]
pub(super) struct Pause {
    until: Instant,
    timer: Option<Instant>,
    waker: Option<Waker>,
}

impl Pause {
    /// A wait until then.
    pub(super) const fn new(until: Instant) -> Self {
        Self { until, timer: None, waker: None }
    }

    /// When it is over.
    pub(super) const fn until(&self) -> Instant {
        self.until
    }
}

impl Request {
    /// Where the waker of its future is kept.
    pub(super) const fn waker(&mut self) -> &mut Option<Waker> {
        match self {
            Self::Acquire(acquire) => acquire.waker(),
            Self::Release(release) => &mut release.waker,
            Self::Pause(pause) => &mut pause.waker,
        }
    }

    /// When its timer is due, if it is set.
    pub(super) const fn timer_at(&self) -> Option<Instant> {
        match self {
            Self::Acquire(acquire) => acquire.timer(),
            Self::Release(release) => release.timer,
            Self::Pause(pause) => pause.timer,
        }
    }

    /// Where the instant of its timer is kept.
    pub(super) const fn timer(&mut self) -> &mut Option<Instant> {
        match self {
            Self::Acquire(acquire) => acquire.timer_slot(),
            Self::Release(release) => &mut release.timer,
            Self::Pause(pause) => &mut pause.timer,
        }
    }
}

/// The requests of a client that are not done, by their tickets.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Boxed, so that the room that the table has in reserve is that of pointers.
    table: NumberMap<Ticket, Box<Request>>,
    missing: Missing,
}

impl Requests {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Adds a request.
    pub(super) fn insert(&mut self, ticket: Ticket, request: Request) {
        self.table.insert(ticket, Box::new(request));
    }

    /// Takes a request out.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Request> {
        self.table.remove(&ticket).map(|request| *request)
    }

    /// The request of a ticket; `None` where it is done.
    pub(super) fn get(&self, ticket: &Ticket) -> Option<&Request> {
        self.table.get(ticket).map(|request| &**request)
    }

    /// The request of a ticket, to be changed.
    pub(super) fn get_mut(&mut self, ticket: &Ticket) -> Option<&mut Request> {
        self.table.get_mut(ticket).map(|request| &mut **request)
    }

    /// All requests, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &Request)> {
        self.table.iter().map(|(ticket, request)| (*ticket, &**request))
    }

    /// The requests to acquire, in no order.
    pub(super) fn acquires(&self) -> impl Iterator<Item = (Ticket, &Acquire)> {
        self.iter().filter_map(|(ticket, request)| match request {
            Request::Acquire(acquire) => Some((ticket, acquire)),
            Request::Release(_) | Request::Pause(_) => None,
        })
    }

    /// The request to acquire of a ticket; `None` where it is done, or none to acquire.
    pub(super) fn acquire(&self, ticket: Ticket) -> Option<&Acquire> {
        match self.get(&ticket) {
            Some(Request::Acquire(acquire)) => Some(acquire),
            _ => None,
        }
    }

    /// The request to acquire of a ticket, to be changed.
    pub(super) fn acquire_mut(&mut self, ticket: Ticket) -> Option<&mut Acquire> {
        match self.get_mut(&ticket) {
            Some(Request::Acquire(acquire)) => Some(acquire),
            _ => None,
        }
    }

    /// The request to acquire of a ticket that must be there. It is a bug of the session where it is not.
    #[track_caller]
    pub(super) fn known_acquire(&self, ticket: Ticket) -> Option<&Acquire> {
        let acquire = self.acquire(ticket);
        if acquire.is_none() {
            self.missing.note();
        }
        acquire
    }

    /// The same, to be changed.
    #[track_caller]
    pub(super) fn known_acquire_mut(&mut self, ticket: Ticket) -> Option<&mut Acquire> {
        match self.table.get_mut(&ticket).map(|request| &mut **request) {
            Some(Request::Acquire(acquire)) => Some(acquire),
            _ => {
                self.missing.note();
                None
            }
        }
    }

    /// The bug that was found since this was asked last.
    pub(super) const fn missing(&self) -> &Missing {
        &self.missing
    }

    /// The request of a ticket that stands in a line; `None` where it has gone.
    pub(super) fn waiter(&self, ticket: Ticket) -> Option<&Acquire> {
        self.acquire(ticket).filter(|acquire| acquire.waits_in_line())
    }

    /// Whether the request of a ticket is a release.
    pub(super) fn is_release(&self, ticket: Ticket) -> bool {
        matches!(self.get(&ticket), Some(Request::Release(_)))
    }
}
