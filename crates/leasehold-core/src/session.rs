//! The protocol state of one client: everything it waits for, holds, renews and cleans up.
//!
//! A [`Session`] does no I/O and reads no clock. Its methods fall into four families:
//!
//! - **requests** of callers: [`Session::acquire`], [`Session::release`], [`Session::extend`], and their `poll_*` and `abandon_*`, which
//!   a future calls when it is polled and dropped;
//! - **`handle_*`** for input: replies, settlements, subscriptions, notices, resets, the passing of time;
//! - **`poll_*`** for output: [`Session::poll_call`], [`Session::poll_action`], [`Session::poll_event`], [`Session::poll_timeout`],
//!   [`Session::take_woken`]. Drain them after every call of another family;
//! - **getters**.
//!
//! `now` never decreases from one call to the next.
//!
//! An id that must exist indexes its table, as in `self.requests[ticket]`. A missing entry is a bug of the session, and panics.
//!
//! Each file of `session/` is one story and adds its methods to [`Session`]; `docs/architecture.md` lists them.
//!
//! # Invariants
//!
//! 1. A hold exists in the session from before its first command can leave the process until the server certainly has nothing of it. So the
//!    session knows, and cleans up, everything that may be on the server. A transferred hold is never absent in between. The exception is a
//!    hold whose ticket has left the session: it ends with its lease (`adoption.rs`).
//! 2. `on_server` of a hold's count is never lower than the server's count. `wanted` is the target: the hold's guards, including detached ones.
//!    If `on_server` is greater, and no request is about to change that, the background lowers it. All clean-up is this one rule. A lost hold
//!    waits for its guards.
//! 3. A hold has at most one change of its count in flight, and sends none while an earlier change is unsettled.
//! 4. A deadline starts at the instant before its call was sent. A hold whose deadline has passed is lost, whatever a later reply reports. A
//!    future deadline moves to an earlier instant only by the reply to a later command that disproves it, or when a degraded hold is restored.
//! 5. A lock has at most one waiter, the contender, that may send a first acquire. Four others may: a waiter that takes a place in a queue on
//!    the server; a waiter of a shared lock that a grant has invited, or whose wait ends; a try of a shared lock; and a try if no request has
//!    asked yet, or the server is out of reach. A contender that receives a hold by transfer has no call in flight, and sends none.
//! 6. A hold number belongs to one holder and is never reused. A transferred hold keeps its name on the server and takes a new number. So a
//!    late re-entry, release or reply under the old number does not touch the new holder.
//! 7. A lingering hold has no guard and no call in flight, and a timer watches it. Its lock listens for requests of other clients. The first
//!    request that would ask the server has the hold, or ends its lingering.
//!
//! From 1 and 2 follows that nothing leaks: a dropped future, a dropped guard or a lost reply leaves a hold whose count is too high.

mod acquire;
mod adoption;
mod api;
mod calls;
mod fair;
mod grant;
mod hold;
mod line;
mod lock;
mod offline;
mod release;
mod renew;
mod request;
mod subscriptions;
#[cfg(test)]
mod tests;
mod transfer;

pub use crate::call::CallId;
pub use adoption::{AdoptRequest, Offered};
pub use api::{
    AcquireRequest, Action, ClientStats, Event, Failure, Fallback, Granted, LingerTime, OuterOwners, Outgoing,
    Patience, Ticket,
};

use crate::call::Call;
use crate::command::record;
use crate::command::record::uses::{LockUse, MOST};
use crate::error::{AcquireError, LossReason};
use crate::name::LockName;
use crate::number_map::NumberMap;
use crate::owner::{ClientId, HoldNumber, OwnerId};
use crate::queue::Queue;
use crate::session::calls::{Out, Pending, Purpose, ServerClock, Settlements};
use crate::session::hold::{Hold, Holds};
use crate::session::lock::{LockId, Locks};
use crate::session::offline::Outages;
use crate::session::release::ToLower;
use crate::session::renew::{Renewals, outcome_of_extension};
use crate::session::request::{Owners, RequestKind, Requests};
use crate::session::subscriptions::{ChannelId, Subscriptions};
use crate::session::transfer::Contended;
use crate::settings::Settings;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::task::Waker;
use std::time::Duration;

