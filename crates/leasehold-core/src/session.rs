//! The protocol state of one client: everything it waits for, holds, renews and cleans up.
//!
//! A [`Session`] does no I/O and reads no clock. Its methods fall into four families:
//!
//! - **requests** of callers: [`Session::acquire`], [`Session::release`], and their `poll_*` and `abandon_*`, which a
//!   future calls when it is polled and dropped;
//! - **`handle_*`** for input: replies, settlements, subscriptions, notices, resets, the passing of time;
//! - **`poll_*`** for output: [`Session::poll_call`], [`Session::poll_action`], [`Session::poll_event`],
//!   [`Session::poll_timeout`], [`Session::take_woken`]. Drain them after every call of another family;
//! - **getters**.
//!
//! `now` never goes back from one call to the next.
//!
//! Each file of `session/` is one story, and adds its methods to [`Session`]: an acquire begins in `acquire.rs` and ends in `grant.rs`, the
//! waiters of a lock queue in `line.rs`, `release.rs` gives back, `transfer.rs` hands on, `renew.rs` renews and finds losses, and `offline.rs`
//! goes on without the server. `calls.rs` has the calls in flight. `request.rs`, `lock.rs` and `hold.rs` have the records.
//!
//! # Invariants
//!
//! 1. A hold exists in the session from the moment at which a command that could create it may leave the process until it
//!    is certain that the server has nothing of it. So whatever may be on the server is known here, and cleaned up from here. A hold that is
//!    handed on within the client is never absent in between.
//! 2. `on_server` of a hold's count is never lower than what the server has. `wanted` is what the server should have: the hold's guards, and
//!    those that were detached. If `on_server` is greater, and no request is about to change that, the background lowers it. Clean-up of every
//!    sort is this one rule.
//! 3. A hold has at most one change of its count on the way, and none is sent while an earlier one is unsettled.
//! 4. A deadline is reckoned from the instant before its call was sent; a hold whose deadline has passed is lost, whatever
//!    a later reply says. One that has not passed is put earlier only by the reply to a later command that disproves it, or
//!    where a hold that was granted without the server is restored.
//! 5. A lock has at most one waiter, the contender, that may send a first acquire. Four others may: a waiter that takes a place in a queue on the
//!    server; a waiter of a shared lock that a grant has invited, or whose wait ends; a try of a shared lock; and a try if no request has
//!    asked yet, or the server is out of reach. A contender to which a hold is handed on has nothing on its way, and sends nothing.
//! 6. A hold number stands for one holder, and is never used again. A hold that is handed on keeps its name on the server and takes a new
//!    number, so that whatever knows the old one finds nothing: a late re-entry, release or reply does not touch the new holder.
//! 7. A hold that lingers has no guard, nothing of it is on the way, and it is watched. Its lock listens for others that want it. The first
//!    request that would ask the server has the hold, or ends its lingering.
//!
//! From 1 and 2 follows that nothing leaks: what a dropped future, a dropped guard or a lost reply leaves behind is a
//! hold whose count is too high.

mod acquire;
mod api;
mod calls;
mod client;
mod fair;
mod grant;
mod hold;
mod line;
mod lock;
mod offline;
mod release;
mod renew;
mod request;
#[cfg(test)]
mod steps;
mod subscriptions;
#[cfg(test)]
mod tests;
mod transfer;

pub use crate::call::CallId;
pub use api::{
    AcquireRequest, Action, ClientStats, Event, Fallback, Granted, LingerTime, OuterOwners, Outgoing, Patience, Ticket,
};

