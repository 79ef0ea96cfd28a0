//! Names of what a session keeps in tables, each of a type of its own, so that a lock is never looked up by the number of a channel.

use slab::Slab;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

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
