//! The waiters of a lock within this client, in their order.

use crate::number_map::NumberMap;
use crate::session::Ticket;
use rustc_hash::FxBuildHasher;
use std::collections::BTreeMap;
use std::fmt;

/// Requests that wait for a lock, the contender aside. A request stands in it at most once. Joining, leaving and finding the first take a
/// time that grows with the logarithm of how many there are, because thousands of tasks may wait for one lock.
#[derive(Default)]
pub(crate) struct WaitQueue {
    by_position: BTreeMap<i64, Ticket>,
    positions: NumberMap<Ticket, i64>,
}

impl WaitQueue {
    /// A queue in which no request waits.
    pub(crate) const fn new() -> Self {
        Self { by_position: BTreeMap::new(), positions: NumberMap::with_hasher(FxBuildHasher) }
    }

    /// Puts a request last, wherever it stood.
    pub(crate) fn push_back(&mut self, ticket: Ticket) {
        self.remove(ticket);
        let position = self.by_position.last_key_value().map_or(0, |(last, _)| last + 1);
        self.insert(position, ticket);
    }

    /// Puts a request first, wherever it stood.
    pub(crate) fn push_front(&mut self, ticket: Ticket) {
        self.remove(ticket);
        let position = self.by_position.first_key_value().map_or(0, |(first, _)| first - 1);
        self.insert(position, ticket);
    }

    /// Takes a request out, if it stands there.
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        if let Some(position) = self.positions.remove(&ticket) {
            self.by_position.remove(&position);
        }
    }

    /// The requests, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.by_position.values().copied()
    }

    pub(crate) fn contains(&self, ticket: Ticket) -> bool {
        self.positions.contains_key(&ticket)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_position.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_position.len()
    }

    fn insert(&mut self, position: i64, ticket: Ticket) {
        self.by_position.insert(position, ticket);
        self.positions.insert(ticket, position);
    }
}

/// The requests in their order: positions mean nothing by themselves, and two queues with the same requests are the same.
impl fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_behaves_as_a_list_without_repetitions() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut queue, mut list) = (WaitQueue::default(), Vec::new());
        for _ in 0..10_000 {
            let ticket = Ticket::new(rng.u64(1..13));
            list.retain(|other| *other != ticket);
            match rng.u8(..3) {
                0 => {
                    queue.push_back(ticket);
                    list.push(ticket);
                }
                1 => {
                    queue.push_front(ticket);
                    list.insert(0, ticket);
                }
                _ => queue.remove(ticket),
            }
            assert!(queue.iter().eq(list.iter().copied()), "{queue:?} is not {list:?}");
            assert_eq!((queue.len(), queue.is_empty()), (list.len(), list.is_empty()));
            assert_eq!(queue.positions.len(), list.len(), "nothing is kept of a request that has left");
        }
    }
}
