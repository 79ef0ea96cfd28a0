//! The components of a session.
//!
//! A component owns a part of the state, and changes it by its own methods; it knows no other component. The [flows](super::flow) call
//! several of them.

use crate::owner::{ClientId, HoldNumber};
use crate::session::client_record::ClientRecord;
use crate::session::contended::Contended;
use crate::session::hold::holds::Holds;
use crate::session::listening::Listening;
use crate::session::lock::locks::Locks;
use crate::session::lowerings::ToLower;
use crate::session::out::Out;
use crate::session::outages::Outages;
use crate::session::owners::Owners;
use crate::session::pending::Pending;
use crate::session::renewals::Renewals;
use crate::session::request::Requests;
use crate::session::settlements::Settlements;
use crate::session::subscriptions::Subscriptions;
use crate::session::timers::Timers;
use crate::session::unanswered::Unanswered;
use crate::session::{ClientStats, Ticket};
use crate::settings::Settings;
use crate::time::Instant;
use std::time::Duration;

/// The components of a session.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) client: ClientId,
    pub(super) settings: Settings,
    pub(super) rng: fastrand::Rng,
    next_hold: HoldNumber,
    last_id: u64,
    /// The client is closed: it grants nothing.
    pub(super) closed: bool,
    /// The guards that outlived the shutdown are lost.
    pub(super) lost_all: bool,
    pub(super) locks: Locks,
    pub(super) subscriptions: Subscriptions,
    pub(super) holds: Holds,
    pub(super) requests: Requests,
    pub(super) owners: Owners,
    pub(super) timers: Timers,
    pub(super) renewals: Renewals,
    pub(super) settlements: Settlements,
    /// The purposes of the calls in flight.
    pub(super) pending: Pending,
    /// The deadlines of the calls in flight.
    pub(super) unanswered: Unanswered,
    /// Number of [`CallsReset`](crate::link::LinkEvent::CallsReset) events.
    pub(super) resets: u64,
    /// The servers that are out of reach.
    pub(super) outages: Outages,
    /// Holds whose lowering waits for room.
    pub(super) to_lower: ToLower,
    pub(super) server_clock: Option<(u64, Instant)>,
    pub(super) record: ClientRecord,
    /// How often a hold was handed on among the tasks of this client.
    pub(super) hand_overs: u64,
    /// How often a contender that asked ahead of its notice was granted the lock.
    pub(super) granted_ahead: u64,
    /// How often a request had a hold that lingered.
    pub(super) resumed: u64,
    /// The locks that other clients have wanted lately.
    pub(super) contended: Contended,
    /// The locks whose channel stays subscribed between holds that may linger.
    pub(super) listening: Listening,
    pub(super) out: Out,
}

impl Parts {
    /// See [`Session::stats`](crate::session::Session::stats).
    pub(super) fn stats(&self) -> ClientStats {
        let held = self.holds.iter().map(|(_, hold)| hold).filter(|hold| hold.wanted() > 0).count();
        ClientStats {
            held,
            cleaning_up: self.holds.len() - held,
            requests: self.requests.len(),
            subscriptions: self.subscriptions.len(),
            locks: self.locks.len(),
            owners: self.owners.len(),
            timers: self.timers.len(),
        }
    }

    /// The state of a client that has done nothing yet.
    pub(super) fn new(client: ClientId, settings: Settings, seed: u64) -> Self {
        let renewals = Renewals::new(settings.renewals_in_flight);
        Self {
            client,
            settings,
            rng: fastrand::Rng::with_seed(seed),
            next_hold: HoldNumber::FIRST,
            last_id: 0,
            closed: false,
            lost_all: false,
            locks: Locks::new(),
            subscriptions: Subscriptions::new(),
            holds: Holds::default(),
            requests: Requests::default(),
            owners: Owners::default(),
            timers: Timers::default(),
            renewals,
            settlements: Settlements::default(),
            pending: Pending::default(),
            unanswered: Unanswered::default(),
            resets: 0,
            outages: Outages::default(),
            to_lower: ToLower::default(),
            server_clock: None,
            record: ClientRecord::default(),
            hand_overs: 0,
            granted_ahead: 0,
            resumed: 0,
            contended: Contended::default(),
            listening: Listening::default(),
            out: Out::default(),
        }
    }

    /// A number that was never given out before.
    pub(super) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The number of a hold, or of an operation, that was never given out before.
    pub(super) const fn new_hold(&mut self) -> HoldNumber {
        let number = self.next_hold;
        self.next_hold = number.next();
        number
    }

    /// A duration between zero and `most`.
    pub(super) fn jitter(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    /// Has the future of a request polled.
    pub(super) fn wake(&mut self, ticket: Ticket) {
        if let Some(waker) = self.requests.get_mut(&ticket).and_then(|request| request.waker().take()) {
            self.out.wake(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::hold_cell::HoldCell;
    use crate::session::AcquireRequest;
    use crate::session::hold::Hold;
    use crate::session::lock::Lock;
    use crate::session::request::Request;

    /// A client may hold a hundred thousand locks, and as many of its tasks may wait: each of these has one of its own.
    #[test]
    fn what_there_is_much_of_is_small() {
        let sizes = [
            ("a hold", size_of::<Hold>(), 240),
            ("its cell", size_of::<HoldCell>(), 128),
            ("a lock", size_of::<Lock>(), 96),
            ("a request", size_of::<Request>(), 200),
            ("its wish", size_of::<AcquireRequest>(), 216),
        ];
        for (what, size, most) in sizes {
            assert!(size <= most, "{what} has {size} bytes, and may have {most}");
        }
    }
}