/// The protocol state of one client; see the [module](self).
#[derive(Debug)]
pub struct Session {
    client: ClientId,
    settings: Settings,
    rng: fastrand::Rng,
    next_hold: HoldNumber,
    last_id: u64,
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
    pending: Pending,
    /// Number of [`CallsReset`](crate::link::LinkEvent::CallsReset) events.
    resets: u64,
    outages: Outages,
    to_lower: ToLower,
    server_clock: Option<ServerClock>,
    record: Option<Box<Kept>>,
    hand_overs: u64,
    granted_ahead: u64,
    resumed: u64,
    contended: Contended,
    /// The timers of locks that stay subscribed between holds that may linger.
    listening: BTreeMap<LockId, Option<Instant>>,
    out: Out,
}

impl Session {
    /// A new session. The same seed makes the same random choices.
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
            locks: Locks::default(),
            subscriptions: Subscriptions::default(),
            holds: Holds::default(),
            requests: Requests::default(),
            owners: Owners::default(),
            timers: Timers::default(),
            renewals,
            settlements: Settlements::default(),
            pending: Pending::default(),
            resets: 0,
            outages: Outages::default(),
            to_lower: ToLower::default(),
            server_clock: None,
            record: None,
            hand_overs: 0,
            granted_ahead: 0,
            resumed: 0,
            contended: Contended::default(),
            listening: BTreeMap::new(),
            out: Out::default(),
        }
    }

    /// How long the link has reported the server of this lock as out of reach.
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
        !self.pending.calls.is_empty()
    }

    /// Whether a call still awaits its outcome.
    pub fn awaits(&self, id: CallId) -> bool {
        self.pending.calls.contains_key(&id)
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.actions.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    /// Whether [`Session::poll_action`] or [`Session::poll_event`] has output.
    pub fn has_output(&self) -> bool {
        !self.out.actions.is_empty() || !self.out.events.is_empty()
    }

    /// The wakers of futures to poll. Wake them after the session is unlocked.
    pub fn take_woken(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.assert_invariants();
        self.out.take_woken()
    }

    /// When to call [`Session::handle_timeout`] next; `None` if nothing waits for time to pass.
    ///
    /// A due renewal has no timeout: the session sends it as soon as fewer renewals are in flight.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.assert_invariants();
        let timer = self.timers.0.first().map(|(at, _)| at);
        let due = [timer, self.settlements.next_timeout(), self.pending.next_timeout(), self.next_record()];
        due.into_iter().flatten().min()
    }

    /// The client's identity.
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// The session's settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A new owner.
    pub fn new_owner(&mut self) -> OwnerId {
        OwnerId::new(self.new_number())
    }

    /// A new id of an operation, such as the setting of a counter. It differs from the names of all holds.
    pub fn new_operation(&mut self) -> Bytes {
        let number = self.new_hold();
        self.client.field(number)
    }

    /// A number greater than all earlier ones.
    pub const fn new_number(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A number between 0 and 1.
    pub fn random(&mut self) -> f64 {
        self.rng.f64()
    }

    /// Resets the random choices to those of a new session with this seed. An explorer of states needs it to find equal states.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = fastrand::Rng::with_seed(seed);
    }

    /// Number of hand-overs between tasks of this client, without a command to the server.
    pub const fn hand_overs(&self) -> u64 {
        self.hand_overs
    }

    /// Number of grants to waiters of fair locks that asked directly behind their own client's release, before its notice.
    pub const fn granted_ahead(&self) -> u64 {
        self.granted_ahead
    }

    /// Number of acquires that resumed a lingering hold, without a command to the server.
    pub const fn resumed(&self) -> u64 {
        self.resumed
    }

    /// Whether a hold lingers: it has no guard, and stays on the server for the next request.
    pub fn lingers(&self, number: HoldNumber) -> bool {
        self.holds.get(number).is_some_and(|hold| hold.lingers())
    }

    /// Whether this client delays acquires of this key, to give other clients a head start.
    pub fn gives_head_start(&self, now: Instant, key: &[u8]) -> bool {
        self.contended.held_back_until(now, key).is_some()
    }

    /// Whether a shutdown has ended all guards.
    pub const fn has_lost_all(&self) -> bool {
        self.lost_all
    }

    /// Counts of open items. A lingering hold counts as `cleaning_up`.
    pub fn stats(&self) -> ClientStats {
        let held = self.holds.iter().map(|(_, hold)| hold).filter(|hold| hold.count.wanted > 0).count();
        ClientStats {
            held,
            cleaning_up: self.holds.len() - held,
            requests: self.requests.0.len(),
            subscriptions: self.subscriptions.len(),
            locks: self.locks.len(),
            owners: self.owners.len(),
            timers: self.timers.len(),
        }
    }

    const fn new_hold(&mut self) -> HoldNumber {
        let number = self.next_hold;
        self.next_hold = number.next();
        number
    }

    fn jitter(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    fn wake(&mut self, ticket: Ticket) {
        if let Some(waker) = self.requests.0.get_mut(ticket).and_then(|request| request.waker.take()) {
            self.out.wake(waker);
        }
    }
}