use crate::name::LockName;
use crate::number_map::NumberMap;
use crate::owner::{ClientId, HoldNumber, OwnerId};
use crate::session::calls::{Out, Pending, Settlements, Unanswered};
use crate::session::client::ClientRecord;
use crate::session::hold::Holds;
use crate::session::lock::{ChannelId, LockId, Locks};
use crate::session::offline::Outages;
use crate::session::release::ToLower;
use crate::session::renew::Renewals;
use crate::session::request::{Owners, Requests};
use crate::session::subscriptions::Subscriptions;
use crate::session::transfer::{Contended, Listening};
use crate::settings::Settings;
use crate::time::Instant;
use bytes::Bytes;
use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::panic::Location;
use std::task::Waker;
use std::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub struct Session {
    client: ClientId,
    settings: Settings,
    rng: fastrand::Rng,
    next_hold: HoldNumber,
    last_id: u64,
    /// The client is closed: it grants nothing.
    closed: bool,
    /// The guards that outlived the shutdown are lost.
    lost_all: bool,
    locks: Locks,
    subscriptions: Subscriptions,
    holds: Holds,
    requests: Requests,
    owners: Owners,
    timers: Timers,
    renewals: Renewals,
    settlements: Settlements,
    /// The purposes of the calls in flight.
    pending: Pending,
    /// The deadlines of the calls in flight.
    unanswered: Unanswered,
    /// Number of [`CallsReset`](crate::link::LinkEvent::CallsReset) events.
    resets: u64,
    /// The servers that are out of reach.
    outages: Outages,
    /// Holds whose lowering waits for room.
    to_lower: ToLower,
    server_clock: Option<(u64, Instant)>,
    record: ClientRecord,
    /// How often a hold was handed on among the tasks of this client.
    hand_overs: u64,
    /// How often a contender that asked ahead of its notice was granted the lock.
    granted_ahead: u64,
    /// How often a request had a hold that lingered.
    resumed: u64,
    /// The locks that other clients have wanted lately.
    contended: Contended,
    /// The locks whose channel stays subscribed between holds that may linger.
    listening: Listening,
    out: Out,
}

impl Session {
    /// The state of a client that has done nothing yet. The same seed makes the same choices.
    pub fn new(client: ClientId, settings: Settings, seed: u64) -> Self {
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

    /// How long the server of the lock with this name has been unreachable, as known to the link.
    pub fn out_of_reach_for(&self, now: Instant, name: &LockName) -> Option<Duration> {
        self.outages.of(name.key()).map(|outage| now.since(outage.since))
    }

    /// Number of a hold's grants that no future has read.
    pub fn unread_grants(&self, number: HoldNumber) -> usize {
        let unread = self.requests.acquires().filter_map(|(_, acquire)| acquire.unread());
        unread.filter(|granted| granted.hold == number).count()
    }

    /// Whether any call awaits its outcome.
    pub fn awaits_any(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether a call still awaits its outcome.
    pub fn awaits(&self, id: CallId) -> bool {
        self.pending.contains(id)
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.poll_action()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        let missing = self.holds.missing.take().or_else(|| self.requests.missing.take());
        missing.map(|place| Event::Bug { place }).or_else(|| self.out.poll_event())
    }

    /// Whether there are actions or events to be taken.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty() || self.holds.missing.is_noted() || self.requests.missing.is_noted()
    }

    /// The wakers of futures that have something to do. Wake them when the session is no longer locked.
    pub fn take_woken(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.assert_invariants();
        self.out.take_woken()
    }

    /// When [`Session::handle_timeout`] is next to be called; `None` where nothing waits for time to pass.
    ///
    /// A renewal that is due has no instant of its own: it goes out as soon as there is room.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.assert_invariants();
        let due = [self.timers.next(), self.settlements.next_timeout(), self.unanswered.next_timeout()];
        due.into_iter().chain([self.record.next(self.is_idle())]).flatten().min()
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
        let number = self.new_hold();
        self.client.field(number)
    }

    /// A number that is greater than all before it.
    pub fn new_number(&mut self) -> u64 {
        self.next_id()
    }

    /// A number between 0 and 1.
    pub fn random(&mut self) -> f64 {
        self.rng.f64()
    }

