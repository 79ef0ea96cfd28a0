//! The state that a client keeps about a lock that it holds, waits for or listens for.

use crate::command::{Keys, Kind, KindProtocol, WaitPolicy};
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber};
use crate::session::fair::HeartbeatState;
use crate::session::line::{Invitations, Line, Phase};
use crate::session::request::Failures;
use crate::session::transfer::OtherListeners;
use crate::session::{Ticket, Timer, Timers};
use crate::time::Instant;
use bytes::Bytes;
use slab::Slab;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Lock {
    pub(super) name: LockName,
    pub(super) kind: Kind,
    /// `None` for a kind whose calls need only the name.
    keys: Option<Box<Keys>>,
    /// Number of holds, requests, heartbeats and subscriptions that refer to this.
    pub(super) refs: u32,
    pub(super) held: u32,
    /// The permits of the held holds, with one permit for each hold of another kind than a semaphore.
    pub(super) permits: u64,
    waiters: LazyWaiters,
    /// Every request takes the lock within this client first.
    pub(super) is_local: bool,
    /// Another lock of the same name: the other half of a read-write lock, or a lock of another kind.
    sibling: Option<LockId>,
    /// The chain of its name starts here.
    is_first: bool,
    /// The last granted hold of this client. It may have ended.
    pub(super) last_granted: Option<HoldNumber>,
    pub(super) other_listeners: OtherListeners,
    /// For the log line about waits for this client's own holds.
    pub(super) own_wait_log: LogThrottle,
    pub(super) timer: Option<Instant>,
}

/// The requests that wait for a lock.
#[derive(Debug)]
struct Waiters {
    line: Line,
    /// The waiters that may ask beside the contender, if several may hold the lock.
    invitations: Invitations,
    failures: Failures,
    heartbeat: HeartbeatState,
    /// Abandoned ungranted holds that the server may still have.
    given_up: BTreeSet<HoldNumber>,
    /// The last warning that a task of this client may wait for itself.
    alarmed_at: Option<Instant>,
    /// The anomaly that a waiter has reported.
    anomaly: Option<Anomaly>,
}

/// Waiters, allocated for the first one: a client may hold a hundred thousand locks for which no request waits.
struct LazyWaiters(Option<Box<Waiters>>);

/// An allocation makes no difference to the state.
impl fmt::Debug for LazyWaiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_deref().unwrap_or(&NO_WAITERS).fmt(f)
    }
}

static NO_WAITERS: Waiters = Waiters::none();

static NO_KEYS: LazyLock<Keys> = LazyLock::new(|| Keys { keys: Box::default(), channel: None });

impl Waiters {
    const fn none() -> Self {
        Self {
            line: Line::new(),
            invitations: Invitations::new(),
            failures: Failures::new(),
            heartbeat: HeartbeatState::new(),
            given_up: BTreeSet::new(),
            alarmed_at: None,
            anomaly: None,
        }
    }

    fn is_none(&self) -> bool {
        self.line.is_empty()
            && self.line.phase == Phase::Idle
            && self.invitations.is_new()
            && !self.failures.has_any()
            && self.heartbeat.next.is_none()
            && !self.heartbeat.in_flight
            && self.given_up.is_empty()
            && self.alarmed_at.is_none()
            && self.anomaly.is_none()
    }
}

/// A state that neither a lease nor a release ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anomaly {
    /// The lock has no time to live.
    Endless,
    /// The semaphore does not exist.
    Unset,
}

impl Lock {
    pub(super) fn new(name: LockName, kind: Kind, client: &ClientId) -> Self {
        let protocol = kind.protocol();
        Self {
            keys: protocol.has_keys().then(|| Box::new(protocol.keys(&name, client))),
            kind,
            name,
            refs: 0,
            held: 0,
            permits: 0,
            waiters: LazyWaiters(None),
            is_local: false,
            sibling: None,
            is_first: true,
            last_granted: None,
            other_listeners: OtherListeners::default(),
            own_wait_log: LogThrottle::default(),
            timer: None,
        }
    }

