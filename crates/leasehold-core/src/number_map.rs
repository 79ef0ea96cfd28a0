//! Maps with keys that the session assigns.

use std::hash::Hash;
use std::ops::{Index, IndexMut};

/// A map with ascending numbers as keys. The session assigns the keys, so a fast hash without collision protection is
/// enough.
pub(crate) type NumberMap<K, V> = rustc_hash::FxHashMap<K, V>;

/// A [`NumberMap`] of large values. Each value is boxed, so spare capacity of the table costs pointers only.
///
/// The map reuses a few boxes of removed values: most calls remove a value and insert another.
#[derive(Debug)]
pub(crate) struct BoxMap<K, V> {
    /// No box in the table is empty.
    table: NumberMap<K, Box<Option<V>>>,
    /// Empty boxes.
    spare: Vec<Box<Option<V>>>,
}

/// Maximum number of empty boxes.
const SPARE: usize = 16;

impl<K, V> Default for BoxMap<K, V> {
    fn default() -> Self {
        Self { table: NumberMap::default(), spare: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash, V> BoxMap<K, V> {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether the map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns whether a key has a value.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.table.contains_key(&key)
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let mut boxed = self.spare.pop().unwrap_or_default();
        *boxed = Some(value);
        self.table.insert(key, boxed);
    }

    /// Moves a value to another key.
    pub(crate) fn rename(&mut self, from: K, to: K) -> Option<&mut V> {
        let boxed = self.table.remove(&from)?;
        self.table.entry(to).insert_entry(boxed).into_mut().as_mut().as_mut()
    }

    /// Removes a value.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let mut boxed = self.table.remove(&key)?;
        let value = boxed.take();
        if self.spare.len() < SPARE {
            self.spare.push(boxed);
        }
        value
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.table.get(&key)?.as_ref().as_ref()
    }

    /// The value of a key, mutably.
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.table.get_mut(&key)?.as_mut().as_mut()
    }

    /// All values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.table.iter().filter_map(|(key, boxed)| Some((*key, boxed.as_ref().as_ref()?)))
    }

    /// All values, mutably, in no order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.table.values_mut().filter_map(|boxed| boxed.as_mut().as_mut())
    }
}

/// Panics if the key has no value.
impl<K: Copy + Eq + Hash, V> Index<K> for BoxMap<K, V> {
    type Output = V;

    #[track_caller]
    fn index(&self, key: K) -> &V {
        self.get(key).expect("a key that the session still uses has a value")
    }
}

impl<K: Copy + Eq + Hash, V> IndexMut<K> for BoxMap<K, V> {
    #[track_caller]
    fn index_mut(&mut self, key: K) -> &mut V {
        self.get_mut(key).expect("a key that the session still uses has a value")
    }
}
