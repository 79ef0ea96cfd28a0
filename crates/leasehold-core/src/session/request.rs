//! The requests of callers: acquires, releases and pauses.

use crate::error::{AcquireError, ReleaseError};
use crate::number_map::{BoxMap, NumberMap};
use crate::owner::{HoldNumber, OwnerId};
use crate::session::lock::LockId;
use crate::session::{AcquireRequest, Granted, Missing, Patience, Ticket, pause_before};
use crate::time::Instant;
use bytes::Bytes;
use std::task::Waker;
use std::time::Duration;

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
    pub(super) hold: HoldNumber,
    timer: Option<Instant>,
    waker: Option<Waker>,
    outcome: Option<Result<(), ReleaseError>>,
}

impl Release {
    /// A release of a guard of this hold, which may have an outcome already.
    pub(super) const fn new(hold: HoldNumber, outcome: Option<Result<(), ReleaseError>>) -> Self {
        Self { hold, timer: None, waker: None, outcome }
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
    pub(super) until: Instant,
    timer: Option<Instant>,
    waker: Option<Waker>,
}

impl Pause {
    /// A wait until then.
    pub(super) const fn new(until: Instant) -> Self {
        Self { until, timer: None, waker: None }
    }
}

impl Request {
    /// Where the waker of its future is kept.
    pub(super) const fn waker(&mut self) -> &mut Option<Waker> {
        match self {
            Self::Acquire(acquire) => &mut acquire.waker,
            Self::Release(release) => &mut release.waker,
            Self::Pause(pause) => &mut pause.waker,
        }
    }

    /// When its timer is due, if it is set.
    pub(super) const fn timer_at(&self) -> Option<Instant> {
        match self {
            Self::Acquire(acquire) => acquire.timer,
            Self::Release(release) => release.timer,
            Self::Pause(pause) => pause.timer,
        }
    }

    /// Where the instant of its timer is kept.
    pub(super) const fn timer(&mut self) -> &mut Option<Instant> {
        match self {
            Self::Acquire(acquire) => &mut acquire.timer,
            Self::Release(release) => &mut release.timer,
            Self::Pause(pause) => &mut pause.timer,
        }
    }
}

/// The requests of a client that are not done, by their tickets.
#[derive(Debug, Default)]
pub(super) struct Requests {
    table: BoxMap<Ticket, Request>,
    pub(super) missing: Missing,
}

impl Requests {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Adds a request.
    pub(super) fn insert(&mut self, ticket: Ticket, request: Request) {
        self.table.insert(ticket, request);
    }

    /// Takes a request out.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Request> {
        self.table.remove(ticket)
    }

    /// The request of a ticket; `None` where it is done.
    pub(super) fn get(&self, ticket: &Ticket) -> Option<&Request> {
        self.table.get(*ticket)
    }

    /// The request of a ticket, to be changed.
    pub(super) fn get_mut(&mut self, ticket: &Ticket) -> Option<&mut Request> {
        self.table.get_mut(*ticket)
    }

