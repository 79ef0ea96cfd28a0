//! The requests of callers: acquires, releases, extensions and pauses.
//!
//! An acquire is [`Stage::Open`] until it has an outcome. Its [`Route`] says where it asks: in its turn in the line of its lock, directly,
//! or as a re-entry of its owner's hold. In [`Stage::Awaiting`] it sends nothing: it delays its outcome until its own hold is withdrawn from
//! the server, or its last attempt until the holds of other requests are.

use crate::error::{AcquireError, MoveError, ReleaseError};
use crate::number_map::{BoxMap, NumberMap};
use crate::owner::{HoldNumber, OwnerId};
use crate::session::adoption::Offered;
use crate::session::lock::LockId;
use crate::session::{AcquireRequest, Granted, Patience, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::ops::{Index, IndexMut};
use std::task::{Poll, Waker};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Requests(pub(super) BoxMap<Ticket, Request>);

#[derive(Debug)]
pub(super) struct Request {
    pub(super) timer: Option<Instant>,
    pub(super) waker: Option<Waker>,
    pub(super) kind: RequestKind,
}

#[derive(Debug)]
pub(super) enum RequestKind {
    Acquire(Acquire),
    Release {
        hold: HoldNumber,
        outcome: Option<Result<(), ReleaseError>>,
    },
    Extension {
        outcome: Option<Result<(), AcquireError>>,
    },
    /// It offers a hold to another process.
    Offer {
        hold: HoldNumber,
        secret: Bytes,
        outcome: Option<Result<Offered, MoveError>>,
    },
    /// It replaces the hold of a ticket with this hold.
    Adoption {
        hold: HoldNumber,
        renewed: bool,
        outcome: Option<Result<Granted, MoveError>>,
    },
    /// Its caller sleeps by the session's clock.
    Pause {
        until: Instant,
    },
}

impl Requests {
    pub(super) fn insert(&mut self, ticket: Ticket, kind: RequestKind) {
        self.0.insert(ticket, Request { timer: None, waker: None, kind });
    }

    pub(super) fn acquires(&self) -> impl Iterator<Item = (Ticket, &Acquire)> {
        self.0.iter().filter_map(|(ticket, request)| match &request.kind {
            RequestKind::Acquire(acquire) => Some((ticket, acquire)),
            _ => None,
        })
    }

    /// The acquire of a ticket; `None` if it is done, or the ticket is of another request.
    pub(super) fn acquire(&self, ticket: Ticket) -> Option<&Acquire> {
        match &self.0.get(ticket)?.kind {
            RequestKind::Acquire(acquire) => Some(acquire),
            _ => None,
        }
    }

    pub(super) fn acquire_mut(&mut self, ticket: Ticket) -> Option<&mut Acquire> {
        match &mut self.0.get_mut(ticket)?.kind {
            RequestKind::Acquire(acquire) => Some(acquire),
            _ => None,
        }
    }

    /// The acquire of a ticket, if it waits in a line.
    pub(super) fn waiter(&self, ticket: Ticket) -> Option<&Acquire> {
        self.acquire(ticket).filter(|acquire| acquire.waits_in_line())
    }

    pub(super) fn is_release(&self, ticket: Ticket) -> bool {
        self.0.get(ticket).is_some_and(|request| matches!(request.kind, RequestKind::Release { .. }))
    }
}

/// Requests that end with the reply to one call: extensions, offers and adoptions. `slot` finds the outcome in a request of the kind.
impl Session {
    /// Takes the outcome, and removes the request with it. `None` if the ticket is of no such request.
    pub(super) fn poll_result<T>(&mut self, ticket: Ticket, waker: &Waker, slot: Slot<T>) -> Poll<Option<T>> {
        let Some(request) = self.requests.0.get_mut(ticket) else { return Poll::Ready(None) };
        let Some(outcome) = slot(&mut request.kind) else { return Poll::Ready(None) };
        if outcome.is_none() {
            request.waker = Some(waker.clone());
            return Poll::Pending;
        }
        let outcome = outcome.take();
        self.remove_request(ticket);
        Poll::Ready(outcome)
    }

    /// Sets the outcome, and wakes the future. Returns the outcome if the future is gone, or has one already.
    pub(super) fn set_result<T>(&mut self, ticket: Ticket, slot: Slot<T>, outcome: T) -> Option<T> {
        let known = self.requests.0.get_mut(ticket).and_then(|request| slot(&mut request.kind));
        let Some(known) = known.filter(|known| known.is_none()) else { return Some(outcome) };
        *known = Some(outcome);
        self.wake(ticket);
        None
    }
}

pub(super) type Slot<T> = fn(&mut RequestKind) -> Option<&mut Option<T>>;

/// The acquire of a ticket. Panics without it.
impl Index<Ticket> for Requests {
    type Output = Acquire;

    #[track_caller]
    fn index(&self, ticket: Ticket) -> &Acquire {
        self.acquire(ticket).expect("a ticket that the session still uses is of an acquire")
    }
}

impl IndexMut<Ticket> for Requests {
    #[track_caller]
    fn index_mut(&mut self, ticket: Ticket) -> &mut Acquire {
        self.acquire_mut(ticket).expect("a ticket that the session still uses is of an acquire")
    }
}

pub(super) type AcquireOutcome = Result<Option<Granted>, AcquireError>;

#[derive(Debug)]
pub(super) struct Acquire {
    pub(super) lock: LockId,
    pub(super) request: Box<AcquireRequest>,
    pub(super) started: Instant,
    pub(super) stage: Stage,
    pub(super) route: Route,
    /// Boxed, because few requests are for a read-write lock.
    beside: Option<Box<Beside>>,
    /// A hold of this request had a place in the server's queue.
    pub(super) had_place: bool,
    pub(super) attempts: u32,
    /// Number of busy replies, for a kind that polls.
    pub(super) polls: u32,
    /// The caller's backoff must be asked for the pause after the last busy reply.
    pub(super) asks_backoff: bool,
    /// The hold that this request has begun: the server may grant it.
    pub(super) hold: Option<HoldNumber>,
    /// The future did not poll in its turn. Other requests go first until it polls.
    pub(super) unpolled: bool,
    /// A busy reply ends the request.
    pub(super) is_final_attempt: bool,
    /// The server's failures, as met outside the line. The lock counts the failures in its line.
    pub(super) failures: Failures,
    /// Number of grants that the future did not read in time.
    pub(super) missed_grants: u8,
    /// The round of invitations that invited this request.
    pub(super) invited: Option<u64>,
    pub(super) alarm: Alarm,
    /// Number of unsent calls that were sent again at once.
    pub(super) resends: u8,
    pub(super) retry_at: Option<Instant>,
    pub(super) last_retry: LastRetry,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// It sends acquires, or waits.
    Open,
    Awaiting(Box<Awaited>),
    /// It has a grant, which its future must read before this instant.
    Granted(Granted, Instant),
    /// It has an outcome, which its future has not read.
    Ended(AcquireOutcome),
}

/// A wait for holds to be gone from the server.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) holds: Vec<HoldNumber>,
    pub(super) until: Instant,
    /// The outcome of a request that ended without the lock. Without an outcome the request retries once afterwards.
    pub(super) outcome: Option<AcquireOutcome>,
}

