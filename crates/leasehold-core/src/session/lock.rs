//! The state that a client keeps about a lock that it holds, waits for or listens for.

use crate::command::{Keys, Kind, KindProtocol, WaitPolicy};
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber};
use crate::session::fair::HeartbeatState;
use crate::session::line::{Invitations, Line, Phase};
use crate::session::request::Failures;
use crate::session::{Session, Ticket, Timer, Timers};
use crate::time::Instant;
use bytes::Bytes;
use slab::Slab;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The state that the client keeps about a lock while it holds it, waits for it, or listens for it.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) name: LockName,
    pub(super) kind: Kind,
    /// `None` for a kind whose calls need no more than the name.
    keys: Option<Box<Keys>>,
    /// How many holds and requests refer to this.
    refs: u32,
    /// How many holds of this client are held.
    held: u32,
    /// How many permits these have together: one each, where it is no semaphore.
    pub(super) permits: u64,
    /// The requests that wait, and what concerns them alone. A lock that is held, and for which none waits, has no room for them: a client may
    /// hold a hundred thousand.
    waiters: Room,
    /// Every request takes the lock within this client first.
    pub(super) is_local: bool,
    /// Another lock with the same name: the other half of a read-write lock, or a lock of another kind.
    sibling: Option<LockId>,
    /// It is the first of its name.
    is_first: bool,
    /// The hold of this client that was granted last. It may have ended.
    pub(super) last_granted: Option<HoldNumber>,
    pub(super) rivals: Rivals,
    own_wait_told: Told,
    pub(super) timer: Option<Instant>,
}

/// The requests that wait for a lock, and what concerns them alone.
#[derive(Debug)]
struct Waiters {
    line: Line,
    /// The waiters that may ask beside the contender, if several may hold the lock.
    invitations: Invitations,
    failures: Failures,
    heartbeat: HeartbeatState,
    /// Holds that were given up before they were granted, and that the server may still have.
    given_up: BTreeSet<HoldNumber>,
    /// When it was last said that a task of this client may wait for itself.
    alarmed_at: Option<Instant>,
    /// The reason that a waiter was told why it waits in vain.
    anomaly: Option<Anomaly>,
}

/// The room that a lock has for waiters, once there was one.
struct Room(Option<Box<Waiters>>);

/// Whether there is room makes no difference to what a lock does.
impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_deref().unwrap_or(&NO_WAITERS).fmt(f)
    }
}

/// What a lock has for which no request waits.
static NO_WAITERS: Waiters = Waiters::none();

/// The keys of a kind whose calls need no more than the name.
static NO_KEYS: LazyLock<Keys> = LazyLock::new(|| Keys { keys: Box::default(), channel: None });

impl Waiters {
    /// No request waits, and none has left a trace.
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

    /// Whether there is nothing to be kept.
    fn is_none(&self) -> bool {
        self.line.is_empty()
            && self.line.phase == Phase::Idle
            && self.invitations.is_new()
            && !self.failures.has_any()
            && !self.heartbeat.goes_on()
            && self.given_up.is_empty()
            && self.alarmed_at.is_none()
            && self.anomaly.is_none()
    }
}

/// A state that no lease and no release of a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anomaly {
    /// The server has the lock without a time to live.
    Endless,
    /// There is no such semaphore.
    Unset,
}