    /// All requests, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &Request)> {
        self.table.iter()
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
        match self.table.get_mut(ticket) {
            Some(Request::Acquire(acquire)) => Some(acquire),
            _ => {
                self.missing.note();
                None
            }
        }
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

// ===== An acquire =====
//
// The record of a request to acquire: where it stands, what it has begun, and how it ends.

/// What a caller is told of its acquire.
pub(super) type AcquireOutcome = Result<Option<Granted>, AcquireError>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Acquire {
    pub(super) lock: LockId,
    pub(super) wish: Box<AcquireRequest>,
    pub(super) started: Instant,
    stage: Stage,
    pub(super) place: LocalPlace,
    /// The holds of the other half of a read-write lock that matter to it. Boxed, because most requests are of no half.
    other_half: Option<Box<OtherHalf>>,
    /// A hold of it had a place in the server's queue.
    pub(super) had_place: bool,
    /// How often it has asked for a first grant.
    attempts: u32,
    /// How often it found the lock busy, where waiting is by polling.
    polls: u32,
    /// The caller's own back-off is to be asked how long to wait after the last of these.
    pub(super) asks_backoff: bool,
    /// The hold that this request has begun: a first grant of it may be on the way.
    pub(super) hold: Option<HoldNumber>,
    /// The turn came and the future was not polled: others go first until it is.
    unpolled: bool,
    /// The patience has ended, or the request asks once more only: a busy answer ends it.
    pub(super) is_final_attempt: bool,
    /// Since when the server has been out of reach for this request, where it does not stand in the line.
    pub(super) failures: Failures,
    /// Number of grants that its future did not read in time.
    missed_grants: u8,
    /// The round in which it was invited to ask beside the contender.
    pub(super) invited: Option<u64>,
    pub(super) alarm: Alarm,
    /// How often a call of it was not sent, and was sent again at once.
    resends: u8,
    pub(super) retry_at: Option<Instant>,
    pub(super) timer: Option<Instant>,
    pub(super) waker: Option<Waker>,
    /// The other holds of the same lock that are being taken back.
    given_up: GivenUp,
}

/// The holds of the other half of a read-write lock that matter to a request.
#[derive(Debug, Default)]
struct OtherHalf {
    /// The hold beside which it is taken.
    beside: Option<Bytes>,
    /// The hold beside which the server did not let it in: that one is lost, and its loss will be told.
    not_beside: Option<Bytes>,
}

/// The place of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalPlace {
    /// In the local line of its lock.
    Line,
    /// Not there: it has not joined it, or has left it; or it stands beside it, because its owner holds the other half, or because it tries
    /// once, without waiting.
    Aside,
    /// At a hold of its own owner, which it re-enters.
    Entering(HoldNumber),
}

/// The reports of a wait for the waiter's own client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Alarm {
    /// Nothing.
    #[default]
    Silent,
    /// That it waits.
    Noted,
    /// That it may wait for itself.
    Raised,
}

/// The record as it is begun, and what it says of itself.
impl Acquire {
    /// A request that is made now, and stands nowhere yet.
    pub(super) fn new(now: Instant, lock: LockId, wish: Box<AcquireRequest>) -> Self {
        Self {
            lock,
            wish,
            started: now,
            stage: Stage::Open,
            place: LocalPlace::Aside,
            other_half: None,
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
            alarm: Alarm::default(),
            resends: 0,
            retry_at: None,
            timer: None,
            waker: None,
            given_up: GivenUp::Nothing,
        }
    }

    /// The hold of its own owner that it re-enters.
    pub(super) const fn entering(&self) -> Option<HoldNumber> {
        match self.place {
            LocalPlace::Entering(number) => Some(number),
            LocalPlace::Line | LocalPlace::Aside => None,
        }
    }

    /// The hold that its calls are about: the one that it has begun, or the one that it re-enters.
    pub(super) fn target(&self) -> Option<HoldNumber> {
        self.hold.or_else(|| self.entering())
    }

    /// The hold of the other half beside which it is taken.
    pub(super) fn beside(&self) -> Option<&Bytes> {
        self.other_half.as_ref()?.beside.as_ref()
    }

    /// Whether the server refused to let it in beside this hold of the other half.
    pub(super) fn was_refused_beside(&self, other_half: &Bytes) -> bool {
        self.other_half.as_ref().is_some_and(|known| known.not_beside.as_ref() == Some(other_half))
    }

    /// Whether it has asked before for what it asks for now.
    pub(super) const fn has_asked_before(&self) -> bool {
        self.attempts > 1
    }

    /// When its caller does not want to wait any longer. A try waits for two command timeouts.
    pub(super) fn end_of_wish(&self, command_timeout: Duration) -> Instant {
        match self.wish.patience {
            Patience::Try => self.started + command_timeout * 2,
            Patience::Until(until) => until,
            Patience::Forever => Instant::FAR_FUTURE,
        }
    }
}