/// Where a request asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// In its turn in the local line of its lock.
    Queued,
    /// Outside the line: a try, or a request whose owner holds the other half. Also before the line is joined, and after it is left.
    Direct,
    /// At its owner's hold, which it re-enters.
    Reentering(HoldNumber),
}

/// The owner's hold of the other half of a read-write lock, beside which the server may grant the request.
#[derive(Debug)]
struct Beside {
    field: Bytes,
    /// The server refused the request beside it: the hold is lost, and its loss is not known yet.
    is_refused: bool,
}

/// The retry of a request that found the lock busy during withdrawals of other requests of this client. They may be the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastRetry {
    /// No withdrawal was pending at the request's last acquire.
    Nothing,
    /// A withdrawal was pending at the request's last acquire.
    Overlapping,
    Used,
}

/// The last report about a wait for the waiter's own client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    Silent,
    Noted,
    /// It may wait for itself.
    Raised,
}

/// Minimum time to read the grant of an attempt that is not repeated.
const MIN_READ_TIME: Duration = Duration::from_secs(1);

impl Acquire {
    pub(super) fn new(now: Instant, lock: LockId, request: Box<AcquireRequest>) -> Self {
        Self {
            lock,
            request,
            started: now,
            stage: Stage::Open,
            route: Route::Direct,
            beside: None,
            had_place: false,
            attempts: 0,
            polls: 0,
            asks_backoff: false,
            hold: None,
            unpolled: false,
            is_final_attempt: false,
            failures: Failures::default(),
            missed_grants: 0,
            invited: None,
            alarm: Alarm::Silent,
            resends: 0,
            retry_at: None,
            last_retry: LastRetry::Nothing,
        }
    }

