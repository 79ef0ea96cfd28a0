//! Settling: making sure that no copy of a call whose reply is missing can be applied any more; and the watch over calls
//! that callers have sent.

use super::{Action, CallId, Event, FlightId, Session, retry};
use crate::link::{Epoch, LinkError, Plane, Settled};
use crate::name;
use crate::owner::HoldNumber;
use crate::settings::Settings;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The settlements under way, and the calls of callers that are watched.
#[derive(Debug, Default)]
pub(super) struct Settles {
    /// By plane, epoch, and hash slot on a cluster: one settlement serves every hold under it.
    open: BTreeMap<(Plane, Epoch, u16), Open>,
    /// Calls that callers have sent, by the instant from which a reply counts as late, which is later for those that wait for
    /// replicas. Many are long answered.
    flights: VecDeque<(Instant, HoldNumber, FlightId)>,
    /// How many flights there may be before those that were answered are dropped.
    compact_at: usize,
    probe: Option<Probe>,
    /// Calls that are known to be answered, and since when; their futures should have been polled.
    answered: VecDeque<Answered>,
    /// When the flights are looked at next.
    look_at: Option<Instant>,
    last_flight: Option<Instant>,
    /// When a settlement was answered last.
    answered_at: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    key: Bytes,
    holds: Vec<HoldNumber>,
    /// Those that came when the settlement was already under way, which may not cover them.
    late: Vec<HoldNumber>,
    under_way: Option<CallId>,
    retry_at: Option<Instant>,
    tries: u32,
}

/// A call that is answered, and whose future should have been polled.
#[derive(Debug)]
struct Answered {
    /// Until then its future has time.
    due: Instant,
    number: HoldNumber,
    flight: FlightId,
    /// When the probe was begun that found it answered.
    probed_at: Instant,
}

/// Asks whether calls that are taking long have been answered. It hinders no call.
#[derive(Debug)]
struct Probe {
    id: CallId,
    begun: Instant,
    plane: Plane,
    /// The probe says nothing of calls that were begun in a later one.
    epoch: Epoch,
    slot: u16,
}

impl Settles {
    /// Whether anything was being settled at `since` or later. A link sends nothing again that was under way meanwhile.
    pub(super) fn at_work_since(&self, since: Instant) -> bool {
        self.answered_at.is_some_and(|at| at >= since) || self.open.values().any(|open| open.under_way.is_some())
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let retry = if self.open.is_empty() { None } else { self.open.values().filter_map(|open| open.retry_at).min() };
        let answered = self.answered.front().map(|answered| answered.due);
        [retry, answered, self.look_at].into_iter().flatten().min()
    }
}

impl Session {
    /// Takes the answer to [`Action::Settle`].
    pub fn handle_settled(&mut self, now: Instant, id: CallId, result: Result<Settled, LinkError>) {
        self.settles.answered_at = Some(now);
        let found = self.settles.open.iter().find(|(_, open)| open.under_way == Some(id)).map(|(place, _)| *place);
        let Some(place) = found else { return };
        match result {
            Ok(settled) => {
                let Some(open) = self.settles.open.remove(&place) else { return };
                for number in open.holds {
                    self.change_settled(now, number, settled == Settled::Proven);
                }
                for number in open.late {
                    self.settle(place.0, place.1, open.key.clone(), number);
                }
            }
            Err(error) => self.settle_failed(now, place, &error),
        }
    }

    /// Settles the call of a hold that was begun on `plane` in `epoch`.
    pub(super) fn settle(&mut self, plane: Plane, epoch: Epoch, key: Bytes, number: HoldNumber) {
        let slot = self.slot_of(&key);
        let place = (plane, epoch, slot);
        let open = self.settles.open.entry(place).or_insert_with(|| Open {
            key,
            holds: Vec::new(),
            late: Vec::new(),
            under_way: None,
            retry_at: None,
            tries: 0,
        });
        if open.under_way.is_some() {
            open.late.push(number);
            return;
        }
        open.holds.push(number);
        if open.retry_at.is_none() {
            self.send_settle(place);
        }
    }

