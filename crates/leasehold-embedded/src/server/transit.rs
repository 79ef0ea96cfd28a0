//! Messages in transit between clients and server.

use crate::server::connections::LinkId;
use crate::server::in_flight::{Route, Wire};
use leasehold_core::time::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// The one-way delay, and the messages in transit to or from a server `S`, in order of arrival.
pub(crate) struct Transit<S> {
    half: Duration,
    parcels: VecDeque<Parcel<S>>,
    /// The instant at which the clock will wake the server.
    alarm: Option<Instant>,
}

/// A request, a reply or a notice.
struct Parcel<S> {
    due: Instant,
    route: Route,
    deliver: Deliver<S>,
}

/// The arrival of a message.
pub(crate) type Deliver<S> = Box<dyn FnOnce(&mut S) + Send>;

impl<S> Transit<S> {
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.half = round_trip / 2;
    }

    /// Returns whether a message sent now arrives at once. No message overtakes an earlier message.
    pub(crate) fn is_instant(&self) -> bool {
        self.half.is_zero() && self.is_empty()
    }

    /// Returns whether no message is in transit.
    pub(crate) fn is_empty(&self) -> bool {
        self.parcels.is_empty()
    }

    /// Sends a message at `now`.
    pub(crate) fn send(&mut self, now: Instant, route: Route, deliver: impl FnOnce(&mut S) + Send + 'static) {
        let due = now + self.half;
        let due = self.parcels.back().map_or(due, |last| due.max(last.due));
        self.parcels.push_back(Parcel { due, route, deliver: Box::new(deliver) });
    }

    /// Returns the next message that has arrived by `now`.
    pub(crate) fn receive(&mut self, now: Instant) -> Option<Deliver<S>> {
        let has_arrived = self.parcels.front().is_some_and(|parcel| parcel.due <= now);
        if has_arrived { self.parcels.pop_front().map(|parcel| parcel.deliver) } else { None }
    }

    /// Drops the messages in transit of a lost connection, in both directions.
    pub(crate) fn lose(&mut self, link: LinkId, wire: Wire) {
        self.parcels.retain(|parcel| !parcel.route.is_by(link, wire));
    }

    /// Returns the instant at which the clock must wake the server, unless already requested.
    pub(crate) fn take_alarm(&mut self) -> Option<Instant> {
        let due = self.parcels.front()?.due;
        if self.alarm.is_some_and(|alarm| alarm <= due) {
            return None;
        }
        self.alarm = Some(due);
        Some(due)
    }

    /// Records that the clock has woken the server.
    pub(crate) const fn alarm_rang(&mut self) {
        self.alarm = None;
    }
}

impl<S> Default for Transit<S> {
    fn default() -> Self {
        Self { half: Duration::ZERO, parcels: VecDeque::new(), alarm: None }
    }
}