/// Where it stands, and what it begins.
impl Acquire {
    /// It stands in the line of its lock.
    pub(super) const fn stand_in_line(&mut self) {
        self.place = LocalPlace::Line;
    }

    /// It stands nowhere.
    pub(super) const fn stand_aside(&mut self) {
        self.place = LocalPlace::Aside;
    }

    /// It joins the line, which knows from here on whether the server does its part.
    pub(super) fn join_line(&mut self) {
        self.place = LocalPlace::Line;
        self.failures.forget_failures();
        self.retry_at = None;
    }

    /// It re-enters a hold of its own owner. Gives the hold that it had begun.
    pub(super) const fn enter(&mut self, number: HoldNumber) -> Option<HoldNumber> {
        self.place = LocalPlace::Entering(number);
        self.hold.take()
    }

    /// It is taken beside a hold of the other half.
    pub(super) fn stand_beside(&mut self, other_half: Option<Bytes>) {
        if other_half.is_some() || self.other_half.is_some() {
            self.other_half.get_or_insert_default().beside = other_half;
        }
    }

    /// The server did not let it in beside the other half. Says whether it was to be taken so.
    pub(super) fn refuse_beside(&mut self) -> bool {
        let Some(known) = &mut self.other_half else { return false };
        known.not_beside = known.beside.take();
        known.not_beside.is_some()
    }

    /// More replicas must acknowledge it.
    pub(super) fn require_replicas(&mut self, replicas: Option<crate::call::Replicas>) {
        self.wish.replicas = replicas;
    }

    /// It has no hold any more. Gives the one that it had begun.
    pub(super) const fn forget_hold(&mut self) -> Option<HoldNumber> {
        self.hold.take()
    }

    /// Its hold has a place, or a mark, on the server. Says whether it had one before, and has lost it.
    pub(super) fn note_place(&mut self, moved: bool) -> bool {
        let lost = self.had_place && moved;
        self.had_place = true;
        self.failures.set_outcome_unknown(false);
        lost
    }

    /// Whether it is invited in this round.
    pub(super) fn is_invited(&self, round: u64) -> bool {
        self.invited == Some(round)
    }
}

// ===== The end of an acquire =====
//
// The end of an acquire: its outcome, its unread grant, and the withdrawals that it waits for.

/// Minimum time to read the grant of an attempt that is not repeated.
const LAST: Duration = Duration::from_secs(1);

/// The stage of a request.
#[derive(Debug)]
pub(super) enum Stage {
    /// It sends acquires, or waits.
    Open,
    /// It ended without the lock. It reports the outcome after its withdrawal from the server.
    TakingBack(Box<TakingBack>),
    /// It has a grant, which its future must read before this instant.
    Granted(AcquireOutcome, Instant),
    /// It has an outcome, which its future has not read.
    Ended(AcquireOutcome),
}

/// An acquire that ended without the lock, during its withdrawal from the server.
#[derive(Debug)]
pub(super) struct TakingBack {
    outcome: AcquireOutcome,
    pub(super) holds: Vec<HoldNumber>,
    until: Instant,
}

impl TakingBack {
    /// The outcome after the withdrawal.
    pub(super) fn into_outcome(self) -> AcquireOutcome {
        self.outcome
    }
}

/// Withdrawals of other requests of this client for the same lock. They may be why a request finds the lock busy.
#[derive(Debug, Default)]
pub(super) enum GivenUp {
    /// None was pending at the request's last acquire.
    #[default]
    Nothing,
    /// At least one was pending at the request's last acquire.
    Crossed,
    /// The request found the lock busy. It retries once when these holds are gone, but not after this instant.
    Awaited(Vec<HoldNumber>, Instant),
    /// The request has used its retry.
    Over,
}

/// The meaning of a request's due timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Due {
    /// Nothing: the request has ended.
    Nothing,
    /// Its future did not read its grant in time.
    Unread,
    /// Too early: set the timer again.
    Later,
    /// Its withdrawal took too long. Report the outcome now.
    TakenBackTooLate,
    /// The withdrawals of other requests took too long. Do not retry.
    AwaitedTooLong,
    /// It may retry, or its patience has ended.
    Patience,
}