    /// The end of the caller's patience. A try waits for two command timeouts.
    pub(super) fn wait_deadline(&self, command_timeout: Duration) -> Instant {
        match self.request.patience {
            Patience::Try => self.started + command_timeout * 2,
            Patience::Until(until) => until,
            Patience::Forever => Instant::FAR_FUTURE,
        }
    }

    pub(super) const fn entering(&self) -> Option<HoldNumber> {
        match self.route {
            Route::Reentering(number) => Some(number),
            Route::Queued | Route::Direct => None,
        }
    }

    /// The hold that its calls change.
    pub(super) fn target(&self) -> Option<HoldNumber> {
        self.hold.or_else(|| self.entering())
    }

    pub(super) fn beside(&self) -> Option<&Bytes> {
        self.beside.as_ref().filter(|beside| !beside.is_refused).map(|beside| &beside.field)
    }

    pub(super) fn stand_beside(&mut self, field: Option<Bytes>) {
        match field {
            Some(field) => self.beside = Some(Box::new(Beside { field, is_refused: false })),
            None => drop(self.beside.take_if(|beside| !beside.is_refused)),
        }
    }

    /// Records that the server refused the request beside the other half. Returns whether the request asked for that.
    pub(super) fn refuse_beside(&mut self) -> bool {
        self.beside.as_mut().is_some_and(|beside| !std::mem::replace(&mut beside.is_refused, true))
    }

    pub(super) fn was_refused_beside(&self, field: &Bytes) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.is_refused && beside.field == *field)
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_) | Stage::Granted(..))
    }

    /// Whether it ended without the lock, and awaits the withdrawal of its hold.
    pub(super) fn is_withdrawing(&self) -> bool {
        matches!(&self.stage, Stage::Awaiting(awaited) if awaited.outcome.is_some())
    }

    pub(super) fn is_open(&self) -> bool {
        !self.has_ended() && !self.is_withdrawing()
    }

    pub(super) fn waits_in_line(&self) -> bool {
        self.route == Route::Queued && !self.has_ended()
    }

    /// Whether it sends nothing, because it waits for a withdrawal.
    pub(super) const fn rests(&self) -> bool {
        matches!(self.stage, Stage::Awaiting(_))
    }

    /// Ends the request. Only the first outcome counts. Returns whether this is the first.
    pub(super) fn end(&mut self, outcome: AcquireOutcome) -> bool {
        let is_first = !self.has_ended();
        if is_first {
            self.stage = Stage::Ended(outcome);
        }
        is_first
    }

    /// Stores a grant, which goes to another request unless the future reads it in time: usually within a `turn`.
    ///
    /// Each miss doubles the time, to at most 256 turns: a caller on a slow executor gets the lock eventually. A final attempt has more time:
    /// it would report a free lock as busy.
    pub(super) fn grant(&mut self, now: Instant, granted: Granted, turn: Duration) {
        let is_final = self.is_final_attempt || self.request.patience == Patience::Try;
        let within = if is_final { turn.max(MIN_READ_TIME) } else { turn * (1 << self.missed_grants.min(8)) };
        self.hold = None;
        self.stage = Stage::Granted(granted, now + within);
    }

    pub(super) const fn unread(&self) -> Option<&Granted> {
        match &self.stage {
            Stage::Granted(granted, _) => Some(granted),
            _ => None,
        }
    }

    pub(super) fn take_granted(&mut self) -> Option<Granted> {
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::Granted(granted, _) | Stage::Ended(Ok(Some(granted))) => Some(granted),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Whether withdrawals of other requests matter: a busy reply may end this request, and its retry is unused.
    pub(super) fn may_await_cleanup(&self) -> bool {
        self.request.patience != Patience::Forever && self.last_retry != LastRetry::Used
    }

    /// The next due time of the timer, for a request that ends at `end`.
    pub(super) fn timeout(&self, now: Instant, end: Instant) -> Instant {
        match &self.stage {
            Stage::Awaiting(awaited) => awaited.until,
            Stage::Granted(_, until) => *until,
            Stage::Open | Stage::Ended(_) => {
                // The wait has expired; only the final attempt is outstanding.
                let end = if end <= now && self.is_final_attempt { Instant::FAR_FUTURE } else { end };
                self.retry_at.map_or(end, |retry| retry.min(end))
            }
        }
    }
}

