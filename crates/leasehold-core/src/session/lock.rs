//! The state that a client keeps about a lock that it holds, waits for or listens for.

use crate::command::{Keys, Kind, KindProtocol, WaitPolicy};
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber};
use crate::session::line::{LazyLine, Line, Phase};
use crate::session::request::Failures;
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
    /// The permits of the held holds, with one permit for each hold of another kind than a semaphore. 0 if no hold is held.
    pub(super) permits: u64,
    pub(super) line: LazyLine,
    /// Every request takes the lock within this client first.
    pub(super) is_local: bool,
    /// The next lock in the ring of its name, usually itself. Others are the other half of a read-write lock, and locks of another kind.
    next: LockId,
    /// The last granted hold of this client. It may have ended.
    pub(super) last_granted: Option<HoldNumber>,
    /// Number of consecutive releases without another listener; 0 if other clients may listen. A client that came after the last release
    /// waits for at most `HandOver::within`: the next release counts it.
    pub(super) unheard: u8,
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
        self.permits += permits;
    }

    pub(super) const fn remove_held(&mut self, permits: u64) {
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
}

/// The locks of a client.
#[derive(Default)]
pub(super) struct Locks {
    /// Boxed, so that spare capacity costs only pointers.
    table: Slab<Box<Lock>>,
    /// The box of the last removed lock, for the next one.
    spare: Option<Box<Lock>>,
    /// The box of the last line, for the next one.
    spare_line: Option<Box<Line>>,
    /// A lock of each name, by prefix and name.
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
        let of_name = self.by_key.get(name.shared()).copied();
        if let Some(known) = of_name.and_then(|lock| self.sibling(lock, kind)) {
            return known;
        }
        let lock = LockId::new(self.table.vacant_key());
        let protocol = kind.protocol();
        let new = Lock {
            keys: protocol.has_keys().then(|| Box::new(protocol.keys(name, client))),
            kind,
            name: name.clone(),
            refs: 0,
            permits: 0,
            line: LazyLine::default(),
            is_local: false,
            next: of_name.map_or(lock, |lock| self[lock].next),
            last_granted: None,
            unheard: 0,
            own_wait_log: LogThrottle::default(),
            timer: None,
        };
        let boxed = match self.spare.take() {
            Some(mut spare) => {
                *spare = new;
                spare
            }
            None => Box::new(new),
        };
        self.table.insert(boxed);
        match of_name {
            Some(of_name) => self[of_name].next = lock,
            None => drop(self.by_key.insert(name.shared().clone(), lock)),
        }
        lock
    }

    /// Makes a request the contender of an empty line, which has to poll before `until`.
    pub(super) fn begin_line(&mut self, lock: LockId, ticket: Ticket, until: Instant) {
        let line = &mut self.table[lock.index()].line;
        if line.0.is_none()
            && let Some(mut spare) = self.spare_line.take()
        {
            *spare = Line::default();
            line.0 = Some(spare);
        }
        debug_assert!(line.is_empty(), "a request is first in an empty line");
        line.contender = Some(ticket);
        line.phase = Phase::Ready(until);
    }

    pub(super) fn end_line(&mut self, lock: LockId) {
        let lazy = &mut self.table[lock.index()].line;
        if let Some(line) = lazy.get_mut() {
            debug_assert!(line.is_empty(), "no waiter is forgotten");
            line.phase = Phase::Idle;
            line.notice_came = false;
            line.failures = Failures::default();
            line.heartbeat_at = None;
        }
        self.spare_line = lazy.shrink().or_else(|| self.spare_line.take());
    }

    pub(super) fn of_name(&self, name: &LockName) -> impl Iterator<Item = LockId> {
        self.by_key.get(name.shared()).into_iter().flat_map(|lock| self.same_name(*lock))
    }

    /// All locks of the same name, beginning with the lock itself.
    pub(super) fn same_name(&self, lock: LockId) -> impl Iterator<Item = LockId> {
        std::iter::successors(Some(lock), move |at| Some(self[*at].next).filter(|next| *next != lock))
    }

    pub(super) fn sibling(&self, lock: LockId, kind: Kind) -> Option<LockId> {
        self.same_name(lock).find(|at| self[*at].kind == kind)
    }

    /// Drops a reference, and with the last one the lock's state.
    pub(super) fn unref(&mut self, lock: LockId, timers: &mut Timers) {
        let state = &mut self[lock];
        state.refs -= 1;
        if state.refs > 0 {
            return;
        }
        timers.set(Timer::Lock(lock), &mut state.timer, None);
        let before = self.same_name(lock).find(|at| self[*at].next == lock);
        let state = self.table.remove(lock.index());
        match before.filter(|before| *before != lock) {
            None => drop(self.by_key.remove(state.name.shared())),
            Some(before) => {
                self[before].next = state.next;
                self.by_key.insert(state.name.shared().clone(), before);
            }
        }
        self.spare = Some(state);
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