/// Shutdown.
///
/// | step | effect |
/// |---|---|
/// | `close` | waiting callers fail; unread grants and lingering holds are released |
/// | time passes | guards end as usual; holds with a guard are renewed |
/// | `lose_all` | the remaining guards are lost; a lock is released only when its last guard is gone |
/// | `end` | pending releases fail: the session sends nothing more |
impl Session {
    /// Stops granting: every waiting acquire fails, and every later acquire. Releases grants that no future has read. Other holds stay.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        let mut waiting: Vec<Ticket> = self.requests.acquires().map(|(ticket, _)| ticket).collect();
        waiting.sort_unstable();
        for ticket in waiting {
            let acquire = &mut self.requests[ticket];
            if let Some(granted) = acquire.take_granted() {
                acquire.end(Err(AcquireError::Closed));
                self.drop_guard(now, granted.hold, granted.renewed);
            }
            self.fail_acquire(now, ticket, AcquireError::Closed);
        }
        self.stop_all_lingering(now);
        let listening: Vec<LockId> = self.listening.keys().copied().collect();
        listening.into_iter().for_each(|lock| self.stop_listening(lock));
    }

    /// Loses every hold with a guard; the last guard's drop releases the hold. Ends every pause. Returns whether a hold was lost.
    pub fn lose_all(&mut self, now: Instant) -> bool {
        self.lost_all = true;
        let pauses = self.requests.0.iter().filter(|(_, request)| matches!(request.kind, RequestKind::Pause { .. }));
        let pauses: Vec<Ticket> = pauses.map(|(ticket, _)| ticket).collect();
        pauses.into_iter().for_each(|ticket| self.wake(ticket));
        let guarded = self.holds_where(|hold| hold.state.is_granted() && hold.count.has_guards());
        for number in &guarded {
            self.lose(now, *number, LossReason::ShutDown);
            self.reconcile(now, *number);
        }
        !guarded.is_empty()
    }

    /// Ends the session when its driver stops: closes it, loses every hold with a guard, and fails pending requests.
    pub fn end(&mut self, now: Instant) {
        self.close(now);
        self.lose_all(now);
        let why = "no reply came before the client was shut down";
        let open: Vec<Ticket> = self.requests.0.iter().map(|(ticket, _)| ticket).collect();
        for ticket in open {
            let Some(request) = self.requests.0.get(ticket) else { continue };
            match &request.kind {
                RequestKind::Release { hold, outcome: None } => self.give_up_release(ticket, *hold, why),
                RequestKind::Extension { .. } => {
                    self.set_result(ticket, outcome_of_extension, Err(AcquireError::Lost(LossReason::ShutDown)));
                }
                RequestKind::Offer { .. } | RequestKind::Adoption { .. } => self.end_move(now, ticket, why),
                RequestKind::Release { .. } | RequestKind::Acquire(_) | RequestKind::Pause { .. } => {}
            }
        }
    }

    /// Whether the server can have no hold of this client. A subscription may exist: it ends with its connection.
    pub fn holds_nothing(&self) -> bool {
        self.holds.is_empty()
    }

    /// Whether the server may have a hold without a guard.
    pub fn has_clean_up(&self) -> bool {
        self.holds.iter().any(|(_, hold)| !hold.count.has_guards())
    }

    /// The names of the locks of which the server may have a hold, sorted.
    pub fn unreleased(&self) -> Vec<LockName> {
        let mut names: Vec<LockName> = self.holds.iter().map(|(_, hold)| self.locks[hold.lock].name.clone()).collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        names
    }
}

