//! The locks that a client has to do with, by name and kind.

use crate::command::Kind;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::session::ids::{LockId, Table};
use crate::session::lock::Lock;
use crate::session::timers::{Timer, Timers};
use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// The locks of a client. Those of one name, such as the two halves of a read-write lock, are chained.
#[derive(Debug)]
pub(crate) struct Locks {
    /// Boxed, so that the room that the table has in reserve is that of pointers.
    table: Table<LockId, Box<Lock>>,
    /// The first of each name, by prefix and name.
    by_key: HashMap<Arc<str>, LockId>,
}

impl Locks {
    /// No lock.
    pub(crate) fn new() -> Self {
        Self { table: Table::new(), by_key: HashMap::new() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether a lock is still known.
    pub(crate) fn contains(&self, lock: LockId) -> bool {
        self.table.contains(lock)
    }

    /// The state of a lock, if it is still known.
    pub(crate) fn get(&self, lock: LockId) -> Option<&Lock> {
        self.table.get(lock).map(|lock| &**lock)
    }

    /// The state of a lock, to be changed, if it is still known.
    pub(crate) fn get_mut(&mut self, lock: LockId) -> Option<&mut Lock> {
        self.table.get_mut(lock).map(|lock| &mut **lock)
    }

    /// All locks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LockId, &Lock)> {
        self.table.iter().map(|(id, lock)| (id, &**lock))
    }

    /// The state of a lock by name and kind, made where there is none.
    pub(crate) fn get_or_insert(&mut self, name: &LockName, kind: Kind, client: &ClientId) -> LockId {
        let first = self.by_key.get(name.shared()).copied();
        if let Some(known) = first.and_then(|first| self.of_kind(first, kind)) {
            return known;
        }
        let mut new = Lock::new(name.clone(), kind, client);
        new.sibling = first;
        if let Some(first) = first {
            self.table[first].is_first = false;
        }
        let lock = self.table.insert(Box::new(new));
        self.by_key.insert(name.shared().clone(), lock);
        lock
    }

    /// All locks of a name.
    pub(crate) fn of_name(&self, name: &LockName) -> impl Iterator<Item = LockId> {
        self.chain(self.by_key.get(name.shared()).copied())
    }

    /// All locks of the same name, the lock itself among them.
    pub(crate) fn same_name(&self, lock: LockId) -> impl Iterator<Item = LockId> {
        self.chain(self.first(lock))
    }

    /// The lock of the same name that is of this kind, such as the other half of a read-write lock.
    pub(crate) fn sibling(&self, lock: LockId, kind: Kind) -> Option<LockId> {
        self.of_kind(self.first(lock)?, kind)
    }

    /// The first lock of the same name. Nearly always it is the lock itself, and nothing is looked up.
    fn first(&self, lock: LockId) -> Option<LockId> {
        let state = &self.table[lock];
        if state.is_first { Some(lock) } else { self.by_key.get(state.name.shared()).copied() }
    }

    /// One reference less; the last one takes the lock's state with it.
    pub(crate) fn unref(&mut self, lock: LockId, timers: &mut Timers) {
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