impl Acquire {
    /// Whether it has an outcome.
    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_) | Stage::Granted(..))
    }

    /// Whether it ended and waits for its withdrawal.
    pub(super) const fn is_taking_back(&self) -> bool {
        matches!(self.stage, Stage::TakingBack(_))
    }

    /// Whether it sends acquires, or waits.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether it is open and re-enters no hold.
    pub(super) fn waits(&self) -> bool {
        self.is_open() && !matches!(self.place, LocalPlace::Entering(_))
    }

    /// Whether it stands in the line and has not ended.
    pub(super) fn waits_in_line(&self) -> bool {
        self.place == LocalPlace::Line && !self.has_ended()
    }

    /// Whether it sends nothing, because it waits for a withdrawal.
    pub(super) const fn rests(&self) -> bool {
        self.is_taking_back() || matches!(self.given_up, GivenUp::Awaited(..))
    }

    /// Ends the request. Only the first outcome counts. Returns whether this is the first.
    pub(super) fn end(&mut self, outcome: AcquireOutcome) -> bool {
        let is_first = !self.has_ended();
        if is_first {
            self.stage = Stage::Ended(outcome);
        }
        is_first
    }

    /// Stores a grant. Unless the future reads it before `until`, the hold goes to another request.
    pub(super) fn grant(&mut self, granted: Granted, until: Instant) {
        self.hold = None;
        self.stage = Stage::Granted(Ok(Some(granted)), until);
    }

    /// The instant before which the future must read a grant of now: usually `turn` from now. Each miss doubles the time, up to eight times, so
    /// that a caller on a slow executor gets the lock eventually. An attempt that is not repeated has more time: it would report a free lock
    /// as busy.
    pub(super) fn read_until(&self, now: Instant, turn: Duration) -> Instant {
        if self.is_final_attempt || self.wish.patience == Patience::Try {
            return now + turn.max(LAST);
        }
        now + turn * (1 << self.missed_grants.min(8))
    }

    /// The unread grant.
    pub(super) const fn unread(&self) -> Option<&Granted> {
        match &self.stage {
            Stage::Granted(Ok(granted), _) => granted.as_ref(),
            _ => None,
        }
    }

    /// Postpones the unread grant's deadline to `next`.
    pub(super) const fn keep_unread(&mut self, next: Instant) {
        if let Stage::Granted(_, until) = &mut self.stage {
            *until = next;
        }
    }

    /// Removes the unread grant. The request continues as if no call had failed.
    pub(super) fn take_unread(&mut self) -> Option<Granted> {
        self.unread()?;
        self.missed_grants = self.missed_grants.saturating_add(1);
        self.is_final_attempt = false;
        self.failures = Failures::default();
        self.take_outcome().and_then(Result::ok).flatten()
    }

    /// The outcome, if the request has ended.
    pub(super) const fn outcome(&self) -> Option<&AcquireOutcome> {
        match &self.stage {
            Stage::Ended(outcome) | Stage::Granted(outcome, _) => Some(outcome),
            Stage::Open | Stage::TakingBack(_) => None,
        }
    }

    /// Removes and returns the outcome.
    pub(super) fn take_outcome(&mut self) -> Option<AcquireOutcome> {
        if !self.has_ended() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::Ended(outcome) | Stage::Granted(outcome, _) => Some(outcome),
            Stage::Open | Stage::TakingBack(_) => None,
        }
    }

    /// Ends the request, but delays the outcome until these holds are withdrawn, or until `until`.
    pub(super) fn take_back(&mut self, outcome: AcquireOutcome, holds: Vec<HoldNumber>, until: Instant) {
        self.hold = None;
        self.stage = Stage::TakingBack(Box::new(TakingBack { outcome, holds, until }));
    }

    /// Stops waiting for the withdrawal.
    pub(super) fn stop_taking_back(&mut self) -> Option<TakingBack> {
        if !self.is_taking_back() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::TakingBack(taking_back) => Some(*taking_back),
            Stage::Open | Stage::Granted(..) | Stage::Ended(_) => None,
        }
    }

    /// Records the withdrawal of a hold. Returns the outcome after the last hold.
    pub(super) fn note_taken_back(&mut self, number: HoldNumber) -> Option<AcquireOutcome> {
        let Stage::TakingBack(taking_back) = &mut self.stage else { return None };
        taking_back.holds.retain(|awaited| *awaited != number);
        if !taking_back.holds.is_empty() {
            return None;
        }
        self.stop_taking_back().map(TakingBack::into_outcome)
    }

    /// Records, before an acquire, whether withdrawals of other requests are pending.
    pub(super) fn note_crossing(&mut self, crosses: bool) {
        self.given_up = if crosses { GivenUp::Crossed } else { GivenUp::Nothing };
    }

    /// Whether withdrawals of other requests matter: a busy reply may end this request, and its retry is unused.
    pub(super) fn may_cross(&self) -> bool {
        self.wish.patience != Patience::Forever && !matches!(self.given_up, GivenUp::Over)
    }

    /// Whether a withdrawal was pending at the last acquire.
    pub(super) const fn crossed(&self) -> bool {
        matches!(self.given_up, GivenUp::Crossed)
    }

    /// Waits for these holds to be gone before a last attempt, until `until`.
    pub(super) fn await_given_up(&mut self, holds: Vec<HoldNumber>, until: Instant) {
        self.is_final_attempt = true;
        self.given_up = GivenUp::Awaited(holds, until);
    }

    /// Records that another request's hold is gone. Returns whether it was the last awaited hold.
    pub(super) fn note_given_up_gone(&mut self, number: HoldNumber) -> bool {
        let ended = self.has_ended();
        let GivenUp::Awaited(holds, _) = &mut self.given_up else { return false };
        holds.retain(|awaited| *awaited != number);
        holds.is_empty() && !ended
    }

    /// Stops waiting for the withdrawals of other requests.
    pub(super) fn stop_awaiting(&mut self) {
        self.given_up = GivenUp::Over;
    }

    /// The next due time of the timer. `end` is the end of the patience.
    pub(super) fn timeout(&self, now: Instant, end: Instant) -> Instant {
        match (&self.stage, &self.given_up) {
            // A request in withdrawal never retries.
            (Stage::TakingBack(taking_back), _) => taking_back.until,
            (Stage::Granted(_, until), _) => *until,
            (_, GivenUp::Awaited(_, until)) => *until,
            _ => {
                // The end of the patience is handled: only the last attempt is pending.
                let end = if end <= now && self.is_final_attempt { Instant::FAR_FUTURE } else { end };
                self.retry_at.map_or(end, |retry| retry.min(end))
            }
        }
    }

    /// The meaning of the due timer.
    pub(super) fn due(&self, now: Instant) -> Due {
        match (&self.stage, &self.given_up) {
            (Stage::Ended(_), _) => Due::Nothing,
            (Stage::Granted(_, until), _) => {
                if *until <= now {
                    Due::Unread
                } else {
                    Due::Later
                }
            }
            (Stage::TakingBack(taking_back), _) if taking_back.until <= now => Due::TakenBackTooLate,
            (Stage::Open, GivenUp::Awaited(_, until)) if *until <= now => Due::AwaitedTooLong,
            (Stage::TakingBack(_), _) | (Stage::Open, GivenUp::Awaited(..)) => Due::Later,
            (Stage::Open, _) => Due::Patience,
        }
    }
}

