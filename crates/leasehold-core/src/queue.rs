//! A priority queue of numbered entries, each of which can be removed.

use crate::number_map::NumberMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;

/// Entries in ascending order. A key has at most one entry.
///
/// Every acquire adds a timer, and its release removes the timer. A removed entry stays in the heap until it is the
/// lowest, or until most of the heap is removed.
#[derive(Debug)]
pub(crate) struct Queue<P, K> {
    /// The lowest entry is not removed.
    heap: BinaryHeap<Reverse<(P, K)>>,
    /// The entries that are not removed.
    present: NumberMap<K, P>,
}

/// Number of removed entries that a small heap may keep.
const SPARE: usize = 64;

impl<P: Ord, K: Ord> Default for Queue<P, K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), present: NumberMap::default() }
    }
}

impl<P: Copy + Ord, K: Copy + Ord + Hash> Queue<P, K> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    /// The lowest entry.
    pub(crate) fn first(&self) -> Option<(P, K)> {
        self.heap.peek().map(|Reverse(entry)| *entry)
    }

    /// Adds an entry. The key must have no entry.
    pub(crate) fn insert(&mut self, priority: P, key: K) {
        let earlier = self.present.insert(key, priority);
        debug_assert!(earlier.is_none(), "a key has at most one entry");
        self.heap.push(Reverse((priority, key)));
    }

    /// Removes the entry of a key, if any.
    pub(crate) fn remove(&mut self, key: K) {
        if self.present.remove(&key).is_none() {
            return;
        }
        let is_present = |Reverse((priority, key)): &Reverse<(P, K)>| self.present.get(key) == Some(priority);
        if self.heap.len() > 2 * self.present.len() + SPARE {
            self.heap.retain(is_present);
        }
        while self.heap.peek().is_some_and(|lowest| !is_present(lowest)) {
            self.heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn queue_has_the_order_of_a_sorted_set() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut queue, mut set) = (Queue::default(), BTreeSet::new());
            for _ in 0..400 {
                let key = rng.u8(..40);
                match set.iter().find(|(_, other)| *other == key).copied() {
                    Some(entry) => {
                        set.remove(&entry);
                        queue.remove(key);
                    }
                    None => {
                        let priority = rng.u8(..9);
                        set.insert((priority, key));
                        queue.insert(priority, key);
                    }
                }
                assert_eq!(queue.first(), set.first().copied());
                assert_eq!(queue.len(), set.len());
            }
            while let Some(entry) = set.pop_first() {
                assert_eq!(queue.first(), Some(entry));
                queue.remove(entry.1);
            }
            assert_eq!(queue.first(), None);
        }
    }

    #[test]
    fn key_without_an_entry_can_be_removed() {
        let mut queue = Queue::default();
        queue.insert(1, 'a');
        queue.remove('b');
        assert_eq!(queue.first(), Some((1, 'a')));
    }
}
