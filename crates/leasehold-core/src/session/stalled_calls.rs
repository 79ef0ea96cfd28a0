//! The watch over calls that callers have sent: a future that is never polled again must not keep a lock.
//!
//! A call that takes long is asked about by a *probe*, which hinders no call. When the probe is answered, every call that was sent before it
//! has been answered too, and its future has some time left to be polled. After that the call is settled, and the lifeline goes on in its
//! place.

use super::{Action, CallId, FlightId, Session};
use crate::link::{Epoch, LinkError, Plane};
use crate::owner::HoldNumber;
use crate::settings::Settings;
use crate::time::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// The calls of callers that are watched.
#[derive(Debug, Default)]
pub(super) struct StalledCalls {
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

impl StalledCalls {
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let answered = self.answered.front().map(|answered| answered.due);
        [answered, self.look_at].into_iter().flatten().min()
    }
}

impl Session {
    /// Notes a call that a caller sends, so that a future that is never polled again does not keep the lock. The server may take
    /// `pause` before it answers: until then the call is neither late nor left alone.
    pub(super) fn watch_flight(&mut self, now: Instant, number: HoldNumber, flight: FlightId, pause: Duration) {
        if self.stalled.flights.len() >= self.stalled.compact_at {
            let mut flights = std::mem::take(&mut self.stalled.flights);
            flights.retain(|(_, number, flight)| self.is_flying(*number, *flight));
            self.stalled.compact_at = (2 * flights.len()).max(1024);
            self.stalled.flights = flights;
        }
        self.watch(now + pause, number, flight);
        self.stalled.last_flight = Some(now);
        self.stalled.look_at.get_or_insert(now + Settings::PROBE_AFTER);
    }

    /// Puts a call among those that are watched, in the order in which their replies become late.
    fn watch(&mut self, from: Instant, number: HoldNumber, flight: FlightId) {
        let flights = &mut self.stalled.flights;
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
        while self.stalled.answered.front().is_some_and(|answered| answered.due <= now)
            && let Some(Answered { number, flight, probed_at, .. }) = self.stalled.answered.pop_front()
        {
            match self.last_sent(number, flight) {
                Some(last_sent) if last_sent > probed_at => self.watch(last_sent, number, flight),
                Some(_) => self.take_over(now, number, flight),
                None => {}
            }
        }
        if self.stalled.look_at.is_none_or(|at| at > now) {
            return;
        }
        while let Some((sent_at, number, flight)) = self.stalled.flights.front().copied() {
            if let Some(last_sent) = self.last_sent(number, flight).filter(|last_sent| *last_sent > sent_at) {
                self.stalled.flights.pop_front();
                self.watch(last_sent, number, flight);
                continue;
            }
            let overdue = sent_at + self.settings.command_timeout <= now;
            if self.is_flying(number, flight) && !overdue {
                break;
            }
            self.stalled.flights.pop_front();
            self.give_up_flight(now, number, flight);
        }
        if self.stalled.probe.is_none()
            && let Some((sent_at, number, _)) = self.stalled.flights.front().copied()
            && sent_at + Settings::PROBE_AFTER <= now
        {
            self.send_probe(now, number);
        }
        let busy = self.stalled.last_flight.is_some_and(|last| now < last + Settings::LINGER);
        let watching = busy || !self.stalled.flights.is_empty();
        self.stalled.look_at = watching.then(|| now + Settings::PROBE_AFTER);
    }

    fn send_probe(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(&number) else { return };
        let Some(change) = &hold.change else { return };
        let (plane, epoch) = (change.plane, change.epoch);
        let key = self.locks[hold.lock].name.key().clone();
        let slot = self.slot_of(&key);
        let id = CallId(self.next_id());
        self.stalled.probe = Some(Probe { id, begun: now, plane, epoch, slot });
        self.out.act(Action::Probe { id, plane, epoch, key });
    }

    /// Takes the answer to [`Action::Probe`]. Every call that was sent before the probe, and not once more since, has been answered.
    pub fn handle_probed(&mut self, now: Instant, id: CallId, result: Result<(), LinkError>) {
        let Some(probe) = self.stalled.probe.take_if(|probe| probe.id == id) else { return };
        if result.is_err() {
            return;
        }
        // The foreground's answers come by the executor of the callers: where that is late for this one, it is late for their futures.
        let late = (now.since(probe.begun) * 2).min(Settings::LATE_AT_MOST);
        let flights = std::mem::take(&mut self.stalled.flights);
        for (sent_at, number, flight) in flights {
            let Some(last_sent) = self.last_sent(number, flight) else { continue };
            let covered = sent_at.max(last_sent) <= probe.begun && self.is_under(number, &probe);
            if covered {
                let unpolled = self.settings.unpolled_in(self.verbs_of(number).line());
                let patience = (unpolled + late) * (1 << self.times_overtaken(number).min(8));
                let answered = Answered { due: now + patience, number, flight, probed_at: probe.begun };
                let at = self.stalled.answered.partition_point(|other| other.due <= answered.due);
                self.stalled.answered.insert(at, answered);
            } else {
                self.stalled.flights.push_back((sent_at, number, flight));
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
