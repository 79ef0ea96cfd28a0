//! Settling: making sure that no copy of a call whose reply is missing can be applied any more.
//!
//! One settlement serves all holds of a hash slot whose calls wait for replicas, or all whose calls do not. Without a cluster there is one
//! slot. A hold that comes while a settlement is under way waits for the next one, because its call may have been sent too late for the first.

use crate::owner::HoldNumber;
use crate::session::{CallId, retry};
use crate::time::Instant;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The calls that are settled together: the hash slot, which is 0 without a cluster, and whether they wait for replicas.
pub(super) type Scope = (u16, bool);

/// The settlements that are under way, or to be tried again.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    open: BTreeMap<Scope, Settlement>,
    /// When a settlement was answered last.
    answered_at: Option<Instant>,
}

#[derive(Debug)]
struct Settlement {
    key: Bytes,
    holds: Vec<HoldNumber>,
    /// Those that came when the settlement was already under way, which may not cover them.
    late: Vec<HoldNumber>,
    state: State,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has been asked for under this name.
    UnderWay(CallId),
    /// It failed, and is asked for again at this instant.
    RetryAt(Instant),
    /// It is about to be asked for.
    New,
}

/// What the answer to a settlement means.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "holds wait for it"]
pub(super) enum Answered {
    /// It was not under way.
    Nothing,
    /// The calls of `settled` are settled; those of `late` want a settlement of their own.
    Done { scope: Scope, key: Bytes, settled: Vec<HoldNumber>, late: Vec<HoldNumber> },
    /// It is tried again for all of its holds, of which this is one.
    Failed(Option<HoldNumber>),
}

impl Settlements {
    /// Whether anything was being settled at `since` or later. A link sends nothing again that was under way meanwhile.
    pub(super) fn at_work_since(&self, since: Instant) -> bool {
        let is_under_way = |settlement: &Settlement| matches!(settlement.state, State::UnderWay(_));
        self.answered_at.is_some_and(|at| at >= since) || self.open.values().any(is_under_way)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let retries = self.open.values().filter_map(|settlement| match settlement.state {
            State::RetryAt(at) => Some(at),
            State::UnderWay(_) | State::New => None,
        });
        retries.min()
    }

    /// Adds a hold whose call is to be settled. Says whether a settlement is to be asked for now.
    #[must_use]
    pub(super) fn add(&mut self, scope: Scope, key: Bytes, number: HoldNumber) -> bool {
        let new = || Settlement { key, holds: Vec::new(), late: Vec::new(), state: State::New, failures: 0 };
        let settlement = self.open.entry(scope).or_insert_with(new);
        match settlement.state {
            State::UnderWay(_) => settlement.late.push(number),
            State::RetryAt(_) | State::New => settlement.holds.push(number),
        }
        settlement.state == State::New
    }

    /// The settlements that are to be tried again.
    pub(super) fn due(&self, now: Instant) -> Vec<Scope> {
        let is_due = |settlement: &Settlement| matches!(settlement.state, State::RetryAt(at) if at <= now);
        self.open.iter().filter(|(_, settlement)| is_due(settlement)).map(|(scope, _)| *scope).collect()
    }

    /// A settlement is asked for under this name. Gives a key of its slot.
    pub(super) fn begin(&mut self, scope: Scope, id: CallId) -> Option<Bytes> {
        let settlement = self.open.get_mut(&scope)?;
        settlement.state = State::UnderWay(id);
        Some(settlement.key.clone())
    }

    /// Takes an answer. `spread` is between 0 and 1.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        id: CallId,
        is_settled: bool,
        spread: impl FnOnce() -> f64,
    ) -> Answered {
        self.answered_at = Some(now);
        let found = self.open.iter().find(|(_, settlement)| settlement.state == State::UnderWay(id));
        let Some(scope) = found.map(|(scope, _)| *scope) else { return Answered::Nothing };
        if is_settled {
            let Some(Settlement { key, holds, late, .. }) = self.open.remove(&scope) else { return Answered::Nothing };
            return Answered::Done { scope, key, settled: holds, late };
        }
        let Some(settlement) = self.open.get_mut(&scope) else { return Answered::Nothing };
        settlement.holds.append(&mut settlement.late);
        settlement.failures = settlement.failures.saturating_add(1);
        // Clean-up is in no hurry.
        let pause = retry::pause_before(settlement.failures.saturating_add(1));
        settlement.state = State::RetryAt(now + pause.mul_f64(0.5 + spread() / 2.0));
        Answered::Failed(settlement.holds.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const SCOPE: Scope = (0, false);

    fn numbers() -> [HoldNumber; 3] {
        let first = HoldNumber::FIRST;
        [first, first.next(), first.next().next()]
    }

    #[test]
    fn a_late_hold_is_not_settled_with_the_others() {
        let [one, other, late] = numbers();
        let mut settlements = Settlements::default();
        assert!(settlements.add(SCOPE, Bytes::new(), one), "the first hold asks");
        assert!(settlements.begin(SCOPE, CallId(1)).is_some());
        assert!(!settlements.add(SCOPE, Bytes::new(), late), "one settlement at a time");
        assert!(settlements.at_work_since(NOW + Duration::from_secs(1)));
        assert_eq!(settlements.answered(NOW, CallId(2), true, || 0.0), Answered::Nothing);
        let done = settlements.answered(NOW, CallId(1), true, || 0.0);
        let expected = Answered::Done { scope: SCOPE, key: Bytes::new(), settled: vec![one], late: vec![late] };
        assert_eq!(done, expected);
        assert!(settlements.at_work_since(NOW) && !settlements.at_work_since(NOW + Duration::from_nanos(1)));
        assert!(settlements.add(SCOPE, Bytes::new(), other), "the next one asks anew");
    }

    #[test]
    fn a_failed_settlement_is_tried_again_for_all_ever_later() {
        let [one, late, other] = numbers();
        let mut settlements = Settlements::default();
        assert!(settlements.add(SCOPE, Bytes::new(), one));
        let mut waits = Vec::new();
        for attempt in 1..=3 {
            assert!(settlements.begin(SCOPE, CallId(attempt)).is_some());
            if attempt == 1 {
                assert!(!settlements.add(SCOPE, Bytes::new(), late));
            }
            assert_eq!(settlements.answered(NOW, CallId(attempt), false, || 1.0), Answered::Failed(Some(one)));
            let at = settlements.next_timeout().expect("it is tried again");
            assert_eq!(settlements.due(at), [SCOPE]);
            waits.push(at.since(NOW).as_millis());
        }
        assert_eq!(waits, [20, 40, 80]);
        assert!(!settlements.add(SCOPE, Bytes::new(), other), "it waits for the next attempt");
        assert!(settlements.begin(SCOPE, CallId(9)).is_some());
        let done = settlements.answered(NOW, CallId(9), true, || 0.0);
        assert!(matches!(done, Answered::Done { settled, .. } if settled == [one, late, other]));
    }
}