/// What it is.
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
            waiters: Room(None),
            is_local: false,
            sibling: None,
            is_first: true,
            last_granted: None,
            rivals: Rivals::Possible,
            own_wait_told: Told::default(),
            timer: None,
        }
    }

    /// The protocol of its kind.
    pub(super) fn protocol(&self) -> &'static dyn KindProtocol {
        self.kind.protocol()
    }

    /// How its waiters stand to each other.
    pub(super) fn wait_policy(&self) -> WaitPolicy {
        self.protocol().wait_policy()
    }

    /// Its keys, where calls of its kind need more than the name.
    pub(super) fn keys(&self) -> &Keys {
        self.keys.as_deref().unwrap_or(&NO_KEYS)
    }

    /// Its channel; `None` if waiting is by polling.
    pub(super) fn channel(&self) -> Option<Bytes> {
        self.keys.as_ref().map_or_else(|| Some(self.name.channel()), |keys| keys.channel.clone())
    }

    /// Whether this is its channel, without making its name.
    pub(super) fn is_channel(&self, channel: &Bytes) -> bool {
        let is_named = || self.name.is_channel(channel);
        self.keys.as_ref().map_or_else(is_named, |keys| keys.channel.as_ref() == Some(channel))
    }

    /// Whether waiting is by polling: no notice tells of a release.
    pub(super) fn is_polled(&self) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.channel.is_none())
    }

    /// The requests that wait.
    pub(super) fn line(&self) -> &Line {
        &self.waiters().line
    }

    /// The same, to be changed.
    pub(super) fn line_mut(&mut self) -> &mut Line {
        &mut self.waiters_mut().line
    }

    /// The waiters that may ask beside the contender.
    pub(super) fn invitations(&self) -> &Invitations {
        &self.waiters().invitations
    }

    /// The same, to be changed.
    pub(super) fn invitations_mut(&mut self) -> &mut Invitations {
        &mut self.waiters_mut().invitations
    }

    /// The heartbeat of its waiters.
    pub(super) fn heartbeat(&self) -> &HeartbeatState {
        &self.waiters().heartbeat
    }

    /// The same, to be changed.
    pub(super) fn heartbeat_mut(&mut self) -> &mut HeartbeatState {
        &mut self.waiters_mut().heartbeat
    }

    /// Takes the plan of a heartbeat that is due now. Says whether there was one.
    pub(super) fn take_due_heartbeat(&mut self, now: Instant) -> bool {
        let was_due = self.waiters.0.as_mut().is_some_and(|waiters| waiters.heartbeat.take_due(now));
        self.drop_waiters();
        was_due
    }

    /// A heartbeat is answered, perhaps after the last waiter has gone. Says whether another is wanted at once.
    pub(super) fn note_heartbeat_answered(&mut self) -> bool {
        let again = self.waiters.0.as_mut().is_some_and(|waiters| waiters.heartbeat.answered());
        self.drop_waiters();
        again
    }

    /// The failures that its line has met.
    pub(super) fn failures(&self) -> &Failures {
        &self.waiters().failures
    }

    /// The same, to be changed.
    pub(super) fn failures_mut(&mut self) -> &mut Failures {
        &mut self.waiters_mut().failures
    }

    /// The server does its part.
    pub(super) fn forget_failures(&mut self) {
        if let Some(waiters) = &mut self.waiters.0 {
            waiters.failures = Failures::default();
        }
    }

    /// Notices may have been missed: the contender, if there is one, asks at `at` or before.
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

    /// No request waits any more. Returns the room for waiters, unless something is left of them.
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
        self.room(|| None)
    }

    /// The room for waiters, made of a spare one where there is none.
    fn room(&mut self, spare: impl FnOnce() -> Option<Box<Waiters>>) -> &mut Waiters {
        self.waiters.0.get_or_insert_with(|| match spare() {
            Some(mut room) => {
                *room = Waiters::none();
                room
            }
            None => Box::new(Waiters::none()),
        })
    }

    /// Gives the room for waiters back, unless something is left of them.
    fn drop_waiters(&mut self) -> Option<Box<Waiters>> {
        self.waiters.0.take_if(|waiters| waiters.is_none())
    }
}

/// What refers to it, and what the client holds of it.
impl Lock {
    /// One reference more.
    pub(super) const fn add_ref(&mut self) {
        self.refs += 1;
    }

    /// How many holds, requests and heartbeats refer to it.
    pub(super) const fn refs(&self) -> usize {
        self.refs as usize
    }

    /// One hold more is held, with these permits.
    pub(super) const fn add_held(&mut self, permits: u64) {
        self.held += 1;
        self.permits += permits;
    }

    /// One hold less is held.
    pub(super) const fn remove_held(&mut self, permits: u64) {
        self.held -= 1;
        self.permits -= permits;
    }

    /// How many holds of this client are held.
    pub(super) const fn held(&self) -> usize {
        self.held as usize
    }

    /// Whether this client holds it.
    pub(super) const fn is_held(&self) -> bool {
        self.held > 0
    }