    pub(super) fn protocol(&self) -> &'static dyn KindProtocol {
        self.kind.protocol()
    }

    pub(super) fn wait_policy(&self) -> WaitPolicy {
        self.protocol().wait_policy()
    }

    pub(super) fn keys(&self) -> &Keys {
        self.keys.as_deref().unwrap_or(&NO_KEYS)
    }

    /// Its channel; `None` if its waiters poll.
    pub(super) fn channel(&self) -> Option<Bytes> {
        self.keys.as_ref().map_or_else(|| Some(self.name.channel()), |keys| keys.channel.clone())
    }

    /// Whether this is its channel. Unlike [`Lock::channel`], it does not allocate.
    pub(super) fn is_channel(&self, channel: &Bytes) -> bool {
        let is_named = || self.name.is_channel(channel);
        self.keys.as_ref().map_or_else(is_named, |keys| keys.channel.as_ref() == Some(channel))
    }

    /// Whether its waiters poll, because releases have no notice.
    pub(super) fn is_polled(&self) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.channel.is_none())
    }

    pub(super) fn line(&self) -> &Line {
        &self.waiters().line
    }

    pub(super) fn line_mut(&mut self) -> &mut Line {
        &mut self.waiters_mut().line
    }

    pub(super) fn invitations(&self) -> &Invitations {
        &self.waiters().invitations
    }

    pub(super) fn invitations_mut(&mut self) -> &mut Invitations {
        &mut self.waiters_mut().invitations
    }

    pub(super) fn heartbeat(&self) -> &HeartbeatState {
        &self.waiters().heartbeat
    }

    pub(super) fn heartbeat_mut(&mut self) -> &mut HeartbeatState {
        &mut self.waiters_mut().heartbeat
    }

    /// Takes a planned heartbeat that is due. Returns whether there was one.
    pub(super) fn take_due_heartbeat(&mut self, now: Instant) -> bool {
        let was_due = self.waiters.0.as_mut().is_some_and(|waiters| waiters.heartbeat.take_due(now));
        self.drop_waiters();
        was_due
    }

    /// A heartbeat was answered, perhaps after the last waiter has left. Returns whether another one is due at once.
    pub(super) fn note_heartbeat_answered(&mut self) -> bool {
        let again = self.waiters.0.as_mut().is_some_and(|waiters| waiters.heartbeat.answered());
        self.drop_waiters();
        again
    }

    pub(super) fn failures(&self) -> &Failures {
        &self.waiters().failures
    }

    pub(super) fn failures_mut(&mut self) -> &mut Failures {
        &mut self.waiters_mut().failures
    }

    pub(super) fn forget_failures(&mut self) {
        if let Some(waiters) = &mut self.waiters.0 {
            waiters.failures = Failures::default();
        }
    }

    /// Notices may be missing: the contender asks at `at` or before.
    pub(super) fn note_missed_notices(&mut self, at: Instant) {
        if let Some(waiters) = &mut self.waiters.0 {
            waiters.line.note_missed_notices(at);
        }
    }

    /// The server has confirmed the subscription. Returns whether it is the contender's turn now.
    #[must_use]
    pub(super) fn note_confirmed(&mut self) -> bool {
        self.waiters.0.as_mut().is_some_and(|waiters| waiters.line.note_confirmed())
    }

    /// Ends the line, and returns the box of its waiters if it is empty.
    fn end_line(&mut self) -> Option<Box<Waiters>> {
        let waiters = self.waiters.0.as_mut()?;
        waiters.line.end();
        waiters.failures = Failures::default();
        waiters.heartbeat.end();
        self.drop_waiters()
    }

    fn waiters(&self) -> &Waiters {
        self.waiters.0.as_deref().unwrap_or(&NO_WAITERS)
    }

    fn waiters_mut(&mut self) -> &mut Waiters {
        self.waiters_in(|| None)
    }

    /// The waiters, in a `spare` box if there were none.
    fn waiters_in(&mut self, spare: impl FnOnce() -> Option<Box<Waiters>>) -> &mut Waiters {
        self.waiters.0.get_or_insert_with(|| match spare() {
            Some(mut waiters) => {
                *waiters = Waiters::none();
                waiters
            }
            None => Box::new(Waiters::none()),
        })
    }

    fn drop_waiters(&mut self) -> Option<Box<Waiters>> {
        self.waiters.0.take_if(|waiters| waiters.is_none())
    }

    pub(super) const fn add_held(&mut self, permits: u64) {
        self.held += 1;
        self.permits += permits;
    }

    pub(super) const fn remove_held(&mut self, permits: u64) {
        self.held -= 1;
        self.permits -= permits;
    }

    /// Abandoned ungranted holds that the server may still have.
    pub(super) fn given_up(&self) -> impl Iterator<Item = HoldNumber> {
        self.waiters().given_up.iter().copied()
    }

    pub(super) fn has_given_up(&self) -> bool {
        !self.waiters().given_up.is_empty()
    }

    pub(super) fn note_given_up(&mut self, number: HoldNumber, is_given_up: bool) {
        if is_given_up {
            self.waiters_mut().given_up.insert(number);
        } else if self.has_given_up() {
            self.waiters_mut().given_up.remove(&number);
            self.drop_waiters();
        }
    }

    /// Whether the self-deadlock warning may be logged again.
    pub(super) fn may_alarm(&self, now: Instant, pause: Duration) -> bool {
        self.waiters().alarmed_at.is_none_or(|last| now.since(last) >= pause)
    }

    pub(super) fn note_alarm(&mut self, now: Instant) {
        self.waiters_mut().alarmed_at = Some(now);
    }

    /// Stores what an attempt found. Returns the anomaly to report to the waiter, which is reported once. A try reports nothing, so that
    /// the next waiter still gets the report.
    pub(super) fn note_anomaly(&mut self, found: Option<Anomaly>, waits: bool) -> Option<Anomaly> {
        let known = self.waiters().anomaly;
        let next = if waits { found } else { found.filter(|_| known == found) };
        if known != next {
            self.waiters_mut().anomaly = next;
            self.drop_waiters();
        }
        found.filter(|_| known != found && waits)
    }
}