const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Time between two comparisons of the record with the client's locks.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client has held a lock, or waited for it, before the record lists it.
const MIN_LISTED_TIME: Duration = Duration::from_secs(1);

/// The most requests of a record. The rest of it is for holds.
const MOST_REQUESTS: usize = MOST / 2;

/// The client's record on the server: the locks that the client has held, or waited for, for a while.
///
/// The client compares the record with its holds once a second, not at each acquire, and writes it again if they differ.
impl Session {
    /// Keeps a record of this client on the server. The record expires `lifetime` after its last write.
    pub fn announce(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        self.record = Some(Box::new(Kept::new(now, record, lifetime)));
    }

    /// Keeps the client's record on the server until `until`, also beyond the end of the client.
    pub fn outlive(&mut self, until: Instant) {
        if let Some(kept) = &mut self.record {
            kept.outlives = kept.outlives.max(Some(until));
        }
    }

    /// Removes the client's record, if there is one, or leaves it without locks for the time of [`outlive`](Self::outlive). If the call
    /// fails, the record expires.
    pub fn retract(&mut self, now: Instant) {
        if let Some(kept) = self.record.take() {
            let call = match kept.outlives.filter(|until| *until > now) {
                Some(until) => record::put(&self.client, &kept.record, now.since(kept.since), &[], until.since(now)),
                None => record::remove(&self.client),
            };
            self.send(now, call, Purpose::Nothing);
        }
    }

    /// The next write of the record, or its next comparison with the client's locks.
    fn next_record(&self) -> Option<Instant> {
        self.record.as_ref()?.next(self.is_idle())
    }

    fn record_is_due(&mut self, now: Instant) {
        if self.next_record().is_none_or(|at| at > now) {
            return;
        }
        let uses = self.lock_uses(now);
        if let Some(call) = self.record.as_mut().and_then(|kept| kept.write(now, &self.client, uses)) {
            self.send(now, call, Purpose::Record);
        }
    }

    /// Plans the next write after a reply. Ignores the reply to a record that was replaced.
    fn record_written(&mut self, now: Instant, was_written: bool) {
        if let Some(kept) = self.record.as_mut().filter(|kept| kept.write_at.is_none()) {
            kept.write_at = Some(now + if was_written { kept.lifetime / 3 } else { RETRY_PAUSE });
        }
    }

