//! The events to come in a world, in the order in which they happen.

use leasehold_core::time::Instant;
use std::collections::BTreeMap;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    pub(crate) queue: BTreeMap<(Instant, u64), E>,
    pub(crate) next_number: u64,
    /// How many steps there were at the present instant.
    standing: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { queue: BTreeMap::new(), next_number: 0, standing: 0 }
    }
}

impl<E> EventQueue<E> {
    /// A number that is given to nothing else in the world.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn add(&mut self, at: Instant, event: E) {
        let number = self.number();
        self.queue.insert((at, number), event);
    }

    /// An event that was taken happens later, before all that is added from now on.
    pub(crate) fn put_off(&mut self, until: Instant, number: u64, event: E) {
        self.queue.insert((until, number), event);
    }

    /// Events of a sort that were to happen before then happen then, in the same order.
    pub(crate) fn put_off_all(&mut self, until: Instant, is_one: impl Fn(&E) -> bool) {
        let early = self.queue.iter().filter(|((at, _), event)| *at < until && is_one(event));
        for key in early.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(event) = self.queue.remove(&key) {
                self.queue.insert((until, key.1), event);
            }
        }
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next event, with its number, if it is due by now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(u64, E)> {
        self.next_at().filter(|at| *at <= now)?;
        self.queue.pop_first().map(|((_, number), event)| (number, event))
    }

    /// The world takes a step, at the same instant as the last one or later.
    pub(crate) fn count_step(&mut self, at_the_same_instant: bool) {
        self.standing = if at_the_same_instant { self.standing + 1 } else { 0 };
        assert!(self.standing < 100_000, "the world stands still");
    }
}
