//! Messages on their way between clients and server, if that takes time.

use crate::server::connections::LinkId;
use crate::server::in_flight::{Route, Wire};
use leasehold_core::time::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// Half a round trip, and what is on its way to or from a server `S`, in the order in which it arrives.
pub(crate) struct Transit<S> {
    half: Duration,
    parcels: VecDeque<Parcel<S>>,
    /// The instant for which the clock has been asked to wake the server.
    alarm: Option<Instant>,
}

/// A request, a reply or a notice.
struct Parcel<S> {
    due: Instant,
    route: Route,
    deliver: Deliver<S>,
}

/// The arrival of a parcel.
pub(crate) type Deliver<S> = Box<dyn FnOnce(&mut S) + Send>;

impl<S> Transit<S> {
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.half = round_trip / 2;
    }

    /// Whether what is sent now arrives at once. Nothing overtakes what was sent before it.
    pub(crate) fn is_instant(&self) -> bool {
        self.half.is_zero() && self.is_empty()
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.parcels.is_empty()
    }

    /// Sends something at `now`.
    pub(crate) fn send(&mut self, now: Instant, route: Route, deliver: impl FnOnce(&mut S) + Send + 'static) {
        let due = now + self.half;
        let due = self.parcels.back().map_or(due, |last| due.max(last.due));
        self.parcels.push_back(Parcel { due, route, deliver: Box::new(deliver) });
    }

    /// The next parcel that has arrived by `now`.
    pub(crate) fn receive(&mut self, now: Instant) -> Option<Deliver<S>> {
        let has_arrived = self.parcels.front().is_some_and(|parcel| parcel.due <= now);
        if has_arrived { self.parcels.pop_front().map(|parcel| parcel.deliver) } else { None }
    }

    /// A connection is lost, and with it what is on its way there and back.
    pub(crate) fn lose(&mut self, link: LinkId, wire: Wire) {
        self.parcels.retain(|parcel| !parcel.route.is_by(link, wire));
    }

    /// The instant for which the clock is to be asked to wake the server, unless it has been.
    pub(crate) fn take_alarm(&mut self) -> Option<Instant> {
        let due = self.parcels.front()?.due;
        if self.alarm.is_some_and(|alarm| alarm <= due) {
            return None;
        }
        self.alarm = Some(due);
        Some(due)
    }

    /// The clock has woken the server.
    pub(crate) const fn alarm_rang(&mut self) {
        self.alarm = None;
    }
}

impl<S> Default for Transit<S> {
    fn default() -> Self {
        Self { half: Duration::ZERO, parcels: VecDeque::new(), alarm: None }
    }
}