    /// Whether the client holds nothing and waits for nothing.
    fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.requests.0.is_empty()
    }

    /// The locks that the client has waited for, and has held, for a while; the oldest first.
    ///
    /// Requests whose owners hold a lock precede other requests, because they may be part of a deadlock. Holds whose owners wait precede
    /// other holds.
    fn lock_uses(&self, now: Instant) -> Vec<LockUse> {
        let has_lasted = |since: Instant| now.since(since) >= MIN_LISTED_TIME;
        let owning: HashSet<OwnerId> =
            self.owners.iter().filter(|(.., owned)| !owned.holds.is_empty()).map(|(_, owner, _)| owner).collect();
        let requests = self.requests.acquires().filter(|(_, acquire)| {
            acquire.is_open()
                && acquire.entering().is_none()
                && acquire.request.patience != Patience::Try
                && has_lasted(acquire.started)
        });
        let requests = requests.map(|(ticket, acquire)| {
            let may_lock = blocked_owners(&acquire.request).any(|owner| owning.contains(&owner));
            ((!may_lock, acquire.started, ticket), acquire)
        });
        let requests = smallest(MOST_REQUESTS, requests);
        let waiting: HashSet<OwnerId> = requests.iter().flat_map(|acquire| blocked_owners(&acquire.request)).collect();
        let is_listed =
            |hold: &Hold| hold.is_live() && !hold.state.is_degraded() && has_lasted(hold.cell.acquired_at());
        let holds = self.holds.iter().filter(|(_, hold)| is_listed(hold)).map(|(number, hold)| {
            let may_lock = hold.owner.is_some_and(|owner| waiting.contains(&owner));
            ((!may_lock, hold.cell.acquired_at(), number), hold)
        });
        let holds = smallest(MOST - requests.len(), holds);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let lock_use = |lock: LockId, owners: Vec<u64>, since: Instant, hold: Option<&Hold>| LockUse {
            key: text(self.locks[lock].name.key()),
            kind: self.locks[lock].kind,
            hold: hold.map(|hold| text(&hold.cell.field())),
            owners,
            lasted: now.since(since),
            lease: hold.filter(|hold| hold.count.is_renewed()).map(|hold| hold.lease),
        };
        let of_requests = requests.into_iter().map(|acquire| {
            let owners = blocked_owners(&acquire.request).map(OwnerId::number).collect();
            lock_use(acquire.lock, owners, acquire.started, None)
        });
        let of_holds = holds.into_iter().map(|hold| {
            let owners = hold.owner.into_iter().map(OwnerId::number).collect();
            lock_use(hold.lock, owners, hold.cell.acquired_at(), Some(hold))
        });
        of_requests.chain(of_holds).collect()
    }
}

/// The owners that cannot go on before the request ends.
fn blocked_owners(request: &AcquireRequest) -> impl Iterator<Item = OwnerId> {
    request.owner.into_iter().chain(request.outer.iter().flat_map(|outer| outer.0.iter().copied()))
}

/// The values of the `most` smallest keys, sorted by key. Linear in the number of all values.
fn smallest<K: Ord, T>(most: usize, all: impl Iterator<Item = (K, T)>) -> Vec<T> {
    let mut all: Vec<_> = all.collect();
    if all.len() > most {
        all.select_nth_unstable_by(most, |(one, _), (other, _)| one.cmp(other));
        all.truncate(most);
    }
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    all.into_iter().map(|(_, value)| value).collect()
}

/// The client's record, and when the client writes it.
#[derive(Debug)]
struct Kept {
    record: record::ClientRecord,
    lifetime: Duration,
    since: Instant,
    /// The next write; `None` while a write is in flight.
    write_at: Option<Instant>,
    written: Vec<LockUse>,
    compare_at: Instant,
    /// The time at which the record expires after the client ends.
    outlives: Option<Instant>,
}

impl Kept {
    fn new(now: Instant, record: record::ClientRecord, lifetime: Duration) -> Self {
        let (write_at, compare_at) = (Some(now), now + COMPARE_INTERVAL);
        Self { record, lifetime, since: now, write_at, written: Vec::new(), compare_at, outlives: None }
    }

    /// An idle client with an empty record does not compare.
    fn next(&self, is_idle: bool) -> Option<Instant> {
        let at = self.write_at?;
        Some(if is_idle && self.written.is_empty() { at } else { at.min(self.compare_at) })
    }