// ===== The attempts of an acquire =====
//
// The future of an acquire, and its attempts.

impl Acquire {
    /// Its future is polled. Says whether it had not been when its turn came.
    pub(super) fn note_polled(&mut self, waker: &Waker) -> bool {
        self.waker = Some(waker.clone());
        std::mem::take(&mut self.unpolled)
    }

    /// Its turn came, and its future was not polled. Gives the hold that it had begun.
    pub(super) const fn note_unpolled(&mut self) -> Option<HoldNumber> {
        self.unpolled = true;
        self.hold.take()
    }

    /// Whether its future has been polled since its last turn.
    pub(super) const fn is_awake(&self) -> bool {
        !self.unpolled
    }

    /// It asks for a first grant. Gives the hold that it has begun before.
    pub(super) const fn begin_attempt(&mut self) -> Option<HoldNumber> {
        self.attempts = self.attempts.saturating_add(1);
        self.hold
    }

    /// A call of it was not sent, and may be sent again at once. Says how often that has happened.
    pub(super) const fn note_resend(&mut self) -> u8 {
        self.resends = self.resends.saturating_add(1);
        self.resends
    }

    /// Whether no pause after a failure lies before it.
    pub(super) fn may_try(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// Ends a pause after a failure. Says whether one is over now.
    pub(super) fn end_pause(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }

    /// Whether it found a lock busy that is polled.
    pub(super) const fn has_polled(&self) -> bool {
        self.polls > 0
    }

    /// It found a lock busy that is polled. Gives how often it has.
    pub(super) const fn note_poll(&mut self) -> u32 {
        self.polls = self.polls.saturating_add(1);
        self.polls
    }

    /// After which failure the caller's own back-off is to be asked, if it is; once.
    pub(super) fn take_backoff_question(&mut self) -> Option<u32> {
        let asks = std::mem::take(&mut self.asks_backoff);
        (asks && !self.has_ended()).then_some(self.polls)
    }
}

// ===== Failures of the server =====
//
// A server that does not do its part, as a request or a line has met it.

/// A server that does not do its part. It takes a place of its own only once it has failed: thousands of requests may wait, and few of them
/// meet a failure.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures(Option<Box<Found>>);

/// What was found of a server.
#[derive(Clone, Debug, Default)]
struct Found {
    since: Option<Instant>,
    tries: u32,
    why: String,
    /// Whether a call of this request has an outcome that is not known.
    unsure: bool,
    /// The server is a replica that refuses writes.
    demotion: Option<Box<Demotion>>,
}

/// A server that refuses writes, because it is a replica.
#[derive(Clone, Debug)]
struct Demotion {
    /// Its last words.
    text: String,
    /// Resets before the first refused call was sent.
    resets: u64,
}

impl Failures {
    /// The server has done its part so far.
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Whether anything is known of failures.
    pub(super) const fn has_any(&self) -> bool {
        self.0.is_some()
    }