    /// From here on the same choices are made as by a session that begins with this seed. An explorer of every state that a client can be
    /// in has one source of differences less.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = fastrand::Rng::with_seed(seed);
    }

    /// How often a hold was handed on among the tasks of this client, without a word to the server.
    pub const fn hand_overs(&self) -> u64 {
        self.hand_overs
    }

    /// How often a waiter of a fair lock asked behind the release of its own client, before it was told that the lock is free, and was granted it.
    pub const fn granted_ahead(&self) -> u64 {
        self.granted_ahead
    }

    /// How often a request had a hold that lingered, without a word to the server.
    pub const fn resumed(&self) -> u64 {
        self.resumed
    }

    /// Whether a hold lingers: its last guard is gone, and it is kept for the next request.
    pub fn lingers(&self, number: HoldNumber) -> bool {
        self.holds.get(number).is_some_and(|hold| hold.lingers())
    }

    /// Whether this client delays its acquires of the lock with this key, because other clients have a head start.
    pub fn gives_head_start(&self, now: Instant, key: &[u8]) -> bool {
        self.contended.held_back_until(now, key).is_some()
    }

    /// Whether another client has recently requested the lock with this key.
    #[cfg(test)]
    fn is_contended(&self, now: Instant, key: &[u8]) -> bool {
        self.contended.is_contended(now, key)
    }

    /// Whether nothing is granted any more.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether every guard is lost because of a shutdown.
    pub const fn has_lost_all(&self) -> bool {
        self.lost_all
    }

    /// The open things. A hold that lingers is among those that are being cleaned up.
    pub fn stats(&self) -> ClientStats {
        let held = self.holds.iter().map(|(_, hold)| hold).filter(|hold| hold.count.wanted > 0).count();
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
}

/// Ids, chance and wakers.
impl Session {
    /// A number that was never given out before.
    const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The number of a hold, or of an operation, that was never given out before.
    const fn new_hold(&mut self) -> HoldNumber {
        let number = self.next_hold;
        self.next_hold = number.next();
        number
    }

    /// A duration between zero and `most`.
    fn jitter(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    /// Has the future of a request polled.
    fn wake(&mut self, ticket: Ticket) {
        if let Some(waker) = self.requests.get_mut(&ticket).and_then(|request| request.waker().take()) {
            self.out.wake(waker);
        }
    }
}

/// A timer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A lock's line: a turn lapses, a sleep ends, or a failed attempt is to be repeated.
    Lock(LockId),
    /// A hold: its deadline passes, its renewal is due, or its count is to be lowered.
    Hold(HoldNumber),
    /// A channel: a subscription, or its end, is tried again.
    Channel(ChannelId),
    /// End of the subscription of a lock whose channel stays subscribed between holds.
    Listening(LockId),
    /// A request: the caller's patience ends.
    Request(Ticket),
}

/// Timers, each set at most once: the setter remembers for when, and takes it back with that.
#[derive(Debug, Default)]
struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    /// Moves `timer` from where `slot` says that it stands to `to`.
    fn set(&mut self, timer: Timer, slot: &mut Option<Instant>, to: Option<Instant>) {
        if *slot == to {
            return;
        }
        if let Some(at) = slot.take() {
            self.0.remove(&(at, timer));
        }
        if let Some(at) = to.filter(|at| *at != Instant::FAR_FUTURE) {
            self.0.insert((at, timer));
            *slot = Some(at);
        }
    }

    /// Takes out one timer that is due at `now`. Its slot still names it; setting it again is harmless.
    fn pop(&mut self, now: Instant) -> Option<Timer> {
        if self.0.first()?.0 > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }

    fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The number of calls that may be in flight while others wait.
///
/// It grows while replies take about as long as the quickest one, which is the round trip. Slower replies mean a queue at the server, and
/// more calls in flight would only lengthen it. TCP Vegas uses the same sign.
#[derive(Debug)]
struct Window {
    bounds: RangeInclusive<usize>,
    size: usize,
    /// How long the quickest reply took.
    quickest: Duration,
}

impl Window {
    /// A window that may be as large as this, and that begins with the least size.
    const fn new(bounds: RangeInclusive<usize>) -> Self {
        Self { size: *bounds.start(), bounds, quickest: Duration::MAX }
    }

    /// Whether one more call may be sent beside these in flight.
    const fn has_room(&self, in_flight: usize) -> bool {
        in_flight < self.size
    }