    /// The call that writes the record with these locks, if the write is due or the locks differ from the last write.
    fn write(&mut self, now: Instant, client: &ClientId, uses: Vec<LockUse>) -> Option<Call> {
        let at = self.write_at?;
        if self.compare_at <= now {
            self.compare_at = now + COMPARE_INTERVAL;
        }
        let is_same = uses.len() == self.written.len()
            && uses.iter().zip(&self.written).all(|(now, written)| now.is_same(written));
        if at > now && is_same {
            return None;
        }
        self.write_at = None;
        self.written = uses;
        Some(record::put(client, &self.record, now.since(self.since), &self.written, self.lifetime))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    /// A turn lapses, or a sleep or a pause of the contender ends.
    Lock(LockId),
    /// A deadline passes, or a renewal, a clean-up or the end of lingering is due.
    Hold(HoldNumber),
    /// A failed subscription command is retried.
    Channel(ChannelId),
    /// A subscription ends that outlived its lock's holds.
    Listening(LockId),
    /// A caller's wait, a pause, or the time to read a grant ends.
    Request(Ticket),
}

/// Timers, each set at most once: the setter's slot stores the instant, and removes the timer with it.
#[derive(Debug, Default)]
struct Timers(Queue<Instant, Timer>);

impl Timers {
    fn set(&mut self, timer: Timer, slot: &mut Option<Instant>, to: Option<Instant>) {
        if *slot == to {
            return;
        }
        if slot.take().is_some() {
            self.0.remove(timer);
        }
        if let Some(at) = to.filter(|at| *at != Instant::FAR_FUTURE) {
            self.0.insert(at, timer);
            *slot = Some(at);
        }
    }

