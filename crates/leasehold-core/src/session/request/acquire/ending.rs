//! The end of an acquire: its outcome, its unread grant, and the withdrawals that it waits for.

use crate::owner::HoldNumber;
use crate::session::failures::Failures;
use crate::session::request::acquire::{Acquire, AcquireOutcome, LocalPlace};
use crate::session::{Granted, Patience};
use crate::time::Instant;
use std::time::Duration;

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
pub(crate) struct TakingBack {
    outcome: AcquireOutcome,
    holds: Vec<HoldNumber>,
    until: Instant,
}

impl TakingBack {
    /// The outcome after the withdrawal.
    pub(crate) fn into_outcome(self) -> AcquireOutcome {
        self.outcome
    }

    /// The holds in withdrawal.
    pub(crate) fn holds(&self) -> &[HoldNumber] {
        &self.holds
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
pub(crate) enum Due {
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
    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_) | Stage::Granted(..))
    }

    /// Whether it ended and waits for its withdrawal.
    pub(crate) const fn is_taking_back(&self) -> bool {
        matches!(self.stage, Stage::TakingBack(_))
    }

    /// Whether it sends acquires, or waits.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether it is open and re-enters no hold.
    pub(crate) fn waits(&self) -> bool {
        self.is_open() && !matches!(self.place, LocalPlace::Entering(_))
    }

    /// Whether it stands in the line and has not ended.
    pub(crate) fn waits_in_line(&self) -> bool {
        self.place == LocalPlace::Line && !self.has_ended()
    }

    /// Whether it sends nothing, because it waits for a withdrawal.
    pub(crate) const fn rests(&self) -> bool {
        self.is_taking_back() || matches!(self.given_up, GivenUp::Awaited(..))
    }

    /// Ends the request. Only the first outcome counts. Returns whether this is the first.
    pub(crate) fn end(&mut self, outcome: AcquireOutcome) -> bool {
        let is_first = !self.has_ended();
        if is_first {
            self.stage = Stage::Ended(outcome);
        }
        is_first
    }

    /// Stores a grant. Unless the future reads it before `until`, the hold goes to another request.
    pub(crate) fn grant(&mut self, granted: Granted, until: Instant) {
        self.hold = None;
        self.stage = Stage::Granted(Ok(Some(granted)), until);
    }

    /// The instant before which the future must read a grant of now: usually `turn` from now. Each miss doubles the time, up to eight times, so
    /// that a caller on a slow executor gets the lock eventually. An attempt that is not repeated has more time: it would report a free lock
    /// as busy.
    pub(crate) fn read_until(&self, now: Instant, turn: Duration) -> Instant {
        if self.is_final_attempt || self.wish.patience == Patience::Try {
            return now + turn.max(LAST);
        }
        now + turn * (1 << self.missed_grants.min(8))
    }

    /// The unread grant.
    pub(crate) const fn unread(&self) -> Option<&Granted> {
        match &self.stage {
            Stage::Granted(Ok(granted), _) => granted.as_ref(),
            _ => None,
        }
    }

    /// Postpones the unread grant's deadline to `next`.
    pub(crate) const fn keep_unread(&mut self, next: Instant) {
        if let Stage::Granted(_, until) = &mut self.stage {
            *until = next;
        }
    }

    /// Removes the unread grant. The request continues as if no call had failed.
    pub(crate) fn take_unread(&mut self) -> Option<Granted> {
        self.unread()?;
        self.missed_grants = self.missed_grants.saturating_add(1);
        self.is_final_attempt = false;
        self.failures = Failures::default();
        self.take_outcome().and_then(Result::ok).flatten()
    }

    /// The outcome, if the request has ended.
    pub(crate) const fn outcome(&self) -> Option<&AcquireOutcome> {
        match &self.stage {
            Stage::Ended(outcome) | Stage::Granted(outcome, _) => Some(outcome),
            Stage::Open | Stage::TakingBack(_) => None,
        }
    }

    /// Removes and returns the outcome.
    pub(crate) fn take_outcome(&mut self) -> Option<AcquireOutcome> {
        if !self.has_ended() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::Ended(outcome) | Stage::Granted(outcome, _) => Some(outcome),
            Stage::Open | Stage::TakingBack(_) => None,
        }
    }

    /// Ends the request, but delays the outcome until these holds are withdrawn, or until `until`.
    pub(crate) fn take_back(&mut self, outcome: AcquireOutcome, holds: Vec<HoldNumber>, until: Instant) {
        self.hold = None;
        self.stage = Stage::TakingBack(Box::new(TakingBack { outcome, holds, until }));
    }

    /// Stops waiting for the withdrawal.
    pub(crate) fn stop_taking_back(&mut self) -> Option<TakingBack> {
        if !self.is_taking_back() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::TakingBack(taking_back) => Some(*taking_back),
            Stage::Open | Stage::Granted(..) | Stage::Ended(_) => None,
        }
    }

    /// Records the withdrawal of a hold. Returns the outcome after the last hold.
    pub(crate) fn note_taken_back(&mut self, number: HoldNumber) -> Option<AcquireOutcome> {
        let Stage::TakingBack(taking_back) = &mut self.stage else { return None };
        taking_back.holds.retain(|awaited| *awaited != number);
        if !taking_back.holds.is_empty() {
            return None;
        }
        self.stop_taking_back().map(TakingBack::into_outcome)
    }

    /// Records, before an acquire, whether withdrawals of other requests are pending.
    pub(crate) fn note_crossing(&mut self, crosses: bool) {
        self.given_up = if crosses { GivenUp::Crossed } else { GivenUp::Nothing };
    }

    /// Whether withdrawals of other requests matter: a busy reply may end this request, and its retry is unused.
    pub(crate) fn may_cross(&self) -> bool {
        self.wish.patience != Patience::Forever && !matches!(self.given_up, GivenUp::Over)
    }

    /// Whether a withdrawal was pending at the last acquire.
    pub(crate) const fn crossed(&self) -> bool {
        matches!(self.given_up, GivenUp::Crossed)
    }

    /// Waits for these holds to be gone before a last attempt, until `until`.
    pub(crate) fn await_given_up(&mut self, holds: Vec<HoldNumber>, until: Instant) {
        self.is_final_attempt = true;
        self.given_up = GivenUp::Awaited(holds, until);
    }

    /// Records that another request's hold is gone. Returns whether it was the last awaited hold.
    pub(crate) fn note_given_up_gone(&mut self, number: HoldNumber) -> bool {
        let ended = self.has_ended();
        let GivenUp::Awaited(holds, _) = &mut self.given_up else { return false };
        holds.retain(|awaited| *awaited != number);
        holds.is_empty() && !ended
    }

    /// Stops waiting for the withdrawals of other requests.
    pub(crate) fn stop_awaiting(&mut self) {
        self.given_up = GivenUp::Over;
    }

    /// The next due time of the timer. `end` is the end of the patience.
    pub(crate) fn timeout(&self, now: Instant, end: Instant) -> Instant {
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
