//! The waiters of a lock within this client, in their order.

use crate::number_map::NumberMap;
use crate::session::Ticket;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;
use std::fmt;

/// Requests that wait for a lock, the contender aside. A request stands in it at most once. Joining, leaving and finding the first take the
/// same time however many there are, because thousands of tasks may wait for one lock.
#[derive(Default)]
pub(crate) struct WaitQueue {
    /// The places in their order. One that a request has left is empty, and neither the first nor the last is.
    places: VecDeque<Option<Ticket>>,
    /// The position of the first place. The others follow it.
    first: i64,
    positions: NumberMap<Ticket, i64>,
}

/// How many empty places there may be beside as many as there are requests.
const SPARE: usize = 32;

impl WaitQueue {
    /// A queue in which no request waits.
    pub(crate) const fn new() -> Self {
        Self { places: VecDeque::new(), first: 0, positions: NumberMap::with_hasher(FxBuildHasher) }
    }

    /// Puts a request last, wherever it stood.
    pub(crate) fn push_back(&mut self, ticket: Ticket) {
        self.remove(ticket);
        self.positions.insert(ticket, self.first + offset(self.places.len()));
        self.places.push_back(Some(ticket));
    }

    /// Puts a request first, wherever it stood.
    pub(crate) fn push_front(&mut self, ticket: Ticket) {
        self.remove(ticket);
        self.first -= 1;
        self.positions.insert(ticket, self.first);
        self.places.push_front(Some(ticket));
    }

    /// Takes a request out, if it stands there.
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        let Some(position) = self.positions.remove(&ticket) else { return };
        let place = usize::try_from(position - self.first).ok().and_then(|index| self.places.get_mut(index));
        debug_assert!(place.as_deref() == Some(&Some(ticket)), "a request stands where it is said to stand");
        if let Some(place) = place {
            *place = None;
        }
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
        while let Some(None) = self.places.back() {
            self.places.pop_back();
        }
        if self.places.len() > 2 * self.positions.len() + SPARE {
            self.close_up();
        }
    }

    /// Leaves no place empty. It takes time, and is done once for as many requests as stand here.
    fn close_up(&mut self) {
        self.places.retain(Option::is_some);
        for (index, ticket) in self.places.iter().flatten().enumerate() {
            self.positions.insert(*ticket, self.first + offset(index));
        }
    }

    /// The requests, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.places.iter().flatten().copied()
    }

    pub(crate) fn contains(&self, ticket: Ticket) -> bool {
        self.positions.contains_key(&ticket)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }
}

/// The distance of a place from the first one.
fn offset(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
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
            assert!(queue.places.len() <= 2 * list.len() + SPARE, "few places are empty");
        }
    }

    #[test]
    fn places_behind_a_waiter_that_stays_do_not_pile_up() {
        let mut queue = WaitQueue::default();
        queue.push_back(Ticket::new(1));
        for number in 2..10_000 {
            queue.push_back(Ticket::new(number));
            queue.push_back(Ticket::new(number + 1));
            queue.remove(Ticket::new(number));
            assert!(queue.places.len() <= 2 * queue.len() + SPARE, "{} places", queue.places.len());
            assert!(queue.iter().eq([1, number + 1].map(Ticket::new)), "{queue:?}");
        }
    }
}