    pub(super) fn retry_settles(&mut self, now: Instant) {
        let due: Vec<_> = self
            .settles
            .open
            .iter()
            .filter(|(_, open)| open.retry_at.is_some_and(|at| at <= now))
            .map(|(place, _)| *place)
            .collect();
        for place in due {
            self.send_settle(place);
        }
    }

    fn send_settle(&mut self, place: (Plane, Epoch, u16)) {
        let id = CallId(self.next_id());
        let Some(open) = self.settles.open.get_mut(&place) else { return };
        open.under_way = Some(id);
        open.retry_at = None;
        self.out.act(Action::Settle { id, plane: place.0, epoch: place.1, key: open.key.clone() });
    }

    /// The server could not be reached: the settlement is tried again, for as long as it takes.
    fn settle_failed(&mut self, now: Instant, place: (Plane, Epoch, u16), error: &LinkError) {
        let spread = self.rng.f64();
        let Some(open) = self.settles.open.get_mut(&place) else { return };
        open.under_way = None;
        let late = std::mem::take(&mut open.late);
        open.holds.extend(late);
        open.tries = open.tries.saturating_add(1);
        // Clean-up is in no hurry.
        let pause = retry::pause_before(open.tries + 1);
        open.retry_at = Some(now + pause.mul_f64(0.5 + spread / 2.0));
        let first = open.holds.first().and_then(|number| self.holds.get(number)).map(|hold| hold.lock);
        if let Some(lock) = first {
            let name = self.locks[lock].name.clone();
            self.out.tell(Event::CleanUpFailed { name, why: error.to_string(), lasting: error.is_lasting() });
        }
    }

    /// Notes a call that a caller sends, so that a future that is never polled again does not keep the lock. The server may take
    /// `pause` before it answers: until then the call is neither late nor left alone.
    pub(super) fn watch_flight(&mut self, now: Instant, number: HoldNumber, flight: FlightId, pause: Duration) {
        if self.settles.flights.len() >= self.settles.compact_at {
            let mut flights = std::mem::take(&mut self.settles.flights);
            flights.retain(|(_, number, flight)| self.is_flying(*number, *flight));
            self.settles.compact_at = (2 * flights.len()).max(1024);
            self.settles.flights = flights;
        }
        self.watch(now + pause, number, flight);
        self.settles.last_flight = Some(now);
        self.settles.look_at.get_or_insert(now + Settings::PROBE_AFTER);
    }

    /// Puts a call among those that are watched, in the order in which their replies become late.
    fn watch(&mut self, from: Instant, number: HoldNumber, flight: FlightId) {
        let flights = &mut self.settles.flights;
        let at = match flights.back() {
            Some((last, ..)) if *last > from => flights.partition_point(|(other, ..)| *other <= from),
            _ => flights.len(),
        };
        flights.insert(at, (from, number, flight));
    }

    /// When a call that may still be answered was sent last.
    fn last_sent(&self, number: HoldNumber, flight: FlightId) -> Option<Instant> {
        let change = self.holds.get(&number)?.change.as_ref()?;
        (change.flight == flight && !change.settling).then_some(change.last_sent)
    }

    /// Asks the server about calls that take long, and takes over those that were answered and not polled.
    pub(super) fn look_after_flights(&mut self, now: Instant) {
        while self.settles.answered.front().is_some_and(|answered| answered.due <= now)
            && let Some(Answered { number, flight, probed_at, .. }) = self.settles.answered.pop_front()
        {
            match self.last_sent(number, flight) {
                Some(last_sent) if last_sent > probed_at => self.watch(last_sent, number, flight),
                Some(_) => self.take_over(now, number, flight),
                None => {}
            }
        }
        if self.settles.look_at.is_none_or(|at| at > now) {
            return;
        }
        while let Some((sent_at, number, flight)) = self.settles.flights.front().copied() {
            if let Some(last_sent) = self.last_sent(number, flight).filter(|last_sent| *last_sent > sent_at) {
                self.settles.flights.pop_front();
                self.watch(last_sent, number, flight);
                continue;
            }
            let overdue = sent_at + self.settings.command_timeout <= now;
            if self.is_flying(number, flight) && !overdue {
                break;
            }
            self.settles.flights.pop_front();
            self.give_up_flight(now, number, flight);
        }
        if self.settles.probe.is_none()
            && let Some((sent_at, number, _)) = self.settles.flights.front().copied()
            && sent_at + Settings::PROBE_AFTER <= now
        {
            self.send_probe(now, number);
        }
        let busy = self.settles.last_flight.is_some_and(|last| now < last + Settings::LINGER);
        let watching = busy || !self.settles.flights.is_empty();
        self.settles.look_at = watching.then(|| now + Settings::PROBE_AFTER);
    }