    /// A reply came after `took`, and more calls wait.
    fn answered(&mut self, took: Duration) {
        self.quickest = self.quickest.min(took);
        let is_quick = took <= self.quickest.saturating_mul(2);
        self.size =
            if is_quick { self.size + 1 } else { self.size - 1 }.clamp(*self.bounds.start(), *self.bounds.end());
    }

    /// No reply came: the server may be overloaded.
    const fn not_answered(&mut self) {
        self.size = *self.bounds.start();
    }

    /// No call waits. The next calls are measured by their own round trip.
    const fn begin_anew(&mut self) {
        self.size = *self.bounds.start();
        self.quickest = Duration::MAX;
    }
}

/// The pause before the attempt of this number, 1 being the first one after a failure: 10 ms, doubled with each, at most half a second.
fn pause_before(attempt: u32) -> Duration {
    Duration::from_millis(10 << attempt.saturating_sub(1).min(6)).min(Duration::from_millis(500))
}

// Entries that a flow has named, and that are not there although they must be: a bug of the session.
//
// Builds with debug assertions stop there: tests, random worlds, the fuzzer. Elsewhere the flow ends without effect, because a wrong answer
// to one caller is better than the end of a client that holds locks, and the client's user is told by an event.

/// The last place that has named an entry that is missing.
#[derive(Debug, Default)]
struct Missing(Cell<Option<&'static Location<'static>>>);

impl Missing {
    /// Notes that an entry is missing which the caller has named.
    #[track_caller]
    fn note(&self) {
        let place = Location::caller();
        debug_assert!(false, "{place} names an entry that is not there");
        self.0.set(Some(place));
    }

    /// Whether a place was noted since the last [`Missing::take`].
    const fn is_noted(&self) -> bool {
        self.0.get().is_some()
    }

    /// The place that was noted since the last call of this method.
    fn take(&self) -> Option<&'static Location<'static>> {
        self.0.take()
    }
}

// The invariants of a session, as far as it can see them itself.
//
// Most relations between requests, locks, holds and channels are kept from both ends, because both ends must be found quickly. This is
// what says that the two ends agree. It runs after every public call in builds with debug assertions: in tests, in random worlds and
// under the fuzzer.

/// A session with more than this in its tables is not checked: that would take longer than what the session does.
const AT_MOST: usize = 256;