    /// The holds that were given up before they were granted, and that the server may still have.
    pub(super) fn given_up(&self) -> impl Iterator<Item = HoldNumber> {
        self.waiters().given_up.iter().copied()
    }

    /// Whether there is such a hold.
    pub(super) fn has_given_up(&self) -> bool {
        !self.waiters().given_up.is_empty()
    }

    /// Notes whether a hold is one of these.
    pub(super) fn note_given_up(&mut self, number: HoldNumber, is_given_up: bool) {
        if is_given_up {
            self.waiters_mut().given_up.insert(number);
        } else if self.has_given_up() {
            self.waiters_mut().given_up.remove(&number);
            self.drop_waiters();
        }
    }

    /// A request waits for its own client. Says whether that is to be told.
    pub(super) fn note_own_wait(&mut self, now: Instant) -> bool {
        self.own_wait_told.note(now)
    }

    /// Whether it may be said again that a task of this client may wait for itself.
    pub(super) fn may_alarm(&self, now: Instant, pause: Duration) -> bool {
        self.waiters().alarmed_at.is_none_or(|last| now.since(last) >= pause)
    }

    /// It is said now.
    pub(super) fn note_alarm(&mut self, now: Instant) {
        self.waiters_mut().alarmed_at = Some(now);
    }

    /// Notes what an attempt found. Gives the anomaly that the waiter is to be told. A try waits for nothing, so that a waiter that finds the
    /// same is still to be told.
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

// ===== The table of locks =====
//
// The locks that a client has to do with, by name and kind.

/// The locks of a client. Those of one name, such as the two halves of a read-write lock, are chained.
#[derive(Debug)]
pub(super) struct Locks {
    /// Boxed, so that the room that the table has in reserve is that of pointers.
    table: Table<LockId, Box<Lock>>,
    /// The box of the lock that was removed last, for the next one.
    spare: Option<Box<Lock>>,
    /// The room for waiters that was given back last, for the next line.
    spare_room: Option<Box<Waiters>>,
    /// The first of each name, by prefix and name.
    by_key: HashMap<Arc<str>, LockId>,
}

impl Locks {
    /// No lock.
    pub(super) fn new() -> Self {
        Self { table: Table::new(), spare: None, spare_room: None, by_key: HashMap::new() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether a lock is still known.
    pub(super) fn contains(&self, lock: LockId) -> bool {
        self.table.contains(lock)
    }

    /// The state of a lock, if it is still known.
    pub(super) fn get(&self, lock: LockId) -> Option<&Lock> {
        self.table.get(lock).map(|lock| &**lock)
    }

    /// The state of a lock, to be changed, if it is still known.
    pub(super) fn get_mut(&mut self, lock: LockId) -> Option<&mut Lock> {
        self.table.get_mut(lock).map(|lock| &mut **lock)
    }

    /// All locks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LockId, &Lock)> {
        self.table.iter().map(|(id, lock)| (id, &**lock))
    }

    /// The state of a lock by name and kind, made where there is none.
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

    /// Begins the line of a lock with this request.
    pub(super) fn begin_line(&mut self, lock: LockId, ticket: Ticket, until: Instant) {
        let spare = &mut self.spare_room;
        self.table[lock].room(|| spare.take()).line.begin(ticket, until);
    }

    /// No request waits for a lock any more.
    pub(super) fn end_line(&mut self, lock: LockId) {
        if let Some(room) = self.table[lock].end_line() {
            self.spare_room = Some(room);
        }
    }

    /// All locks of a name.
    pub(super) fn of_name(&self, name: &LockName) -> impl Iterator<Item = LockId> {
        self.chain(self.by_key.get(name.shared()).copied())
    }

    /// All locks of the same name, the lock itself among them.
    pub(super) fn same_name(&self, lock: LockId) -> impl Iterator<Item = LockId> {
        self.chain(self.first(lock))
    }

    /// The lock of the same name that is of this kind, such as the other half of a read-write lock.
    pub(super) fn sibling(&self, lock: LockId, kind: Kind) -> Option<LockId> {
        self.of_kind(self.first(lock)?, kind)
    }

    /// The first lock of the same name. Nearly always it is the lock itself, and nothing is looked up.
    fn first(&self, lock: LockId) -> Option<LockId> {
        let state = &self.table[lock];
        if state.is_first { Some(lock) } else { self.by_key.get(state.name.shared()).copied() }
    }

    /// One reference less; the last one takes the lock's state with it.
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

// ===== Throttled log lines =====
//
// Something that is told of a lock again and again, and in one second once.

/// The second of the clock in which it was told last, counted from 1; 0 where it never was.
#[derive(Default)]
pub(super) struct Told(u32);

impl Told {
    /// There is something to be told. Says whether it is: tasks that hand a lock to each other wait all the time, and whatever is told wakes
    /// the background.
    pub(super) fn note(&mut self, now: Instant) -> bool {
        let second = u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX).saturating_add(1);
        std::mem::replace(&mut self.0, second) != second
    }
}

/// What was told makes no difference to what a lock does.
impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}

// ===== Other listeners =====
//
// Whether other clients want a lock.

/// After so many releases in a row for which no other client listens, others get a head start as if there were some: who polls does not listen.
const MOST_UNHEARD: u8 = 8;

/// The other clients that want a lock, as far as this one knows from its last releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rivals {
    /// There may be some.
    Possible,
    /// None listened at the last releases, which were so many in a row. One that came since then waits for no longer than this client keeps a
    /// lock among its tasks.
    None { releases: u8 },
}

