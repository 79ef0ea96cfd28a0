//! The end of an acquire: its outcome, what is taken back before its caller is told, and what it waits for before it asks once more.

use crate::owner::HoldNumber;
use crate::session::failures::Failures;
use crate::session::request::acquire::{Acquire, AcquireOutcome, LocalPlace};
use crate::session::{Granted, Patience};
use crate::time::Instant;
use std::time::Duration;

/// How long the future of an attempt that is not repeated has at most to read its grant.
const LAST: Duration = Duration::from_secs(1);

/// How far a request has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// It asks, or waits.
    Open,
    /// It has ended without the lock, and its caller is told once the server has nothing of it any more.
    TakingBack(Box<TakingBack>),
    /// It was granted a hold. Its future must read that before this instant.
    Granted(AcquireOutcome, Instant),
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
pub(super) enum GivenUp {
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

/// What a request's timer means when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Due {
    /// Nothing: the request has ended.
    Nothing,
    /// Its future has not read its grant.
    Unread,
    /// The timer is to be set again.
    Later,
    /// What it began is not taken back in time: its caller is told so now.
    TakenBackTooLate,
    /// The holds that others gave up are not gone in time: it asks no more.
    AwaitedTooLong,
    /// It may try again, or its patience has ended.
    Patience,
}

impl Acquire {
    /// Whether its caller is to be told how it ended.
    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_) | Stage::Granted(..))
    }

    /// Whether it has ended, and what it began is being taken back.
    pub(crate) const fn is_taking_back(&self) -> bool {
        matches!(self.stage, Stage::TakingBack(_))
    }

    /// Whether it asks, or waits.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether it asks for a hold of its own, or waits for one: it re-enters none.
    pub(crate) fn waits(&self) -> bool {
        self.is_open() && !matches!(self.place, LocalPlace::Entering(_))
    }

    /// Whether it stands in the line and has not ended.
    pub(crate) fn waits_in_line(&self) -> bool {
        self.place == LocalPlace::Line && !self.has_ended()
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

    /// It is granted a hold. If its future has not read that before `until`, the hold goes to another request.
    pub(crate) fn grant(&mut self, granted: Granted, until: Instant) {
        self.hold = None;
        self.stage = Stage::Granted(Ok(Some(granted)), until);
    }

    /// Until when its future must read a grant that comes now. `turn` is how long others wait for a future that is not polled. Each miss
    /// doubles that, eight times at most, so that a caller on a slow executor gets the lock in the end. An attempt that is not repeated has
    /// more time at once: its caller would be told that a free lock is busy.
    pub(crate) fn read_until(&self, now: Instant, turn: Duration) -> Instant {
        if self.is_final_attempt || self.wish.patience == Patience::Try {
            return now + turn.max(LAST);
        }
        now + turn * (1 << self.missed_grants.min(8))
    }

    /// The grant that its future has not read.
    pub(crate) const fn unread(&self) -> Option<&Granted> {
        match &self.stage {
            Stage::Granted(Ok(granted), _) => granted.as_ref(),
            _ => None,
        }
    }

    /// Its future must read that grant before `next`.
    pub(crate) const fn keep_unread(&mut self, next: Instant) {
        if let Stage::Granted(_, until) = &mut self.stage {
            *until = next;
        }
    }

    /// Takes that grant back. The request asks or waits as if it had met no failure.
    pub(crate) fn take_unread(&mut self) -> Option<Granted> {
        self.unread()?;
        self.missed_grants = self.missed_grants.saturating_add(1);
        self.is_final_attempt = false;
        self.failures = Failures::default();
        self.take_outcome().and_then(Result::ok).flatten()
    }

    /// How it ended, if it has.
    pub(crate) const fn outcome(&self) -> Option<&AcquireOutcome> {
        match &self.stage {
            Stage::Ended(outcome) | Stage::Granted(outcome, _) => Some(outcome),
            Stage::Open | Stage::TakingBack(_) => None,
        }
    }

    /// Takes out how it ended, if it has.
    pub(crate) fn take_outcome(&mut self) -> Option<AcquireOutcome> {
        if !self.has_ended() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::Ended(outcome) | Stage::Granted(outcome, _) => Some(outcome),
            Stage::Open | Stage::TakingBack(_) => None,
        }
    }

    /// It has ended so. Its caller is told when these holds are taken back, and at `until` in any case.
    pub(crate) fn take_back(&mut self, outcome: AcquireOutcome, holds: Vec<HoldNumber>, until: Instant) {
        self.hold = None;
        self.stage = Stage::TakingBack(Box::new(TakingBack { outcome, holds, until }));
    }

    /// Does not wait any longer for what is being taken back.
    pub(crate) fn stop_taking_back(&mut self) -> Option<TakingBack> {
        if !self.is_taking_back() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::TakingBack(taking_back) => Some(*taking_back),
            Stage::Open | Stage::Granted(..) | Stage::Ended(_) => None,
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
            (Stage::Granted(_, until), _) => *until,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::error::AcquireError;
    use crate::name::LockName;
    use crate::session::AcquireRequest;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const SOON: Instant = Instant::from_nanos(2_000_000_000);
    const LATER: Instant = Instant::from_nanos(3_000_000_000);

    fn acquire(patience: Patience) -> Acquire {
        let name = LockName::new("", "stock").expect("a name");
        let wish = AcquireRequest { patience, ..AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)) };
        Acquire::new(NOW, crate::session::ids::Id::new(0), Box::new(wish))
    }

    fn holds() -> [HoldNumber; 2] {
        let first = HoldNumber::FIRST;
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
