//! The protocol state of one client: everything it waits for, holds, renews and cleans up.
//!
//! A [`Session`] does no I/O and reads no clock. Its methods fall into four families:
//!
//! - **requests** of callers: [`Session::acquire`], [`Session::release`], and their `poll_*` and `abandon_*`, which a
//!   future calls when it is polled and dropped;
//! - **`handle_*`** for what happened outside: replies, settlements, subscriptions, notices, resets, the passing of time;
//! - **`poll_*`** for what the driver must do next: [`Session::poll_action`], [`Session::poll_event`],
//!   [`Session::poll_timeout`], [`Session::take_woken`]. Drain them after every call of another family;
//! - **getters**.
//!
//! `now` never goes back from one call to the next.
//!
//! # Invariants
//!
//! 1. A hold exists in the session from the moment at which a command that could create it may leave the process until it
//!    is certain that the server has nothing of it. So whatever may be on the server is known here, and cleaned up from here.
//! 2. `count` of a hold is never lower than what the server has. `guards` is what the server should have. If `count` is greater, and no
//!    request is about to change that, the lifeline lowers it. Clean-up of every sort is this one rule.
//! 3. A hold has at most one change of its count on the way, and none is sent while an earlier one is unsettled.
//! 4. A deadline is reckoned from the instant before its call was sent; a hold whose deadline has passed is lost, whatever
//!    a later reply says. One that has not passed is put earlier only by the reply to a later command that disproves it, or
//!    where a hold that was granted without the server is restored.
//! 5. A lock has at most one waiter, the contender, that may send a first acquire, except for those who take a place in a
//!    queue on the server, and those who try without waiting while the server is out of reach.
//!
//! From 1 and 2 follows that nothing leaks: what a dropped future, a dropped guard or a lost reply leaves behind is a
//! hold whose count is too high.

mod api;
mod beside;
mod change;
mod clean_up;
mod contend;
mod count;
mod deadline;
mod enter;
mod fallback;
mod first;
mod give_up;
mod hold;
mod ids;
mod invariants;
mod lock;
mod lowering;
mod names;
mod notice;
mod out;
mod own_client;
mod patience;
mod pending;
mod places;
mod queue;
mod reach;
mod record;
mod release;
mod renew;
mod replicas;
mod request;
mod retry;
mod settlement;
mod shut_down;
mod stalled_calls;
mod subscriptions;
mod timers;
mod turn;
mod wait_queue;
mod wire;

pub use api::{Action, CallId, ClientStats, Event, FlightId};
pub use request::{AcquireRequest, Fallback, Granted, Patience, Step, Ticket, Via};

use crate::link::{Epoch, LinkError};
use crate::number_map::NumberMap;
use crate::owner::{ClientId, HoldNumber, OwnerId};
use crate::reply::Reply;
use crate::settings::Settings;
use crate::time::Instant;
use bytes::Bytes;
use hold::Hold;
use ids::{LockId, Table};
use lock::Lock;
use lowering::ToLower;
use names::Owned;
use out::Out;
use pending::{Pending, Purpose};
use reach::Outage;
use record::ClientRecord;
use renew::Renewals;
use request::Request;
use settlement::Settlements;
use stalled_calls::StalledCalls;
use std::collections::HashMap;
use std::task::Waker;
use std::time::Duration;
use subscriptions::Subscriptions;
use timers::Timers;

/// See the [module](self).
#[derive(Debug)]
pub struct Session {
    client: ClientId,
    settings: Settings,
    rng: fastrand::Rng,
    last_hold: HoldNumber,
    last_id: u64,
    closed: bool,
    locks: Table<LockId, Lock>,
    by_key: HashMap<Bytes, LockId>,
    subscriptions: Subscriptions,
    holds: NumberMap<HoldNumber, Hold>,
    requests: NumberMap<Ticket, Request>,
    owned: NumberMap<(LockId, OwnerId), Owned>,
    timers: Timers,
    renewals: Renewals,
    settlements: Settlements,
    stalled: StalledCalls,
    /// The calls that the lifeline has under way.
    pending: Pending,
    /// Since when no server has been in reach, as far as first acquires have seen.
    out_of_reach: Option<Instant>,
    /// The servers that are out of reach, as the link says.
    outages: Vec<Outage>,
    /// Holds whose lowering waits for room.
    to_lower: ToLower,
    server_clock: Option<(u64, Instant)>,
    record: ClientRecord,
    out: Out,
}