/// Failures of the server, as met by a request or a line. Boxed, because of thousands of requests few meet a failure.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures(pub(super) Option<Box<Found>>);

#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) since: Option<Instant>,
    tries: u32,
    why: String,
    is_outcome_unknown: bool,
    /// The last refusal by a replica, and the number of connection resets before the first refused call.
    demotion: Option<(String, u64)>,
}

impl Failures {
    pub(super) fn since(&self) -> Option<Instant> {
        self.0.as_ref()?.since
    }

    pub(super) fn tries(&self) -> u32 {
        self.0.as_ref().map_or(0, |found| found.tries)
    }

    /// Whether the server may have applied a call of the request that had no reply.
    pub(super) fn is_outcome_unknown(&self) -> bool {
        self.0.as_ref().is_some_and(|found| found.is_outcome_unknown)
    }

    pub(super) fn set_outcome_unknown(&mut self, unknown: bool) {
        if unknown || self.0.is_some() {
            self.0.get_or_insert_default().is_outcome_unknown = unknown;
        }
    }

    /// Restarts the count and the time of failures. An unknown outcome stays unknown.
    pub(super) fn forget_failures(&mut self) {
        if let Some(found) = &mut self.0 {
            found.since = None;
            found.tries = 0;
        }
    }

    pub(super) fn note(&mut self, now: Instant, why: &str) {
        let found = self.0.get_or_insert_default();
        found.since.get_or_insert(now);
        found.tries = found.tries.saturating_add(1);
        found.why.clear();
        found.why.push_str(why);
    }

    /// Records a call that a replica refused. Returns whether a connection was reset between the first refused call and this call: a new
    /// connection would have reached the new primary.
    pub(super) fn note_demotion(&mut self, text: &str, resets: u64) -> bool {
        let demotion = &mut self.0.get_or_insert_default().demotion;
        let (last, first_resets) = demotion.get_or_insert_with(|| (String::new(), resets));
        text.clone_into(last);
        resets > *first_resets
    }

    /// The last failure, and whether the server was a replica.
    pub(super) fn text(&self) -> String {
        let Some(found) = &self.0 else { return String::new() };
        match &found.demotion {
            None => found.why.clone(),
            Some((text, _)) if *text == found.why => {
                format!("its address leads to a replica that may only be read: {}", found.why)
            }
            Some(_) => format!("{}; before that, its address led to a replica that may only be read", found.why),
        }
    }
}

/// The holds and requests of named owners, by lock. A map, because thousands of owners may share a lock.
#[derive(Debug, Default)]
pub(super) struct Owners(NumberMap<(LockId, OwnerId), Owned>);

#[derive(Debug, Default)]
pub(super) struct Owned {
    /// The eldest first.
    pub(super) holds: Vec<HoldNumber>,
    /// The eldest first.
    pub(super) requests: Vec<Ticket>,
}

impl Owners {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LockId, OwnerId, &Owned)> {
        self.0.iter().map(|((lock, owner), owned)| (*lock, *owner, owned))
    }

    /// The owner's eldest hold of the lock.
    pub(super) fn hold(&self, lock: LockId, owner: OwnerId) -> Option<HoldNumber> {
        self.0.get(&(lock, owner))?.holds.first().copied()
    }

    pub(super) fn requests(&self, lock: LockId, owner: OwnerId) -> &[Ticket] {
        self.0.get(&(lock, owner)).map_or(&[], |owned| &owned.requests)
    }

    /// Changes the holds and requests of an owner.
    pub(super) fn change(&mut self, lock: LockId, owner: OwnerId, change: impl FnOnce(&mut Owned)) {
        let owned = self.0.entry((lock, owner)).or_default();
        change(owned);
        if owned.holds.is_empty() && owned.requests.is_empty() {
            self.0.remove(&(lock, owner));
        }
    }
}

#[cfg(test)]
mod tests;
