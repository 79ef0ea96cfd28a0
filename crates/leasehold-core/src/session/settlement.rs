//! Settling: making sure that no copy of a call whose reply is missing can be applied any more.
//!
//! One settlement serves every hold whose call was begun on the same plane, in the same epoch, in the same slot of a cluster. A hold that comes
//! while a settlement is under way waits for the next one, because its call may have been sent too late for the first.

use super::{Action, CallId, Event, Session, retry};
use crate::link::{Epoch, LinkError, Plane, Settled};
use crate::name;
use crate::owner::HoldNumber;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::BTreeMap;

/// By what calls are settled together: the plane, the epoch, and the hash slot, which is one for all outside of a cluster.
pub(super) type Place = (Plane, Epoch, u16);

/// The settlements that are under way, or to be tried again.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    open: BTreeMap<Place, Settlement>,
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
    Done { place: Place, key: Bytes, settled: Vec<HoldNumber>, late: Vec<HoldNumber> },
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
    fn add(&mut self, place: Place, key: Bytes, number: HoldNumber) -> bool {
        let new = || Settlement { key, holds: Vec::new(), late: Vec::new(), state: State::New, failures: 0 };
        let settlement = self.open.entry(place).or_insert_with(new);
        match settlement.state {
            State::UnderWay(_) => settlement.late.push(number),
            State::RetryAt(_) | State::New => settlement.holds.push(number),
        }
        settlement.state == State::New
    }

    /// The settlements that are to be tried again.
    fn due(&self, now: Instant) -> Vec<Place> {
        let is_due = |settlement: &Settlement| matches!(settlement.state, State::RetryAt(at) if at <= now);
        self.open.iter().filter(|(_, settlement)| is_due(settlement)).map(|(place, _)| *place).collect()
    }

    /// A settlement is asked for under this name. Gives a key of its slot.
    fn begin(&mut self, place: Place, id: CallId) -> Option<Bytes> {
        let settlement = self.open.get_mut(&place)?;
        settlement.state = State::UnderWay(id);
        Some(settlement.key.clone())
    }

    /// Takes an answer. `spread` is between 0 and 1.
    fn answered(&mut self, now: Instant, id: CallId, is_settled: bool, spread: impl FnOnce() -> f64) -> Answered {
        self.answered_at = Some(now);
        let found = self.open.iter().find(|(_, settlement)| settlement.state == State::UnderWay(id));
        let Some(place) = found.map(|(place, _)| *place) else { return Answered::Nothing };
        if is_settled {
            let Some(Settlement { key, holds, late, .. }) = self.open.remove(&place) else { return Answered::Nothing };
            return Answered::Done { place, key, settled: holds, late };
        }
        let Some(settlement) = self.open.get_mut(&place) else { return Answered::Nothing };
        settlement.holds.append(&mut settlement.late);
        settlement.failures = settlement.failures.saturating_add(1);
        // Clean-up is in no hurry.
        let pause = retry::pause_before(settlement.failures.saturating_add(1));
        settlement.state = State::RetryAt(now + pause.mul_f64(0.5 + spread() / 2.0));
        Answered::Failed(settlement.holds.first().copied())
    }
}

impl Session {
    /// Takes the answer to [`Action::Settle`].
    pub fn handle_settled(&mut self, now: Instant, id: CallId, result: Result<Settled, LinkError>) {
        let spread = || self.rng.f64();
        match self.settlements.answered(now, id, result.is_ok(), spread) {
            Answered::Nothing => {}
            Answered::Done { place, key, settled, late } => {
                for number in settled {
                    self.change_settled(now, number, result == Ok(Settled::Proven));
                }
                for number in late {
                    self.settle(place.0, place.1, key.clone(), number);
                }
            }
            Answered::Failed(first) => {
                let lock = first.and_then(|number| self.holds.get(&number)).map(|hold| hold.lock);
                if let (Some(lock), Err(error)) = (lock, result) {
                    let name = self.locks[lock].name.clone();
                    let lasting = error.is_lasting();
                    self.out.tell(Event::CleanUpFailed { name, why: error.to_string(), lasting });
                }
            }
        }
    }

    /// Settles the call of a hold that was begun on `plane` in `epoch`.
    pub(super) fn settle(&mut self, plane: Plane, epoch: Epoch, key: Bytes, number: HoldNumber) {
        let place = (plane, epoch, self.slot_of(&key));
        if self.settlements.add(place, key, number) {
            self.send_settle(place);
        }
    }

    /// Tries settlements again that have failed.
    pub(super) fn retry_settlements(&mut self, now: Instant) {
        for place in self.settlements.due(now) {
            self.send_settle(place);
        }
    }

    fn send_settle(&mut self, place: Place) {
        let id = CallId(self.next_id());
        if let Some(key) = self.settlements.begin(place, id) {
            self.out.act(Action::Settle { id, plane: place.0, epoch: place.1, key });
        }
    }

