//! The record of a request to acquire: where it stands, what it has begun, and how it ends.

use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::session::ids::LockId;
use crate::session::trouble::Trouble;
use crate::session::{AcquireRequest, Granted, Patience};
use crate::time::Instant;
use bytes::Bytes;
use std::task::Waker;
use std::time::Duration;

/// What a caller is told of its acquire.
pub(crate) type AcquireOutcome = Result<Option<Granted>, AcquireError>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Acquire {
    lock: LockId,
    wish: AcquireRequest,
    started: Instant,
    stage: Stage,
    place: Place,
    /// The hold of the other half of a read-write lock beside which this one is taken.
    beside: Option<Bytes>,
    /// The hold of the other half beside which the server did not let it in: that one is lost, and its loss will be told.
    not_beside: Option<Bytes>,
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
    trouble: Trouble,
    /// How often its call was answered and its future not polled, so that the background took the call over.
    takeovers: u32,
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

/// How far a request has come.
#[derive(Debug)]
enum Stage {
    /// It asks, or waits.
    Open,
    /// It has ended without the lock, and its caller is told once the server has nothing of it any more.
    TakingBack(TakingBack),
    /// Its caller is to be told this.
    Ended(AcquireOutcome),
}

/// An acquire that has ended without the lock, and of which the server may still have something.
#[derive(Debug)]
pub(crate) struct TakingBack {
    outcome: AcquireOutcome,
    holds: Vec<HoldNumber>,
    until: Instant,
}

impl TakingBack {
    /// The outcome that its caller is told when all is taken back.
    pub(crate) fn into_outcome(self) -> AcquireOutcome {
        self.outcome
    }

    /// The holds that are being taken back.
    pub(crate) fn holds(&self) -> &[HoldNumber] {
        &self.holds
    }
}

/// The holds of the same lock that others of this client have given up, and that the server may still have, while a request asks for it.
#[derive(Debug, Default)]
enum GivenUp {
    /// There was nothing of it when the request asked last.
    #[default]
    Nothing,
    /// There was something when the request asked, which may be why it finds the lock busy.
    Crossed,
    /// The request has found the lock busy, and asks once more when these holds are gone; it asks no more after this instant.
    Awaited(Vec<HoldNumber>, Instant),
    /// It has asked once more.
    Over,
}

/// The place of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
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

/// What a request's timer means when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Due {
    /// Nothing: the request has ended.
    Nothing,
    /// The timer is to be set again.
    Later,
    /// What it began is not taken back in time: its caller is told so now.
    TakenBackTooLate,
    /// The holds that others gave up are not gone in time: it asks no more.
    AwaitedTooLong,
    /// It may try again, or its patience has ended.
    Patience,
}