impl Rivals {
    /// None listens at one more release.
    const fn unheard(self) -> Self {
        match self {
            Self::None { releases } if releases <= MOST_UNHEARD => Self::None { releases: releases + 1 },
            Self::None { .. } | Self::Possible => Self::None { releases: 1 },
        }
    }

    /// Whether others get the time to ask behind a hold that was handed on.
    pub(super) const fn get_a_head_start(self) -> bool {
        match self {
            Self::Possible => true,
            Self::None { releases } => releases > MOST_UNHEARD,
        }
    }
}

impl Lock {
    /// The last release told whether other clients listen.
    pub(super) const fn note_rivals(&mut self, others_listen: bool) {
        self.rivals = if others_listen { Rivals::Possible } else { self.rivals.unheard() };
    }
}

// ===== Ids =====
//
// Names of what a session keeps in tables, each of a type of its own, so that a lock is never looked up by the number of a channel.

/// The number of an entry of a [`Table`].
pub(super) trait Id: Copy {
    fn new(number: usize) -> Self;
    fn number(self) -> usize;
}

/// Names the state of a lock. It is used again once that state is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LockId(u32);

/// Names a channel. It is used again once there is no subscription to the channel.
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

/// Ids have 32 bits, because many things are named by them: memory ends before they do.
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

    /// Takes an entry out, which must be there.
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

/// Shows the entries, which the `Debug` of a slab leaves out unless it is alternate.
impl<I, T: fmt::Debug> fmt::Debug for Table<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.entries).finish()
    }
}

/// The entry must be there.
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

// ===== The gate of a local lock =====
//
// The lock within this client: whether a task of the client keeps the others from asking the server.
//
// The gate of a lock is shut while a task has it, if any request for it has chosen `Fallback::Local`.

impl Session {
    /// A task of this client has the lock, and every request for it falls back to the lock within this client: it waits here.
    pub(super) fn is_gated(&self, lock: LockId) -> bool {
        self.is_local(lock) && self.excluders(lock).any(|at| self.locks[at].is_held())
    }

    /// The locks whose holders keep a hold of this one out: itself, and the other half of a read-write lock. Readers keep no reader out.
    pub(super) fn excluders(&self, lock: LockId) -> impl Iterator<Item = LockId> {
        let (itself, other_half) = match self.locks[lock].kind {
            Kind::Read => (None, self.locks.sibling(lock, Kind::Write)),
            Kind::Write => (Some(lock), self.locks.sibling(lock, Kind::Read)),
            _ => (Some(lock), None),
        };
        itself.into_iter().chain(other_half)
    }

    /// Whether any request takes the lock, or the other half of it, within this client first.
    pub(super) fn is_local(&self, lock: LockId) -> bool {
        self.locks.same_name(lock).any(|at| self.locks[at].is_local)
    }
}