impl Session {
    /// The state of a client that has done nothing yet. The same seed makes the same choices.
    pub fn new(client: ClientId, settings: Settings, seed: u64) -> Self {
        Self {
            client,
            settings,
            rng: fastrand::Rng::with_seed(seed),
            last_hold: HoldNumber::ZERO,
            last_id: 0,
            closed: false,
            locks: Table::new(),
            by_key: HashMap::new(),
            subscriptions: Subscriptions::new(),
            holds: NumberMap::default(),
            requests: NumberMap::default(),
            owned: NumberMap::default(),
            timers: Timers::default(),
            renewals: Renewals::default(),
            settlements: Settlements::default(),
            stalled: StalledCalls::default(),
            pending: Pending::default(),
            out_of_reach: None,
            outages: Vec::new(),
            to_lower: ToLower::default(),
            server_clock: None,
            record: ClientRecord::default(),
            out: Out::default(),
        }
    }

    /// From here on the same choices are made as by a session that begins with this seed. An explorer of every state that a client can be
    /// in has one source of differences less.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = fastrand::Rng::with_seed(seed);
    }

    /// The client's identity.
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// The settings that the session obeys.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// An owner that was never given out before.
    pub fn new_owner(&mut self) -> OwnerId {
        OwnerId::new(self.next_id())
    }

    /// The id of an operation, such as the setting of a counter, that was never given out before. It is none of a hold's either.
    pub fn new_operation(&mut self) -> Bytes {
        self.last_hold = self.last_hold.next();
        self.client.field(self.last_hold)
    }

    /// A number that is greater than all before it.
    pub fn new_number(&mut self) -> u64 {
        self.next_id()
    }

    /// Whether nothing is granted any more.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// The open things.
    pub fn stats(&self) -> ClientStats {
        let held = self.holds.values().filter(|hold| hold.count.wanted() > 0).count();
        ClientStats {
            held,
            cleaning_up: self.holds.len() - held,
            requests: self.requests.len(),
            subscriptions: self.subscriptions.len(),
            locks: self.locks.len(),
            owners: self.owned.len(),
            timers: self.timers.len(),
        }
    }

    /// Takes the answer to [`Action::Call`].
    ///
    /// `epoch` is that of the lifeline plane, read before the call was sent.
    pub fn handle_called(&mut self, now: Instant, id: CallId, epoch: Epoch, result: Result<Reply, LinkError>) {
        let Some(purpose) = self.pending.take(id) else { return };
        if let Purpose::Restoration(number) | Purpose::Lowering(number) = purpose
            && let Some(change) = self.holds.get_mut(&number).and_then(|hold| hold.change.as_mut())
        {
            change.epoch = epoch;
        }
        match purpose {
            Purpose::Renewal(batch) => self.handle_renewed(now, batch, result),
            Purpose::Restoration(number) => self.handle_restored(now, number, result),
            Purpose::Lowering(number) => {
                self.note_lowered(now, number, result.is_ok());
                self.handle_lowered(now, number, result);
                self.lower_more(now);
            }
            Purpose::Beat(lock) => self.handle_beaten(now, lock, result),
            Purpose::Record => self.handle_recorded(now, &result),
        }
    }

    /// Lets time pass up to `now`: whatever is due by then happens.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(due) = self.timers.pop(now) {
            match due {
                timers::Timer::Lock(lock) => self.lock_is_due(now, lock),
                timers::Timer::Hold(number) => self.hold_is_due(now, number),
                timers::Timer::Channel(id) => self.subscriptions.is_due(id, &mut self.out),
                timers::Timer::Request(ticket) => self.patience_ends(now, ticket),
            }
        }
        self.look_after_flights(now);
        self.retry_settlements(now);
        self.record_is_due(now);
        self.send_renewals(now);
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.poll_action()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.poll_event()
    }

    /// Whether there are actions or events to be taken.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// The wakers of futures that have something to do. Wake them when the session is no longer locked.
    pub fn take_woken(&mut self) -> Vec<Waker> {
        self.assert_invariants();
        self.out.take_woken()
    }

    /// When [`Session::handle_timeout`] is next to be called; `None` where nothing waits for time to pass.
    ///
    /// A renewal that is due has no instant of its own: it goes out as soon as there is room.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.timers.next(), self.settlements.next_timeout(), self.stalled.next_timeout(), self.record.next()]
            .into_iter()
            .flatten()
            .min()
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A duration between zero and `most`.
    fn jitter(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    fn wake(&mut self, ticket: Ticket) {
        if let Some(waker) = self.requests.get_mut(&ticket).and_then(|request| request.waker().take()) {
            self.out.wake(waker);
        }
    }
}
