//! The state that a client keeps about a lock that it holds, waits for or listens for.

use crate::command::{Keys, Kind, KindProtocol, WaitPolicy};
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber};
use crate::session::line::{LazyLine, Line};
use crate::session::request::Failures;
use crate::session::transfer::OtherListeners;
use crate::session::{Ticket, Timer, Timers};
use crate::time::Instant;
use bytes::Bytes;
use slab::Slab;
use std::collections::HashMap;
use std::fmt;
use std::ops::{Index, IndexMut};
use std::sync::{Arc, LazyLock};

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
    pub(super) line: LazyLine,
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

static NO_KEYS: LazyLock<Keys> = LazyLock::new(|| Keys { keys: Box::default(), channel: None });

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
            line: LazyLine::default(),
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

    pub(super) fn forget_failures(&mut self) {
        if let Some(line) = self.line.get_mut() {
            line.failures = Failures::default();
        }
    }

    pub(super) const fn add_held(&mut self, permits: u64) {
        self.held += 1;
        self.permits += permits;
    }

    pub(super) const fn remove_held(&mut self, permits: u64) {
        self.held -= 1;
        self.permits -= permits;
    }

    pub(super) fn note_given_up(&mut self, number: HoldNumber, is_given_up: bool) {
        if is_given_up {
            self.line.given_up.insert(number);
        } else if !self.line.given_up.is_empty() {
            self.line.given_up.remove(&number);
            self.line.shrink();
        }
    }

    /// Stores what an attempt found. Returns the anomaly to report to the waiter, which is reported once. A try reports nothing, so that
    /// the next waiter still gets the report.
    pub(super) fn note_anomaly(&mut self, found: Option<Anomaly>, waits: bool) -> Option<Anomaly> {
        let known = self.line.anomaly;
        let next = if waits { found } else { found.filter(|_| known == found) };
        if known != next {
            self.line.anomaly = next;
            self.line.shrink();
        }
        found.filter(|_| known != found && waits)
    }
}

/// The locks of a client. Locks of one name, such as the halves of a read-write lock, form a chain.
#[derive(Default)]
pub(super) struct Locks {
    /// Boxed, so that spare capacity costs only pointers.
    table: Slab<Box<Lock>>,
    /// The box of the last removed lock, for the next one.
    spare: Option<Box<Lock>>,
    /// The box of the last line, for the next one.
    spare_line: Option<Box<Line>>,
    /// The first lock of each name, by prefix and name.
    by_key: HashMap<Arc<str>, LockId>,
}

impl Locks {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn contains(&self, lock: LockId) -> bool {
        self.table.contains(lock.index())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LockId, &Lock)> {
        self.table.iter().map(|(index, lock)| (LockId::new(index), &**lock))
    }

    pub(super) fn get_or_insert(&mut self, name: &LockName, kind: Kind, client: &ClientId) -> LockId {
        let first = self.by_key.get(name.shared()).copied();
        if let Some(known) = first.and_then(|first| self.of_kind(first, kind)) {
            return known;
        }
        let mut new = Lock::new(name.clone(), kind, client);
        new.sibling = first;
        if let Some(first) = first {
            self[first].is_first = false;
        }
        let boxed = match self.spare.take() {
            Some(mut spare) => {
                *spare = new;
                spare
            }
            None => Box::new(new),
        };
        let lock = LockId::new(self.table.insert(boxed));
        self.by_key.insert(name.shared().clone(), lock);
        lock
    }

    pub(super) fn begin_line(&mut self, lock: LockId, ticket: Ticket, until: Instant) {
        let spare = self.spare_line.take();
        self.spare_line = self[lock].line.allocate(spare);
        self[lock].line.begin(ticket, until);
    }

    pub(super) fn end_line(&mut self, lock: LockId) {
        let line = &mut self[lock].line;
        if let Some(line) = line.get_mut() {
            line.end();
        }
        if let Some(spare) = line.shrink() {
            self.spare_line = Some(spare);
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
        let state = &self[lock];
        if state.is_first { Some(lock) } else { self.by_key.get(state.name.shared()).copied() }
    }

    /// Drops a reference, and with the last one the lock's state.
    pub(super) fn unref(&mut self, lock: LockId, timers: &mut Timers) {
        let state = &mut self[lock];
        state.refs -= 1;
        if state.refs > 0 {
            return;
        }
        timers.set(Timer::Lock(lock), &mut state.timer, None);
        let state = self.table.remove(lock.index());
        match state.sibling {
            None if state.is_first => {
                self.by_key.remove(state.name.shared());
            }
            Some(sibling) if state.is_first => {
                self[sibling].is_first = true;
                self.by_key.insert(state.name.shared().clone(), sibling);
            }
            sibling => {
                let first = self.by_key.get(state.name.shared()).copied();
                let before = self.chain(first).find(|at| self[*at].sibling == Some(lock));
                if let Some(before) = before {
                    self[before].sibling = sibling;
                }
            }
        }
        self.spare = Some(state);
    }

    fn chain(&self, first: Option<LockId>) -> impl Iterator<Item = LockId> {
        std::iter::successors(first, |at| self[*at].sibling)
    }

    fn of_kind(&self, first: LockId, kind: Kind) -> Option<LockId> {
        self.chain(Some(first)).find(|at| self[*at].kind == kind)
    }
}

impl Index<LockId> for Locks {
    type Output = Lock;

    fn index(&self, lock: LockId) -> &Lock {
        &self.table[lock.index()]
    }
}

impl IndexMut<LockId> for Locks {
    fn index_mut(&mut self, lock: LockId) -> &mut Lock {
        &mut self.table[lock.index()]
    }
}

/// The locks alone: the other fields do not change what the session does.
impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
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

/// A lock's number. It is reused once the lock's state is gone. It has 32 bits, because many structs contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LockId(u32);

impl LockId {
    pub(super) fn new(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok(), "fewer than 2^32 locks");
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}