    fn send_probe(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(&number) else { return };
        let Some(change) = &hold.change else { return };
        let (plane, epoch) = (change.plane, change.epoch);
        let key = self.locks[hold.lock].name.key().clone();
        let slot = self.slot_of(&key);
        let id = CallId(self.next_id());
        self.settles.probe = Some(Probe { id, begun: now, plane, epoch, slot });
        self.out.act(Action::Probe { id, plane, epoch, key });
    }

    /// Takes the answer to [`Action::Probe`]. Every call that was sent before the probe, and not once more since, has been answered.
    pub fn handle_probed(&mut self, now: Instant, id: CallId, result: Result<(), LinkError>) {
        let Some(probe) = self.settles.probe.take_if(|probe| probe.id == id) else { return };
        if result.is_err() {
            return;
        }
        // The foreground's answers come by the executor of the callers: where that is late for this one, it is late for their futures.
        let late = (now.since(probe.begun) * 2).min(Settings::LATE_AT_MOST);
        let flights = std::mem::take(&mut self.settles.flights);
        for (sent_at, number, flight) in flights {
            let Some(last_sent) = self.last_sent(number, flight) else { continue };
            let covered = sent_at.max(last_sent) <= probe.begun && self.is_under(number, &probe);
            if covered {
                let unpolled = self.settings.unpolled_in(self.verbs_of(number).line());
                let patience = (unpolled + late) * (1 << self.times_overtaken(number).min(8));
                let answered = Answered { due: now + patience, number, flight, probed_at: probe.begun };
                let at = self.settles.answered.partition_point(|other| other.due <= answered.due);
                self.settles.answered.insert(at, answered);
            } else {
                self.settles.flights.push_back((sent_at, number, flight));
            }
        }
    }

    fn is_under(&self, number: HoldNumber, probe: &Probe) -> bool {
        self.holds.get(&number).is_some_and(|hold| {
            hold.change.as_ref().is_some_and(|change| change.plane == probe.plane && change.epoch <= probe.epoch)
                && self.slot_of(self.locks[hold.lock].name.key()) == probe.slot
        })
    }

    /// How often the request behind a hold's change has been overtaken: each time it is left more time to be polled, so
    /// that a caller on a slow executor gets through in the end.
    fn times_overtaken(&self, number: HoldNumber) -> u32 {
        let by = self.holds.get(&number).and_then(|hold| hold.change.as_ref()).and_then(|change| change.by);
        by.and_then(|ticket| self.acquire_of(ticket)).map_or(0, |acquire| acquire.overtaken)
    }