/// The locks of a client. Locks of one name, such as the halves of a read-write lock, form a chain.
#[derive(Debug)]
pub(super) struct Locks {
    /// Boxed, so that spare capacity costs only pointers.
    table: Table<LockId, Box<Lock>>,
    /// The box of the last removed lock, for the next one.
    spare: Option<Box<Lock>>,
    /// The box of the last waiters, for the next line.
    spare_waiters: Option<Box<Waiters>>,
    /// The first lock of each name, by prefix and name.
    by_key: HashMap<Arc<str>, LockId>,
}

impl Locks {
    pub(super) fn new() -> Self {
        Self { table: Table::new(), spare: None, spare_waiters: None, by_key: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn contains(&self, lock: LockId) -> bool {
        self.table.contains(lock)
    }

    pub(super) fn get(&self, lock: LockId) -> Option<&Lock> {
        self.table.get(lock).map(|lock| &**lock)
    }

    pub(super) fn get_mut(&mut self, lock: LockId) -> Option<&mut Lock> {
        self.table.get_mut(lock).map(|lock| &mut **lock)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LockId, &Lock)> {
        self.table.iter().map(|(id, lock)| (id, &**lock))
    }

    pub(super) fn get_or_insert(&mut self, name: &LockName, kind: Kind, client: &ClientId) -> LockId {
        let first = self.by_key.get(name.shared()).copied();
        if let Some(known) = first.and_then(|first| self.of_kind(first, kind)) {
            return known;
        }
        let mut new = Lock::new(name.clone(), kind, client);
        new.sibling = first;
        if let Some(first) = first {
            self.table[first].is_first = false;
        }
        let boxed = match self.spare.take() {
            Some(mut spare) => {
                *spare = new;
                spare
            }
            None => Box::new(new),
        };
        let lock = self.table.insert(boxed);
        self.by_key.insert(name.shared().clone(), lock);
        lock
    }

    pub(super) fn begin_line(&mut self, lock: LockId, ticket: Ticket, until: Instant) {
        let spare = &mut self.spare_waiters;
        self.table[lock].waiters_in(|| spare.take()).line.begin(ticket, until);
    }

    pub(super) fn end_line(&mut self, lock: LockId) {
        if let Some(waiters) = self.table[lock].end_line() {
            self.spare_waiters = Some(waiters);
        }
    }

    pub(super) fn of_name(&self, name: &LockName) -> impl Iterator<Item = LockId> {
        self.chain(self.by_key.get(name.shared()).copied())
    }

    /// All locks of the same name, including the lock itself.
    pub(super) fn same_name(&self, lock: LockId) -> impl Iterator<Item = LockId> {
        self.chain(self.first(lock))
    }

    pub(super) fn sibling(&self, lock: LockId, kind: Kind) -> Option<LockId> {
        self.of_kind(self.first(lock)?, kind)
    }

    /// The first lock of the same name. Usually this is the lock itself, without a look-up.
    fn first(&self, lock: LockId) -> Option<LockId> {
        let state = &self.table[lock];
        if state.is_first { Some(lock) } else { self.by_key.get(state.name.shared()).copied() }
    }

    /// Drops a reference, and with the last one the lock's state.
    pub(super) fn unref(&mut self, lock: LockId, timers: &mut Timers) {
        let state = &mut self.table[lock];
        state.refs -= 1;
        if state.refs > 0 {
            return;
        }
        timers.set(Timer::Lock(lock), &mut state.timer, None);
        let state = self.table.remove(lock);
        match state.sibling {
            None if state.is_first => {
                self.by_key.remove(state.name.shared());
            }
            Some(sibling) if state.is_first => {
                self.table[sibling].is_first = true;
                self.by_key.insert(state.name.shared().clone(), sibling);
            }
            sibling => {
                let first = self.by_key.get(state.name.shared()).copied();
                let before = self.chain(first).find(|at| self.table[*at].sibling == Some(lock));
                if let Some(before) = before {
                    self.table[before].sibling = sibling;
                }
            }
        }
        self.spare = Some(state);
    }

    fn chain(&self, first: Option<LockId>) -> impl Iterator<Item = LockId> {
        std::iter::successors(first, |at| self.table[*at].sibling)
    }

    fn of_kind(&self, first: LockId, kind: Kind) -> Option<LockId> {
        self.chain(Some(first)).find(|at| self.table[*at].kind == kind)
    }
}

impl Index<LockId> for Locks {
    type Output = Lock;

    fn index(&self, lock: LockId) -> &Lock {
        &self.table[lock]
    }
}

impl IndexMut<LockId> for Locks {
    fn index_mut(&mut self, lock: LockId) -> &mut Lock {
        &mut self.table[lock]
    }
}

/// Limits a log line to one a second: tasks that hand a lock to each other wait all the time, and each event wakes the background.
///
/// It stores the second of the clock of the last line, counted from 1; 0 if there was none.
#[derive(Default)]
pub(super) struct LogThrottle(u32);

impl LogThrottle {
    /// Returns whether to log now.
    pub(super) fn note(&mut self, now: Instant) -> bool {
        let second = u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX).saturating_add(1);
        std::mem::replace(&mut self.0, second) != second
    }
}

/// Logged lines make no difference to the state.
impl fmt::Debug for LogThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogThrottle")
    }
}