    /// The hash slot of a key on a cluster; elsewhere all have one number.
    pub(super) fn slot_of(&self, key: &Bytes) -> u16 {
        if self.settings.cluster { name::slot(key) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::session::{AcquireRequest, Step, Ticket, Via};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const PLACE: Place = (Plane::Foreground, Epoch(1), 0);

    fn numbers() -> [HoldNumber; 3] {
        let first = HoldNumber::ZERO.next();
        [first, first.next(), first.next().next()]
    }

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Sends the first acquire of a lock, and drops its future.
    fn drops_an_acquire(session: &mut Session, lock: &str) {
        let name = LockName::new("", lock).expect("a name");
        let ticket: Ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)));
        let via = Via { plane: Plane::Foreground, epoch: Epoch(1) };
        let step = session.poll_acquire(NOW, ticket, via, Waker::noop());
        assert!(matches!(step, Step::Send(..)), "a free lock is asked for at once: {step:?}");
        session.abandon_acquire(NOW, ticket);
    }

    /// The actions to be taken now: the settlements, and the locks that are released.
    fn actions(session: &mut Session) -> (Vec<CallId>, Vec<Bytes>) {
        let (mut settlements, mut released) = (Vec::new(), Vec::new());
        while let Some(action) = session.poll_action() {
            match action {
                Action::Settle { id, .. } => settlements.push(id),
                Action::Call { call, .. } => released.push(call.keys()[0].clone()),
                Action::Probe { .. } | Action::Subscribe { .. } | Action::Unsubscribe { .. } => {}
            }
        }
        (settlements, released)
    }

    #[test]
    fn a_late_hold_is_not_settled_with_the_others() {
        let [one, other, late] = numbers();
        let mut settlements = Settlements::default();
        assert!(settlements.add(PLACE, Bytes::new(), one), "the first hold asks");
        assert!(settlements.begin(PLACE, CallId(1)).is_some());
        assert!(!settlements.add(PLACE, Bytes::new(), late), "one settlement at a time");
        assert!(settlements.at_work_since(NOW + Duration::from_secs(1)));
        assert_eq!(settlements.answered(NOW, CallId(2), true, || 0.0), Answered::Nothing);
        let done = settlements.answered(NOW, CallId(1), true, || 0.0);
        let expected = Answered::Done { place: PLACE, key: Bytes::new(), settled: vec![one], late: vec![late] };
        assert_eq!(done, expected);
        assert!(settlements.at_work_since(NOW) && !settlements.at_work_since(NOW + Duration::from_nanos(1)));
        assert!(settlements.add(PLACE, Bytes::new(), other), "the next one asks anew");
    }

    #[test]
    fn a_failed_settlement_is_tried_again_for_all_ever_later() {
        let [one, late, other] = numbers();
        let mut settlements = Settlements::default();
        assert!(settlements.add(PLACE, Bytes::new(), one));
        let mut waits = Vec::new();
        for attempt in 1..=3 {
            assert!(settlements.begin(PLACE, CallId(attempt)).is_some());
            if attempt == 1 {
                assert!(!settlements.add(PLACE, Bytes::new(), late));
            }
            assert_eq!(settlements.answered(NOW, CallId(attempt), false, || 1.0), Answered::Failed(Some(one)));
            let at = settlements.next_timeout().expect("it is tried again");
            assert_eq!(settlements.due(at), [PLACE]);
            waits.push(at.since(NOW).as_millis());
        }
        assert_eq!(waits, [20, 40, 80]);
        assert!(!settlements.add(PLACE, Bytes::new(), other), "it waits for the next attempt");
        assert!(settlements.begin(PLACE, CallId(9)).is_some());
        let done = settlements.answered(NOW, CallId(9), true, || 0.0);
        assert!(matches!(done, Answered::Done { settled, .. } if settled == [one, late, other]));
    }

    #[test]
    fn a_call_that_comes_while_another_is_settled_waits_for_a_settlement_of_its_own() {
        let mut session = session();
        drops_an_acquire(&mut session, "a");
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0));
        drops_an_acquire(&mut session, "b");
        assert_eq!(actions(&mut session), (vec![], vec![]), "one settlement at a time");
        session.handle_settled(NOW, settlements[0], Ok(Settled::Proven));
        let (settlements, released) = actions(&mut session);
        assert_eq!(released, [Bytes::from_static(b"a")], "the second one was sent after the settlement");
        assert_eq!(settlements.len(), 1);
        session.handle_settled(NOW, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session), (vec![], vec![Bytes::from_static(b"b")]));
    }

    #[test]
    fn a_hold_that_comes_late_to_a_failed_settlement_is_settled_with_the_next() {
        let mut session = session();
        drops_an_acquire(&mut session, "a");
        let settlements = actions(&mut session).0;
        drops_an_acquire(&mut session, "b");
        session.handle_settled(NOW, settlements[0], Err(LinkError::NotSent("no connection".to_owned())));
        let later = NOW + Duration::from_secs(1);
        session.handle_timeout(later);
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0), "one for both");
        session.handle_settled(later, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session).1, [Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
    }
}
