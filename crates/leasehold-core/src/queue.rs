//! A priority queue of numbered entries, each of which can be removed.
//!
//! Every acquire adds a timer, and its release removes the timer. A tree of all timers would split and merge its nodes for that, which
//! allocates. This is a binary heap with the position of each entry (Sedgewick and Wayne, Algorithms, 4th edition, section 2.4).

use crate::number_map::NumberMap;
use std::hash::Hash;

/// Entries in ascending order. A key has at most one entry.
#[derive(Debug)]
pub(crate) struct Queue<P, K> {
    /// No entry is lower than its parent, which is at half of its position.
    heap: Vec<(P, K)>,
    positions: NumberMap<K, u32>,
}

impl<P, K> Default for Queue<P, K> {
    fn default() -> Self {
        Self { heap: Vec::new(), positions: NumberMap::default() }
    }
}

impl<P: Copy + Ord, K: Copy + Ord + Hash> Queue<P, K> {
    /// Number of entries.
    pub(crate) const fn len(&self) -> usize {
        self.heap.len()
    }

    /// The lowest entry.
    pub(crate) fn first(&self) -> Option<(P, K)> {
        self.heap.first().copied()
    }

    /// Adds an entry. The key has none.
    pub(crate) fn insert(&mut self, priority: P, key: K) {
        debug_assert!(!self.positions.contains_key(&key), "a key has at most one entry");
        self.heap.push((priority, key));
        self.raise(self.heap.len() - 1);
    }

    /// Removes the entry of a key, if there is one.
    pub(crate) fn remove(&mut self, key: K) {
        let Some(position) = self.positions.remove(&key) else { return };
        let position = position as usize;
        self.heap.swap_remove(position);
        if position < self.heap.len() {
            self.lower(position);
            self.raise(position);
        }
    }

    /// Moves an entry towards the start, and records the positions of all moved entries.
    fn raise(&mut self, mut position: usize) {
        while position > 0 && self.heap[position] < self.heap[(position - 1) / 2] {
            self.swap(position, (position - 1) / 2);
            position = (position - 1) / 2;
        }
        self.note(position);
    }

    /// Moves an entry towards the end, and records the positions of all moved entries.
    fn lower(&mut self, mut position: usize) {
        loop {
            let children = 2 * position + 1..self.heap.len().min(2 * position + 3);
            let Some(child) = children.min_by_key(|child| self.heap[*child]) else { break };
            if self.heap[position] < self.heap[child] {
                break;
            }
            self.swap(position, child);
            position = child;
        }
        self.note(position);
    }

    fn swap(&mut self, from: usize, to: usize) {
        self.heap.swap(from, to);
        self.note(from);
    }

    fn note(&mut self, position: usize) {
        let number = u32::try_from(position).expect("fewer than four billion entries");
        self.positions.insert(self.heap[position].1, number);
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