    /// Removes one due timer. Its slot is stale until the next `set`, which is harmless.
    fn pop(&mut self, now: Instant) -> Option<Timer> {
        let (_, timer) = self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.remove(timer);
        Some(timer)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The maximum number of calls in flight while more calls wait, as in TCP Vegas.
///
/// It grows while reply times stay close to the fastest reply, which approximates the round trip. Slower replies mean a queue at the server, and more
/// calls in flight would only lengthen the queue.
#[derive(Debug)]
struct Window {
    bounds: RangeInclusive<usize>,
    size: usize,
    quickest: Duration,
    in_flight: usize,
}

impl Window {
    const fn new(bounds: RangeInclusive<usize>) -> Self {
        Self { size: *bounds.start(), bounds, quickest: Duration::MAX, in_flight: 0 }
    }

    fn restart(&mut self, bounds: RangeInclusive<usize>) {
        *self = Self { in_flight: self.in_flight, ..Self::new(bounds) };
    }

    const fn has_room(&self) -> bool {
        self.in_flight < self.size
    }

    const fn begin(&mut self) {
        self.in_flight += 1;
    }

    /// Ends a call: with a reply after `took`, or without a reply. `more` calls may wait.
    fn end(&mut self, took: Option<Duration>, more: bool) {
        self.in_flight -= 1;
        let (least, most) = (*self.bounds.start(), *self.bounds.end());
        match took {
            // The server may be overloaded.
            None => self.size = least,
            // The next burst measures its own round trip.
            Some(_) if !more => (self.size, self.quickest) = (least, Duration::MAX),
            Some(took) => {
                self.quickest = self.quickest.min(took);
                let is_quick = took <= self.quickest.saturating_mul(2);
                self.size = if is_quick { self.size + 1 } else { self.size - 1 }.clamp(least, most);
            }
        }
    }
}

/// The pause before an attempt; attempt 1 follows the first failure. It starts at 10 ms and doubles up to 500 ms.
fn pause_before(attempt: u32) -> Duration {
    Duration::from_millis(10 << attempt.saturating_sub(1).min(6)).min(Duration::from_millis(500))
}

/// Larger sessions are not checked: the checks would take longer than the session's own work.
const MAX_CHECKED: usize = 256;

/// Checks that both ends of each relation between requests, locks, holds and channels agree.
impl Session {
    /// Panics on a broken invariant after every public call, in debug builds of the tests. The checks are too expensive for users.
    fn assert_invariants(&self) {
        let size = self.locks.len() + self.holds.len() + self.requests.0.len() + self.subscriptions.len();
        if cfg!(all(debug_assertions, any(test, feature = "self-checks"))) && size <= MAX_CHECKED {
            self.check_requests();
            self.check_locks();
            self.check_holds();
            self.check_tables();
        }
    }

    /// Invariants 2, 4, 6 and 7.
    fn check_holds(&self) {
        let mut names = HashSet::new();
        for (number, hold) in self.holds.iter() {
            assert!(self.locks.contains(hold.lock), "{number:?} is of a lock that is not there");
            let is_named = self.locks[hold.lock].protocol().may_be_handed_on();
            assert!(!is_named || names.insert(&hold.cell.name), "{number:?} is there twice");
            let is_heard = !hold.lingers() || self.subscriptions.hears(hold.lock);
            assert!(is_heard, "{number:?} lingers without a subscription to requests");
            hold.check(number);
        }
    }

    /// Each lock's counts match its references, its waiters ask for it, and its channels know it.
    fn check_locks(&self) {
        // The references to each lock, its holds, and their permits.
        let mut found: NumberMap<LockId, (u32, u64)> = NumberMap::default();
        for (_, acquire) in self.requests.acquires() {
            found.entry(acquire.lock).or_default().0 += 1;
        }
        for (_, hold) in self.holds.iter() {
            let (refs, permits) = found.entry(hold.lock).or_default();
            *refs += 1;
            if hold.state.is_granted() && hold.count.has_guards() {
                *permits += hold.permits();
            }
        }
        for lock in self.listening.keys().copied() {
            found.entry(lock).or_default().0 += 1;
        }
        for (id, lock) in self.locks.iter() {
            let (refs, permits) = found.remove(&id).unwrap_or_default();
            let refs = refs + u32::from(lock.line.heartbeat_in_flight);
            assert_eq!((lock.refs, lock.permits), (refs, permits), "{} keeps, and has", lock.name);
            for ticket in lock.line.members() {
                let waits = self.requests.acquire(ticket).is_some_and(|acquire| acquire.lock == id);
                assert!(waits, "{ticket:?} stands in the line of {}, and does not ask for it", lock.name);
            }
        }
        let is_sound =
            self.subscriptions.is_sound() && self.subscriptions.locks().all(|lock| self.locks.contains(lock));
        assert!(is_sound, "locks and channels do not agree: {:?}", self.subscriptions);
    }

    /// Each request has a hold (invariant 1). A request is in its lock's line exactly while it waits (invariant 5).
    fn check_requests(&self) {
        for (ticket, acquire) in self.requests.acquires() {
            let is_of_lock = |number| self.holds.get(number).is_some_and(|hold| hold.lock == acquire.lock);
            assert!(acquire.hold.is_none_or(is_of_lock), "{ticket:?} has begun no hold of its lock: {acquire:?}");
            if let Some(granted) = acquire.unread() {
                assert!(is_of_lock(granted.hold), "{ticket:?} was handed no hold of its lock: {granted:?}");
                let is_timed = self.requests.0[ticket].timer.is_some();
                assert!(is_timed, "nothing watches whether the future of {ticket:?} reads its grant");
            }
            assert!(self.locks.contains(acquire.lock), "{ticket:?} asks for a lock that is not there");
            let line = &self.locks[acquire.lock].line;
            let stands = [line.is_contender(ticket), line.queue.contains(ticket)];
            let waits = stands.into_iter().map(usize::from).sum::<usize>() == usize::from(acquire.waits_in_line());
            assert!(waits, "{ticket:?} contends, and is queued: {stands:?}, {acquire:?}");
        }
    }

    /// Each timer has a slot, and the holds and requests of each owner exist.
    fn check_tables(&self) {
        let of_requests = self.requests.0.iter().filter_map(|(_, request)| request.timer);
        let of_locks = self.locks.iter().filter_map(|(_, lock)| lock.timer);
        let of_holds = self.holds.iter().filter_map(|(_, hold)| hold.timer);
        let slots = of_requests.chain(of_locks).chain(of_holds).count();
        let slots = slots + self.subscriptions.timers() + self.listening.len();
        assert_eq!(self.timers.len(), slots, "timers are set, and known");
        for (lock, owner, owned) in self.owners.iter() {
            let holds = owned.holds.iter().map(|number| self.holds.get(*number).map(|hold| hold.lock));
            let requests =
                owned.requests.iter().map(|ticket| self.requests.acquire(*ticket).map(|acquire| acquire.lock));
            let there = holds.chain(requests).all(|of| of == Some(lock));
            assert!(there, "{owner:?} owns or wants what is not there: {owned:?}");
        }
    }
}