/// The typed number of an entry of a [`Table`], so that no lock is looked up by the number of a channel.
pub(super) trait Id: Copy {
    fn new(number: usize) -> Self;
    fn number(self) -> usize;
}

/// A lock's number. It is reused once the lock's state is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LockId(u32);

/// A channel's number. It is reused once the subscription has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ChannelId(u32);

impl Id for LockId {
    fn new(number: usize) -> Self {
        Self(short(number))
    }

    fn number(self) -> usize {
        self.0 as usize
    }
}

impl Id for ChannelId {
    fn new(number: usize) -> Self {
        Self(short(number))
    }

    fn number(self) -> usize {
        self.0 as usize
    }
}

/// Ids have 32 bits, because many structs contain them. Memory runs out before them.
fn short(number: usize) -> u32 {
    debug_assert!(u32::try_from(number).is_ok(), "fewer than 2^32 entries");
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A table whose entries have ids of one type.
pub(super) struct Table<I, T> {
    entries: Slab<T>,
    ids: PhantomData<I>,
}

impl<I: Id, T> Table<I, T> {
    pub(super) const fn new() -> Self {
        Self { entries: Slab::new(), ids: PhantomData }
    }

    pub(super) fn insert(&mut self, entry: T) -> I {
        I::new(self.entries.insert(entry))
    }

    /// Panics without the entry.
    pub(super) fn remove(&mut self, id: I) -> T {
        self.entries.remove(id.number())
    }

    pub(super) fn contains(&self, id: I) -> bool {
        self.entries.contains(id.number())
    }

    pub(super) fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.number())
    }

    pub(super) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.entries.get_mut(id.number())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.entries.iter().map(|(number, entry)| (I::new(number), entry))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Prints the entries, which a slab's `Debug` omits unless it is alternate.
impl<I, T: fmt::Debug> fmt::Debug for Table<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.entries).finish()
    }
}

/// Panics without the entry.
impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.entries[id.number()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.entries[id.number()]
    }
}