    /// Since when the server has failed.
    pub(super) fn since(&self) -> Option<Instant> {
        self.0.as_ref()?.since
    }

    /// How often it has failed.
    pub(super) fn tries(&self) -> u32 {
        self.0.as_ref().map_or(0, |found| found.tries)
    }

    /// Whether a call of the request has been applied, or not: its outcome is not known.
    pub(super) fn is_outcome_unknown(&self) -> bool {
        self.0.as_ref().is_some_and(|found| found.unsure)
    }

    /// Notes whether a call of the request has an outcome that is not known.
    pub(super) fn set_outcome_unknown(&mut self, unsure: bool) {
        if unsure || self.has_any() {
            self.found().unsure = unsure;
        }
    }

    /// The failures so far do not count any more; what is not known stays so.
    pub(super) fn forget_failures(&mut self) {
        if let Some(found) = &mut self.0 {
            found.since = None;
            found.tries = 0;
        }
    }

    /// The request does not wait for the server, and so not for too long.
    pub(super) fn forget_since(&mut self) {
        if let Some(found) = &mut self.0 {
            found.since = None;
        }
    }

    /// The server is given so much longer.
    pub(super) fn postpone(&mut self, more: Duration) {
        if let Some(since) = self.0.as_mut().and_then(|found| found.since.as_mut()) {
            *since = *since + more;
        }
    }

