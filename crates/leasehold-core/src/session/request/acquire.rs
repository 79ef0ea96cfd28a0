//! The record of a request to acquire: where it stands, what it has begun, and how it ends.

use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::session::failures::Failures;
use crate::session::ids::LockId;
use crate::session::request::acquire::ending::{GivenUp, Stage};
use crate::session::{AcquireRequest, Granted, Patience};
use crate::time::Instant;
use bytes::Bytes;
use std::task::Waker;
use std::time::Duration;

mod attempts;
pub(crate) mod ending;

/// What a caller is told of its acquire.
pub(crate) type AcquireOutcome = Result<Option<Granted>, AcquireError>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Acquire {
    lock: LockId,
    wish: Box<AcquireRequest>,
    started: Instant,
    stage: Stage,
    place: LocalPlace,
    /// The holds of the other half of a read-write lock that matter to it. Boxed, because most requests are of no half.
    other_half: Option<Box<OtherHalf>>,
    /// A hold of it had a place in the server's queue.
    had_place: bool,
    /// How often it has asked for a first grant.
    attempts: u32,
    /// How often it found the lock busy, where waiting is by polling.
    polls: u32,
    /// The caller's own back-off is to be asked how long to wait after the last of these.
    asks_backoff: bool,
    /// The hold that this request has begun: a first grant of it may be on the way.
    hold: Option<HoldNumber>,
    /// The turn came and the future was not polled: others go first until it is.
    unpolled: bool,
    /// The patience has ended, or the request asks once more only: a busy answer ends it.
    is_final_attempt: bool,
    /// Since when the server has been out of reach for this request, where it does not stand in the line.
    failures: Failures,
    /// Number of grants that its future did not read in time.
    missed_grants: u8,
    /// The round in which it was invited to ask beside the contender.
    invited: Option<u64>,
    alarm: Alarm,
    /// How often a call of it was not sent, and was sent again at once.
    resends: u8,
    retry_at: Option<Instant>,
    timer: Option<Instant>,
    waker: Option<Waker>,
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
pub(crate) enum LocalPlace {
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
pub(crate) enum Alarm {
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
    pub(crate) fn new(now: Instant, lock: LockId, wish: Box<AcquireRequest>) -> Self {
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

    /// The lock that it asks for.
    pub(crate) const fn lock(&self) -> LockId {
        self.lock
    }

    /// The words of its caller.
    pub(crate) fn wish(&self) -> &AcquireRequest {
        &self.wish
    }

    /// When it was made.
    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    /// Where it stands.
    pub(crate) const fn place(&self) -> LocalPlace {
        self.place
    }

    /// The hold that it has begun.
    pub(crate) const fn hold(&self) -> Option<HoldNumber> {
        self.hold
    }

    /// The hold of its own owner that it re-enters.
    pub(crate) const fn entering(&self) -> Option<HoldNumber> {
        match self.place {
            LocalPlace::Entering(number) => Some(number),
            LocalPlace::Line | LocalPlace::Aside => None,
        }
    }

    /// The hold that its calls are about: the one that it has begun, or the one that it re-enters.
    pub(crate) fn target(&self) -> Option<HoldNumber> {
        self.hold.or_else(|| self.entering())
    }

    /// The hold of the other half beside which it is taken.
    pub(crate) fn beside(&self) -> Option<&Bytes> {
        self.other_half.as_ref()?.beside.as_ref()
    }

    /// Whether the server refused to let it in beside this hold of the other half.
    pub(crate) fn was_refused_beside(&self, other_half: &Bytes) -> bool {
        self.other_half.as_ref().is_some_and(|known| known.not_beside.as_ref() == Some(other_half))
    }

    /// Whether it has asked before for what it asks for now.
    pub(crate) const fn has_asked_before(&self) -> bool {
        self.attempts > 1
    }

    /// Whether a hold of it had a place in the server's queue.
    pub(crate) const fn had_place(&self) -> bool {
        self.had_place
    }

    /// Whether a busy answer ends it.
    pub(crate) const fn is_final_attempt(&self) -> bool {
        self.is_final_attempt
    }

    /// When its caller does not want to wait any longer. A try waits for two command timeouts.
    pub(crate) fn end_of_wish(&self, command_timeout: Duration) -> Instant {
        match self.wish.patience {
            Patience::Try => self.started + command_timeout * 2,
            Patience::Until(until) => until,
            Patience::Forever => Instant::FAR_FUTURE,
        }
    }

    /// The failures that it has met while it did not stand in the line.
    pub(crate) const fn failures(&self) -> &Failures {
        &self.failures
    }

    /// The same, to be changed.
    pub(crate) const fn failures_mut(&mut self) -> &mut Failures {
        &mut self.failures
    }
}

/// Where it stands, and what it begins.
impl Acquire {
    /// It stands in the line of its lock.
    pub(crate) const fn stand_in_line(&mut self) {
        self.place = LocalPlace::Line;
    }

    /// It stands nowhere.
    pub(crate) const fn stand_aside(&mut self) {
        self.place = LocalPlace::Aside;
    }

    /// It joins the line, which knows from here on whether the server does its part.
    pub(crate) fn join_line(&mut self) {
        self.place = LocalPlace::Line;
        self.failures.forget_failures();
        self.retry_at = None;
    }

    /// It re-enters a hold of its own owner. Gives the hold that it had begun.
    pub(crate) const fn enter(&mut self, number: HoldNumber) -> Option<HoldNumber> {
        self.place = LocalPlace::Entering(number);
        self.hold.take()
    }

    /// It is taken beside a hold of the other half.
    pub(crate) fn stand_beside(&mut self, other_half: Option<Bytes>) {
        if other_half.is_some() || self.other_half.is_some() {
            self.other_half.get_or_insert_default().beside = other_half;
        }
    }

    /// The server did not let it in beside the other half. Says whether it was to be taken so.
    pub(crate) fn refuse_beside(&mut self) -> bool {
        let Some(known) = &mut self.other_half else { return false };
        known.not_beside = known.beside.take();
        known.not_beside.is_some()
    }

    /// More replicas must acknowledge it.
    pub(crate) fn require_replicas(&mut self, replicas: Option<crate::call::Replicas>) {
        self.wish.replicas = replicas;
    }

    /// It has begun this hold.
    pub(crate) const fn begin(&mut self, number: HoldNumber) {
        self.hold = Some(number);
    }

    /// It has no hold any more. Gives the one that it had begun.
    pub(crate) const fn forget_hold(&mut self) -> Option<HoldNumber> {
        self.hold.take()
    }

    /// Its hold has a place, or a mark, on the server. Says whether it had one before, and has lost it.
    pub(crate) fn note_place(&mut self, moved: bool) -> bool {
        let lost = self.had_place && moved;
        self.had_place = true;
        self.failures.set_outcome_unknown(false);
        lost
    }

    /// It is invited to ask beside the contender, in this round.
    pub(crate) const fn invite(&mut self, round: u64) {
        self.invited = Some(round);
    }

    /// Whether it is invited in this round.
    pub(crate) fn is_invited(&self, round: u64) -> bool {
        self.invited == Some(round)
    }

    /// What its client was told of its wait.
    pub(crate) const fn alarm(&self) -> Alarm {
        self.alarm
    }

    /// Its client is told more of its wait.
    pub(crate) const fn set_alarm(&mut self, alarm: Alarm) {
        self.alarm = alarm;
    }
}