    fn slot_of(&self, key: &Bytes) -> u16 {
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
    use std::task::Waker;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Sends the first acquire of a lock.
    fn asks(session: &mut Session, now: Instant, lock: &str) -> (Ticket, FlightId) {
        let name = LockName::new("", lock).expect("a name");
        let ticket = session.acquire(now, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)));
        let via = Via { plane: Plane::Foreground, epoch: Epoch(1) };
        let step = session.poll_acquire(now, ticket, via, Waker::noop());
        let Step::Send(flight, _) = step else { panic!("a free lock is asked for at once: {step:?}") };
        (ticket, flight)
    }

    /// The probes that are to be made now.
    fn probes(session: &mut Session) -> Vec<CallId> {
        let actions = std::iter::from_fn(|| session.poll_action());
        actions.filter_map(|action| if let Action::Probe { id, .. } = action { Some(id) } else { None }).collect()
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
    fn a_call_that_comes_while_another_is_settled_waits_for_a_settlement_of_its_own() {
        let mut session = session();
        let first = asks(&mut session, NOW, "a").0;
        session.abandon_acquire(NOW, first);
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0));
        let second = asks(&mut session, NOW, "b").0;
        session.abandon_acquire(NOW, second);
        assert_eq!(actions(&mut session), (vec![], vec![]), "one settlement at a time");
        session.handle_settled(NOW, settlements[0], Ok(Settled::Proven));
        let (settlements, released) = actions(&mut session);
        assert_eq!(released, [Bytes::from_static(b"a")], "the second one was sent after the settlement");
        assert_eq!(settlements.len(), 1);
        session.handle_settled(NOW, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session), (vec![], vec![Bytes::from_static(b"b")]));
    }

    #[test]
    fn who_comes_late_to_a_settlement_that_fails_is_settled_with_the_next() {
        let mut session = session();
        let first = asks(&mut session, NOW, "a").0;
        session.abandon_acquire(NOW, first);
        let settlements = actions(&mut session).0;
        let second = asks(&mut session, NOW, "b").0;
        session.abandon_acquire(NOW, second);
        session.handle_settled(NOW, settlements[0], Err(LinkError::NotSent("no connection".to_owned())));
        let later = NOW + Duration::from_secs(1);
        session.handle_timeout(later);
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0), "one for both");
        session.handle_settled(later, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session).1, [Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
    }

    #[test]
    fn a_call_that_is_sent_once_more_after_a_probe_has_its_time_from_then_on() {
        let mut session = session();
        let (ticket, flight) = asks(&mut session, NOW, "a");
        let later = NOW + Settings::PROBE_AFTER;
        session.handle_timeout(later);
        let probes = probes(&mut session);
        session.handle_probed(later, probes[0], Ok(()));
        assert!(session.may_resend(later + Duration::from_millis(1), ticket, flight), "the script was not known");
        session.handle_timeout(later + session.settings.unpolled_in(Kind::Lock.verbs().line()));
        assert!(session.is_current(ticket, flight, Waker::noop()), "the reply to its text may be under way");
    }

    #[test]
    fn a_probe_says_nothing_of_a_call_that_was_sent_after_it() {
        let mut session = session();
        let (first, first_flight) = asks(&mut session, NOW, "a");
        let later = NOW + Settings::PROBE_AFTER;
        session.handle_timeout(later);
        let probes = probes(&mut session);
        assert_eq!(probes.len(), 1, "the call takes long");
        let sent = later + Duration::from_millis(1);
        let (second, second_flight) = asks(&mut session, sent, "b");
        session.handle_probed(sent, probes[0], Ok(()));
        // The callers do not poll. The first is known to have been answered; of the second nothing is known.
        let unpolled = session.settings.unpolled_in(Kind::Lock.verbs().line());
        session.handle_timeout(sent + unpolled + sent.since(later) * 2);
        assert!(!session.is_current(first, first_flight, Waker::noop()), "the lifeline goes on in its place");
        assert!(session.is_current(second, second_flight, Waker::noop()), "its reply may be under way");
    }

    #[test]
    fn a_grant_is_left_to_an_executor_that_is_late_for_the_probe_too() {
        let ms = Duration::from_millis;
        // When the answer to the probe comes, and how long the future is given from there on.
        for (answered, given) in [(ms(0), ms(40)), (ms(60), ms(160)), (ms(700), ms(540))] {
            let mut session = session();
            let (ticket, flight) = asks(&mut session, NOW, "a");
            let begun = NOW + Settings::PROBE_AFTER;
            session.handle_timeout(begun);
            let probes = probes(&mut session);
            session.handle_probed(begun + answered, probes[0], Ok(()));
            session.handle_timeout(begun + answered + given - ms(1));
            assert!(session.is_current(ticket, flight, Waker::noop()), "answered after {answered:?}");
            session.handle_timeout(begun + answered + given);
            assert!(!session.is_current(ticket, flight, Waker::noop()), "answered after {answered:?}");
        }
    }
}