    /// Notes a failure.
    pub(super) fn note(&mut self, now: Instant, why: &str) {
        let found = self.found();
        found.since.get_or_insert(now);
        found.tries = found.tries.saturating_add(1);
        found.why.clear();
        found.why.push_str(why);
    }

    /// Notes a call refused by a replica. Returns whether a connection was reset between the first refused call and this one: a primary
    /// that has taken its place would have been found.
    pub(super) fn note_demotion(&mut self, text: &str, resets: u64) -> bool {
        let first = || Box::new(Demotion { text: String::new(), resets });
        let demotion = self.found().demotion.get_or_insert_with(first);
        text.clone_into(&mut demotion.text);
        resets > demotion.resets
    }

    /// The last failure, and whether the server was seen to be a replica.
    pub(super) fn in_words(&self) -> String {
        let Some(found) = &self.0 else { return String::new() };
        match &found.demotion {
            None => found.why.clone(),
            Some(demotion) if demotion.text == found.why => {
                format!("its address leads to a replica that may only be read: {}", found.why)
            }
            Some(_) => format!("{}; before that, its address led to a replica that may only be read", found.why),
        }
    }

    /// How long to leave the server in peace: 10 ms, doubled with every failure, at most half a second.
    pub(super) fn pause(&self) -> Duration {
        pause_before(self.tries())
    }

    fn found(&mut self) -> &mut Found {
        self.0.get_or_insert_default()
    }
}

// ===== Named owners =====
//
// The holds and requests of named owners.

/// The holds and requests of a named owner for one lock. Looked up by both, because thousands of owners may share a lock.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// The eldest first.
    pub(super) holds: Vec<HoldNumber>,
    /// In the order in which they came.
    pub(super) wishes: Vec<Ticket>,
}

impl Owned {}

/// Which owner holds and wants what.
#[derive(Debug, Default)]
pub(super) struct Owners(NumberMap<(LockId, OwnerId), Owned>);

impl Owners {
    /// How many pairs of owner and lock there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LockId, OwnerId, &Owned)> {
        self.0.iter().map(|((lock, owner), owned)| (*lock, *owner, owned))
    }

    /// The hold that a named owner has of a lock.
    pub(super) fn hold(&self, lock: LockId, owner: OwnerId) -> Option<HoldNumber> {
        self.0.get(&(lock, owner))?.holds.first().copied()
    }

    /// The requests for a lock in the name of an owner.
    pub(super) fn wishes(&self, lock: LockId, owner: OwnerId) -> &[Ticket] {
        self.0.get(&(lock, owner)).map_or(&[], |owned| &owned.wishes)
    }

    /// The owner holds the lock by this hold.
    pub(super) fn add_hold(&mut self, lock: LockId, owner: OwnerId, number: HoldNumber) {
        self.0.entry((lock, owner)).or_default().holds.push(number);
    }

    /// The owner does not hold the lock by this hold any more.
    pub(super) fn remove_hold(&mut self, lock: LockId, owner: OwnerId, number: HoldNumber) {
        self.change(lock, owner, |owned| owned.holds.retain(|held| *held != number));
    }

    /// The owner has a request for the lock.
    pub(super) fn add_wish(&mut self, lock: LockId, owner: OwnerId, ticket: Ticket) {
        self.0.entry((lock, owner)).or_default().wishes.push(ticket);
    }

    /// The owner's request is over.
    pub(super) fn remove_wish(&mut self, lock: LockId, owner: OwnerId, ticket: Ticket) {
        self.change(lock, owner, |owned| owned.wishes.retain(|wish| *wish != ticket));
    }

    fn change(&mut self, lock: LockId, owner: OwnerId, change: impl FnOnce(&mut Owned)) {
        let Some(owned) = self.0.get_mut(&(lock, owner)) else { return };
        change(owned);
        if owned.holds.is_empty() && owned.wishes.is_empty() {
            self.0.remove(&(lock, owner));
        }
    }
}

#[cfg(test)]
mod tests;