/// The record as it is begun, and what it says of itself.
impl Acquire {
    /// A request that is made now, and stands nowhere yet.
    pub(crate) fn new(now: Instant, lock: LockId, wish: AcquireRequest) -> Self {
        Self {
            lock,
            wish,
            started: now,
            stage: Stage::Open,
            place: Place::Aside,
            beside: None,
            not_beside: None,
            had_place: false,
            attempts: 0,
            polls: 0,
            asks_backoff: false,
            hold: None,
            unpolled: false,
            is_final_attempt: false,
            trouble: Trouble::default(),
            takeovers: 0,
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
    pub(crate) const fn wish(&self) -> &AcquireRequest {
        &self.wish
    }

    /// When it was made.
    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    /// Where it stands.
    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    /// The hold that it has begun.
    pub(crate) const fn hold(&self) -> Option<HoldNumber> {
        self.hold
    }

    /// The hold of its own owner that it re-enters.
    pub(crate) const fn entering(&self) -> Option<HoldNumber> {
        match self.place {
            Place::Entering(number) => Some(number),
            Place::Line | Place::Aside => None,
        }
    }

    /// The hold that its calls are about: the one that it has begun, or the one that it re-enters.
    pub(crate) fn target(&self) -> Option<HoldNumber> {
        self.hold.or_else(|| self.entering())
    }

    /// The hold of the other half beside which it is taken.
    pub(crate) const fn beside(&self) -> Option<&Bytes> {
        self.beside.as_ref()
    }

    /// Whether the server refused to let it in beside this hold of the other half.
    pub(crate) fn was_refused_beside(&self, other_half: &Bytes) -> bool {
        self.not_beside.as_ref() == Some(other_half)
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
    pub(crate) const fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    /// The same, to be changed.
    pub(crate) const fn trouble_mut(&mut self) -> &mut Trouble {
        &mut self.trouble
    }
}

/// Where it stands, and what it begins.
impl Acquire {
    /// It stands in the line of its lock.
    pub(crate) const fn stand_in_line(&mut self) {
        self.place = Place::Line;
    }

    /// It stands nowhere.
    pub(crate) const fn stand_aside(&mut self) {
        self.place = Place::Aside;
    }

    /// It joins the line, which knows from here on whether the server does its part.
    pub(crate) fn join_line(&mut self) {
        self.place = Place::Line;
        self.trouble.forget_failures();
        self.retry_at = None;
    }

    /// It re-enters a hold of its own owner. Gives the hold that it had begun.
    pub(crate) const fn enter(&mut self, number: HoldNumber) -> Option<HoldNumber> {
        self.place = Place::Entering(number);
        self.hold.take()
    }

    /// It is taken beside a hold of the other half.
    pub(crate) fn stand_beside(&mut self, other_half: Option<Bytes>) {
        self.beside = other_half;
    }

    /// The server did not let it in beside the other half. Says whether it was to be taken so.
    pub(crate) fn refuse_beside(&mut self) -> bool {
        self.not_beside = self.beside.take();
        self.not_beside.is_some()
    }

    /// More replicas must acknowledge it.
    pub(crate) const fn require_replicas(&mut self, replicas: Option<crate::call::Replicas>) {
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
    pub(crate) const fn note_place(&mut self, moved: bool) -> bool {
        let lost = self.had_place && moved;
        self.had_place = true;
        self.trouble.set_unsure(false);
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

/// Its future, and its attempts.
impl Acquire {
    /// Its future is polled. Says whether it had not been when its turn came.
    pub(crate) fn note_polled(&mut self, waker: &Waker) -> bool {
        self.waker = Some(waker.clone());
        std::mem::take(&mut self.unpolled)
    }

    /// Its turn came, and its future was not polled. Gives the hold that it had begun.
    pub(crate) const fn note_unpolled(&mut self) -> Option<HoldNumber> {
        self.unpolled = true;
        self.hold.take()
    }

    /// Whether its future has been polled since its last turn.
    pub(crate) const fn is_awake(&self) -> bool {
        !self.unpolled
    }

    /// The background goes on with its call, which was answered although its future was not polled.
    pub(crate) const fn note_takeover(&mut self) {
        self.hold = None;
        self.takeovers = self.takeovers.saturating_add(1);
    }

    /// How often that has happened.
    pub(crate) const fn takeovers(&self) -> u32 {
        self.takeovers
    }

    /// It asks for a first grant. Gives the hold that it has begun before.
    pub(crate) const fn begin_attempt(&mut self) -> Option<HoldNumber> {
        self.attempts = self.attempts.saturating_add(1);
        self.hold
    }

    /// The attempt that is under way, or the next one, is the last.
    pub(crate) const fn make_final(&mut self) {
        self.is_final_attempt = true;
    }

    /// A call of it was not sent, and may be sent again at once. Says how often that has happened.
    pub(crate) const fn note_resend(&mut self) -> u8 {
        self.resends = self.resends.saturating_add(1);
        self.resends
    }

    /// Whether no pause after a failure lies before it.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// It leaves the server in peace until then.
    pub(crate) const fn retry_at(&mut self, at: Instant) {
        self.retry_at = Some(at);
    }

    /// Ends a pause after a failure. Says whether one is over now.
    pub(crate) fn end_pause(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }

    /// It found a lock busy that is polled. Gives how often it has.
    pub(crate) const fn note_poll(&mut self) -> u32 {
        self.polls = self.polls.saturating_add(1);
        self.polls
    }

    /// The caller's own back-off is to be asked, or not.
    pub(crate) const fn ask_backoff(&mut self, asks: bool) {
        self.asks_backoff = asks;
    }

    /// After which failure the caller's own back-off is to be asked, if it is; once.
    pub(crate) fn take_backoff_question(&mut self) -> Option<u32> {
        let asks = std::mem::take(&mut self.asks_backoff);
        (asks && !self.has_ended()).then_some(self.polls)
    }

    pub(super) const fn waker(&mut self) -> &mut Option<Waker> {
        &mut self.waker
    }

    /// The instant of its timer, as it is set.
    pub(crate) const fn timer(&self) -> Option<Instant> {
        self.timer
    }

    pub(super) const fn timer_slot(&mut self) -> &mut Option<Instant> {
        &mut self.timer
    }
}

/// Its end.
impl Acquire {
    /// Whether its caller is to be told how it ended.
    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_))
    }

    /// Whether it has ended, and what it began is being taken back.
    pub(crate) const fn is_taking_back(&self) -> bool {
        matches!(self.stage, Stage::TakingBack(_))
    }

    /// Whether it asks, or waits.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether it stands in the line and has not ended.
    pub(crate) fn waits_in_line(&self) -> bool {
        self.place == Place::Line && !self.has_ended()
    }

    /// Whether it sends nothing, because something that was begun is being taken back.
    pub(crate) const fn rests(&self) -> bool {
        self.is_taking_back() || matches!(self.given_up, GivenUp::Awaited(..))
    }

    /// It ends. The first outcome is the one that counts: says whether this is it.
    pub(crate) fn end(&mut self, outcome: AcquireOutcome) -> bool {
        let is_first = !self.has_ended();
        if is_first {
            self.stage = Stage::Ended(outcome);
        }
        is_first
    }

    /// It has the lock, by a hold that is no longer its alone.
    pub(crate) fn grant(&mut self, granted: Granted) {
        self.hold = None;
        self.stage = Stage::Ended(Ok(Some(granted)));
    }

    /// How it ended, if it has.
    pub(crate) const fn outcome(&self) -> Option<&AcquireOutcome> {
        match &self.stage {
            Stage::Ended(outcome) => Some(outcome),
            Stage::Open | Stage::TakingBack(_) => None,
        }
    }

    /// Takes out how it ended, if it has.
    pub(crate) fn take_outcome(&mut self) -> Option<AcquireOutcome> {
        if !self.has_ended() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::Ended(outcome) => Some(outcome),
            Stage::Open | Stage::TakingBack(_) => None,
        }
    }

    /// It has ended so. Its caller is told when these holds are taken back, and at `until` in any case.
    pub(crate) fn take_back(&mut self, outcome: AcquireOutcome, holds: Vec<HoldNumber>, until: Instant) {
        self.hold = None;
        self.stage = Stage::TakingBack(TakingBack { outcome, holds, until });
    }

    /// Does not wait any longer for what is being taken back.
    pub(crate) fn stop_taking_back(&mut self) -> Option<TakingBack> {
        if !self.is_taking_back() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::TakingBack(taking_back) => Some(taking_back),
            Stage::Open | Stage::Ended(_) => None,
        }
    }

    /// A hold that it waits for is gone from the server. Gives its outcome where that was the last one that it began.
    pub(crate) fn note_taken_back(&mut self, number: HoldNumber) -> Option<AcquireOutcome> {
        let Stage::TakingBack(taking_back) = &mut self.stage else { return None };
        taking_back.holds.retain(|awaited| *awaited != number);
        if !taking_back.holds.is_empty() {
            return None;
        }
        self.stop_taking_back().map(TakingBack::into_outcome)
    }

    /// It is about to ask; others of its client are giving up something of the same lock, or not.
    pub(crate) fn note_crossing(&mut self, crosses: bool) {
        self.given_up = if crosses { GivenUp::Crossed } else { GivenUp::Nothing };
    }

    /// Whether it matters to it what others give up: a busy answer may end it, and it has not asked once more for that reason yet.
    pub(crate) fn may_cross(&self) -> bool {
        self.wish.patience != Patience::Forever && !matches!(self.given_up, GivenUp::Over)
    }

    /// Whether something of the same lock was being given up when it asked last.
    pub(crate) const fn crossed(&self) -> bool {
        matches!(self.given_up, GivenUp::Crossed)
    }

    /// It asks once more when these holds are gone, and no more after `until`.
    pub(crate) fn await_given_up(&mut self, holds: Vec<HoldNumber>, until: Instant) {
        self.is_final_attempt = true;
        self.given_up = GivenUp::Awaited(holds, until);
    }

    /// A hold that another request gave up is gone. Says whether it was the last one that this request waited for.
    pub(crate) fn note_given_up_gone(&mut self, number: HoldNumber) -> bool {
        let ended = self.has_ended();
        let GivenUp::Awaited(holds, _) = &mut self.given_up else { return false };
        holds.retain(|awaited| *awaited != number);
        holds.is_empty() && !ended
    }

    /// It does not wait any longer for what others give up.
    pub(crate) fn stop_awaiting(&mut self) {
        self.given_up = GivenUp::Over;
    }

    /// When its timer is to be due. `end` is when its patience ends.
    pub(crate) fn timeout(&self, now: Instant, end: Instant) -> Instant {
        match (&self.stage, &self.given_up) {
            // It tries nothing again, whatever it was about to do before.
            (Stage::TakingBack(taking_back), _) => taking_back.until,
            (_, GivenUp::Awaited(_, until)) => *until,
            _ => {
                // A patience that has ended was acted upon: only the last attempt is still awaited.
                let end = if end <= now && self.is_final_attempt { Instant::FAR_FUTURE } else { end };
                self.retry_at.map_or(end, |retry| retry.min(end))
            }
        }
    }

    /// What it means that its timer is due.
    pub(crate) fn due(&self, now: Instant) -> Due {
        match (&self.stage, &self.given_up) {
            (Stage::Ended(_), _) => Due::Nothing,
            (Stage::TakingBack(taking_back), _) if taking_back.until <= now => Due::TakenBackTooLate,
            (Stage::Open, GivenUp::Awaited(_, until)) if *until <= now => Due::AwaitedTooLong,
            (Stage::TakingBack(_), _) | (Stage::Open, GivenUp::Awaited(..)) => Due::Later,
            (Stage::Open, _) => Due::Patience,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const SOON: Instant = Instant::from_nanos(2_000_000_000);
    const LATER: Instant = Instant::from_nanos(3_000_000_000);

    fn acquire(patience: Patience) -> Acquire {
        let name = LockName::new("", "stock").expect("a name");
        let wish = AcquireRequest { patience, ..AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)) };
        Acquire::new(NOW, crate::session::ids::Id::new(0), wish)
    }

    fn holds() -> [HoldNumber; 2] {
        let first = HoldNumber::ZERO.next();
        [first, first.next()]
    }

    #[test]
    fn first_outcome_is_the_one_that_is_told() {
        let mut acquire = acquire(Patience::Forever);
        assert!(acquire.end(Ok(None)) && !acquire.end(Err(AcquireError::Closed)));
        assert!(acquire.has_ended() && !acquire.is_open());
        assert!(matches!(acquire.take_outcome(), Some(Ok(None))) && acquire.take_outcome().is_none());
    }

    #[test]
    fn caller_is_told_when_the_last_hold_is_taken_back() {
        let mut acquire = acquire(Patience::Forever);
        let [one, other] = holds();
        acquire.take_back(Err(AcquireError::WaitElapsed), vec![one, other], SOON);
        assert!(acquire.rests() && !acquire.has_ended() && acquire.note_taken_back(one).is_none());
        assert!(acquire.note_taken_back(one).is_none(), "the other one is still there");
        assert!(matches!(acquire.note_taken_back(other), Some(Err(AcquireError::WaitElapsed))));
        assert!(acquire.stop_taking_back().is_none() && acquire.take_outcome().is_none());
    }

    #[test]
    fn request_asks_once_more_when_awaited_holds_are_gone() {
        let mut acquire = acquire(Patience::Try);
        let [one, other] = holds();
        acquire.note_crossing(true);
        assert!(acquire.crossed() && acquire.may_cross());
        acquire.await_given_up(vec![one, other], SOON);
        assert!(acquire.rests() && acquire.is_final_attempt());
        assert!(!acquire.note_given_up_gone(one) && acquire.note_given_up_gone(other));
        acquire.stop_awaiting();
        assert!(!acquire.rests() && !acquire.may_cross(), "it asks once more, and once only");
    }

    #[test]
    fn timer_means_what_the_request_waits_for() {
        type Prepare = fn(&mut Acquire);
        let rows: [(Prepare, Instant, Due, Due); 4] = [
            (|_| {}, LATER, Due::Patience, Due::Patience),
            (|acquire| acquire.retry_at(SOON), SOON, Due::Patience, Due::Patience),
            (|acquire| acquire.take_back(Ok(None), vec![], SOON), SOON, Due::Later, Due::TakenBackTooLate),
            (|acquire| acquire.await_given_up(vec![], SOON), SOON, Due::Later, Due::AwaitedTooLong),
        ];
        for (prepare, timeout, before, at) in rows {
            let mut acquire = acquire(Patience::Until(LATER));
            prepare(&mut acquire);
            assert_eq!(acquire.timeout(NOW, LATER), timeout, "{acquire:?}");
            assert_eq!((acquire.due(NOW), acquire.due(SOON)), (before, at), "{acquire:?}");
            acquire.end(Ok(None));
            assert_eq!(acquire.due(SOON), Due::Nothing);
        }
    }
}