/// The references to a lock, its holds, and their permits.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    refs: usize,
    held: usize,
    permits: u64,
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Session {
    /// The counts of a hold (invariant 2), that its deadline is watched (invariant 4), that no two holds which may be handed on have one
    /// name on the server (invariant 6), and that one lingers at rest and is asked for (invariant 7).
    fn check_holds(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        for (number, hold) in self.holds.iter() {
            let lock = self.locks.get(hold.lock);
            let is_named = lock.is_some_and(|lock| lock.protocol().may_be_handed_on());
            ensure(!is_named || names.insert(hold.cell.name()), || format!("{number:?} is there twice"))?;
            let is_heard = !hold.lingers() || self.subscriptions.hears(hold.lock);
            ensure(is_heard, || format!("{number:?} lingers, and nothing is heard of others that want it"))?;
            ensure(self.locks.contains(hold.lock), || format!("{number:?} is of a lock that is not there"))?;
            hold.check().map_err(|found| format!("{number:?}: {found}"))?;
        }
        Ok(())
    }

    /// A lock knows how many refer to it and hold it (invariant 5 speaks of its one contender), and its channels know of it.
    fn check_locks(&self) -> Result<(), String> {
        let mut found: NumberMap<LockId, Found> = NumberMap::default();
        for (_, acquire) in self.requests.acquires() {
            found.entry(acquire.lock).or_default().refs += 1;
        }
        for hold in self.holds.iter().map(|(_, hold)| hold) {
            let of_lock = found.entry(hold.lock).or_default();
            of_lock.refs += 1;
            if hold.is_granted() && hold.has_guards() {
                of_lock.held += 1;
                of_lock.permits += hold.permits();
            }
        }
        for lock in self.listening.locks() {
            found.entry(lock).or_default().refs += 1;
        }
        for (id, lock) in self.locks.iter() {
            let mut of_lock = found.remove(&id).unwrap_or_default();
            of_lock.refs += usize::from(lock.heartbeat().is_under_way());
            let kept = Found { refs: lock.refs(), held: lock.held(), permits: lock.permits };
            ensure(kept == of_lock, || format!("{} keeps {kept:?}, and has {of_lock:?}", lock.name))?;
            let members = lock.line().members();
            for ticket in members {
                let waits = self.requests.acquire(ticket).is_some_and(|acquire| acquire.lock == id);
                ensure(waits, || format!("{ticket:?} stands in the line of {}, and does not ask for it", lock.name))?;
            }
        }
        let stale = self.subscriptions.locks().find(|lock| !self.locks.contains(*lock));
        ensure(stale.is_none() && self.subscriptions.is_sound(), || {
            format!("locks and channels do not agree: {:?}", self.subscriptions)
        })?;
        Ok(())
    }

    /// The hold that a request has begun, or was handed, is known (invariant 1), and a request stands in the line of its lock exactly while it waits there.
    fn check_requests(&self) -> Result<(), String> {
        for (ticket, acquire) in self.requests.acquires() {
            let begun = acquire.hold.map(|number| (number, self.holds.get(number)));
            ensure(begun.is_none_or(|(_, hold)| hold.is_some_and(|hold| hold.lock == acquire.lock)), || {
                format!("{ticket:?} has begun {begun:?}, which is no hold of its lock")
            })?;
            let unread = acquire.unread().map(|granted| (granted, self.holds.get(granted.hold)));
            ensure(unread.is_none_or(|(_, hold)| hold.is_some_and(|hold| hold.lock == acquire.lock)), || {
                format!("{ticket:?} was handed {unread:?}, which is no hold of its lock")
            })?;
            ensure(unread.is_none() || acquire.timer.is_some(), || {
                format!("nothing watches whether the future of {ticket:?} reads its grant")
            })?;
            ensure(self.locks.contains(acquire.lock), || format!("{ticket:?} asks for a lock that is not there"))?;
            let lock = &self.locks[acquire.lock];
            let waits = acquire.waits_in_line();
            let stands = [lock.line().is_contender(ticket), lock.line().queue.contains(ticket)];
            ensure(stands.map(usize::from).iter().sum::<usize>() == usize::from(waits), || {
                format!("{ticket:?} contends, and is queued: {stands:?}, {acquire:?}")
            })?;
        }
        Ok(())
    }

    /// Every timer has its slot, and owners own what is there.
    fn check_tables(&self) -> Result<(), String> {
        let of_requests = self.requests.iter().filter_map(|(_, request)| request.timer_at());
        let of_locks = self.locks.iter().filter_map(|(_, lock)| lock.timer);
        let of_holds = self.holds.iter().map(|(_, hold)| hold).filter_map(|hold| hold.timer);
        let slots = of_requests.chain(of_locks).chain(of_holds).count()
            + self.subscriptions.timers()
            + self.listening.locks().count();
        ensure(self.timers.len() == slots, || format!("{} timers are set, and {slots} are known", self.timers.len()))?;
        for (lock, owner, owned) in self.owners.iter() {
            let (holds, wishes) = (&owned.holds, &owned.wishes);
            let there = holds.iter().all(|number| self.holds.get(*number).is_some_and(|hold| hold.lock == lock))
                && wishes
                    .iter()
                    .all(|ticket| self.requests.acquire(*ticket).is_some_and(|acquire| acquire.lock == lock));
            ensure(there, || format!("{owner:?} owns or wants what is not there: {owned:?}"))?;
        }
        Ok(())
    }
    /// Panics on a broken invariant, in debug builds of the tests. It checks everything after each call, which is too
    /// expensive for users.
    fn assert_invariants(&self) {
        let size = self.locks.len() + self.holds.len() + self.requests.len() + self.subscriptions.len();
        if cfg!(all(debug_assertions, any(test, feature = "self-checks"))) && size <= AT_MOST {
            let found = self
                .check_requests()
                .and_then(|()| self.check_locks())
                .and_then(|()| self.check_holds())
                .and_then(|()| self.check_tables());
            assert_eq!(found, Ok(()), "an invariant of the session is broken");
        }
    }
}
