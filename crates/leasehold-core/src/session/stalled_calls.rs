//! The watch over calls that callers have sent: a future that is never polled again must not keep a lock.
//!
//! A call that takes long is asked about by a *probe*, which hinders no call. When the probe is answered, every call that was sent before it
//! has been answered too, and its future has some time left to be polled. After that the call is settled, and the background goes on in its
//! place.

use crate::link::{Epoch, Plane};
use crate::owner::HoldNumber;
use crate::session::{CallId, FlightId};
use crate::settings::Settings;
use crate::time::Instant;
use std::collections::VecDeque;

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
pub(super) struct Answered {
    /// Until then its future has time.
    due: Instant,
    number: HoldNumber,
    flight: FlightId,
    /// When the probe was begun that found it answered.
    probed_at: Instant,
}

/// Asks whether calls that are taking long have been answered. It hinders no call.
#[derive(Debug)]
pub(super) struct Probe {
    id: CallId,
    begun: Instant,
    plane: Plane,
    /// The probe says nothing of calls that were begun in a later one.
    epoch: Epoch,
    slot: u16,
}

impl Answered {
    /// The call.
    pub(super) const fn call(&self) -> (HoldNumber, FlightId) {
        (self.number, self.flight)
    }

    /// Whether it was sent once more after the probe was begun, which then says nothing of it.
    pub(super) fn was_resent(&self, last_sent: Instant) -> bool {
        last_sent > self.probed_at
    }
}

impl StalledCalls {
    /// When the calls are to be looked at next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let answered = self.answered.front().map(|answered| answered.due);
        [answered, self.look_at].into_iter().flatten().min()
    }

    /// Notes a call that is sent now, and counts as late from `late_from` on. `flies` says of a call whether a reply to it may still come.
    pub(super) fn note_sent(
        &mut self,
        now: Instant,
        late_from: Instant,
        call: (HoldNumber, FlightId),
        flies: impl Fn(HoldNumber, FlightId) -> bool,
    ) {
        if self.flights.len() >= self.compact_at {
            self.flights.retain(|(_, number, flight)| flies(*number, *flight));
            self.compact_at = (2 * self.flights.len()).max(1024);
        }
        self.watch(late_from, call.0, call.1);
        self.last_flight = Some(now);
        self.look_at.get_or_insert(now + Settings::PROBE_AFTER);
    }

    /// Puts a call among those that are watched, in the order in which their replies become late.
    pub(super) fn watch(&mut self, from: Instant, number: HoldNumber, flight: FlightId) {
        let at = match self.flights.back() {
            Some((last, ..)) if *last > from => self.flights.partition_point(|(other, ..)| *other <= from),
            _ => self.flights.len(),
        };
        self.flights.insert(at, (from, number, flight));
    }

    /// The next call that was answered, and whose future has had its time by now.
    pub(super) fn pop_unpolled(&mut self, now: Instant) -> Option<Answered> {
        let is_due = self.answered.front().is_some_and(|answered| answered.due <= now);
        if is_due { self.answered.pop_front() } else { None }
    }

    /// Notes that a call was answered, as a probe found that was begun at `probed_at`; its future has time until `due`.
    pub(super) fn note_answered(&mut self, due: Instant, number: HoldNumber, flight: FlightId, probed_at: Instant) {
        let at = self.answered.partition_point(|other| other.due <= due);
        self.answered.insert(at, Answered { due, number, flight, probed_at });
    }

    /// Whether it is time to look at the calls that are watched.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.look_at.is_some_and(|at| at <= now)
    }

    /// The call that is late first.
    pub(super) fn first(&self) -> Option<(Instant, HoldNumber, FlightId)> {
        self.flights.front().copied()
    }

    /// Watches the call that is late first no longer.
    pub(super) fn drop_first(&mut self) {
        self.flights.pop_front();
    }

    /// Takes all calls that are watched, to be watched again one by one.
    pub(super) fn take_all(&mut self) -> VecDeque<(Instant, HoldNumber, FlightId)> {
        std::mem::take(&mut self.flights)
    }

    /// The hold whose call is to be asked about, if it is time to ask.
    pub(super) fn to_probe(&self, now: Instant) -> Option<HoldNumber> {
        let (sent_at, number, _) = self.first().filter(|_| self.probe.is_none())?;
        (sent_at + Settings::PROBE_AFTER <= now).then_some(number)
    }

    /// Notes a probe that is sent now.
    pub(super) fn begin_probe(&mut self, probe: Probe) {
        self.probe = Some(probe);
    }

    /// Takes the probe that was answered; `None` where the answer is to none that is under way.
    pub(super) fn end_probe(&mut self, id: CallId) -> Option<Probe> {
        self.probe.take_if(|probe| probe.id == id)
    }

    /// The calls have been looked at.
    pub(super) fn looked(&mut self, now: Instant) {
        let busy = self.last_flight.is_some_and(|last| now < last + Settings::LINGER);
        let watching = busy || !self.flights.is_empty();
        self.look_at = watching.then(|| now + Settings::PROBE_AFTER);
    }
}

impl Probe {
    /// A probe that is begun now.
    pub(super) const fn new(id: CallId, begun: Instant, plane: Plane, epoch: Epoch, slot: u16) -> Self {
        Self { id, begun, plane, epoch, slot }
    }

    /// When it was begun.
    pub(super) const fn begun(&self) -> Instant {
        self.begun
    }

    /// Whether its answer says something of a call of this slot that was begun on `plane` in `epoch`.
    pub(super) fn covers(&self, (plane, epoch): (Plane, Epoch), slot: u16) -> bool {
        plane == self.plane && epoch <= self.epoch && slot == self.slot
    }
}
