//! Messages on their way between clients and server, if that takes time.

use crate::channels::LinkId;
use crate::in_flight::{Route, Wire};
use crate::server::EmbeddedServer;
use crate::state::State;
use leasehold_core::time::Instant;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Half a round trip, and what is on its way, in the order in which it arrives.
#[derive(Default)]
pub(crate) struct Transit {
    half: Duration,
    parcels: VecDeque<Parcel>,
    /// The instant for which the clock has been asked to wake the server.
    alarm: Option<Instant>,
}

/// A request, a reply or a notice.
struct Parcel {
    due: Instant,
    route: Route,
    deliver: Box<dyn FnOnce(&mut State) + Send>,
}

impl Transit {
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.half = round_trip / 2;
    }

    /// Whether what is sent now arrives at once. Nothing overtakes what was sent before it.
    pub(crate) fn is_instant(&self) -> bool {
        self.half.is_zero() && self.parcels.is_empty()
    }

    /// A connection is lost, and with it what is on its way there and back.
    pub(crate) fn lose(&mut self, link: LinkId, wire: Wire) {
        self.parcels.retain(|parcel| !parcel.route.is_by(link, wire));
    }
}

impl State {
    /// Lets `deliver` happen at the other end of a connection.
    pub(crate) fn carry(&mut self, route: Route, deliver: impl FnOnce(&mut Self) + Send + 'static) {
        if self.transit.is_instant() {
            return deliver(self);
        }
        let due = self.clock.now() + self.transit.half;
        let due = self.transit.parcels.back().map_or(due, |last| due.max(last.due));
        self.transit.parcels.push_back(Parcel { due, route, deliver: Box::new(deliver) });
    }

    /// Delivers what has arrived by now.
    pub(crate) fn deliver_due(&mut self) {
        if self.transit.parcels.is_empty() {
            return;
        }
        let now = self.clock.now();
        while self.transit.parcels.front().is_some_and(|parcel| parcel.due <= now) {
            if let Some(parcel) = self.transit.parcels.pop_front() {
                (parcel.deliver)(self);
            }
        }
    }

    /// The instant for which the clock is to be asked to wake the server, unless it has been.
    pub(crate) fn take_alarm(&mut self) -> Option<Instant> {
        let due = self.transit.parcels.front()?.due;
        if self.transit.alarm.is_some_and(|alarm| alarm <= due) {
            return None;
        }
        self.transit.alarm = Some(due);
        Some(due)
    }
}

/// Delivers what is due when the clock wakes it. It does not keep the server.
pub(crate) struct Courier(Weak<Mutex<State>>);

impl Courier {
    pub(crate) fn waker(server: &Arc<Mutex<State>>) -> Waker {
        Waker::from(Arc::new(Self(Arc::downgrade(server))))
    }
}

impl Wake for Courier {
    fn wake(self: Arc<Self>) {
        let Some(server) = self.0.upgrade().map(EmbeddedServer::of_state) else { return };
        let woken = server.locked(|state| state.transit.alarm = None).1;
        for waker in woken {
            // A waker that panics keeps no other task from being woken, nor the clock from going on.
            let _panic = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}
