//! The deadlines of the calls in flight.
//!
//! An answered call leaves the queue at the front, because removal from the middle costs more than the memory.

use crate::session::CallId;
use crate::time::Instant;
use std::collections::VecDeque;

/// Minimum number of entries before [`Unanswered::push`] drops answered calls.
const COMPACT: usize = 1_024;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    by_deadline: VecDeque<(Instant, CallId)>,
    compact_at: usize,
}

impl Unanswered {
    /// Adds a call with the deadline `until`. `is_open` returns whether a call is in flight.
    pub(super) fn push(&mut self, until: Instant, id: CallId, is_open: impl Fn(CallId) -> bool) {
        if self.by_deadline.len() >= self.compact_at {
            self.by_deadline.retain(|(_, id)| is_open(*id));
            self.compact_at = (2 * self.by_deadline.len()).max(COMPACT);
        }
        let at = match self.by_deadline.back() {
            Some((last, _)) if *last > until => self.by_deadline.partition_point(|(other, _)| *other <= until),
            _ => self.by_deadline.len(),
        };
        self.by_deadline.insert(at, (until, id));
    }

    /// Drops answered calls at the front of the queue.
    pub(super) fn answered(&mut self, is_open: impl Fn(CallId) -> bool) {
        while self.by_deadline.front().is_some_and(|(_, id)| !is_open(*id)) {
            self.by_deadline.pop_front();
        }
    }

    /// Removes the next call that is due, even if answered.
    pub(super) fn pop(&mut self, now: Instant) -> Option<CallId> {
        let is_due = self.by_deadline.front().is_some_and(|(until, _)| *until <= now);
        if is_due { self.by_deadline.pop_front().map(|(_, id)| id) } else { None }
    }

    /// The next deadline.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.by_deadline.front().map(|(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn calls_are_due_in_the_order_of_their_time() {
        let mut unanswered = Unanswered::default();
        let at = |millis| NOW + Duration::from_millis(millis);
        for (id, millis) in [(1, 10), (2, 30), (3, 20), (4, 30)] {
            unanswered.push(at(millis), CallId(id), |_| true);
        }
        assert_eq!((unanswered.next_timeout(), unanswered.pop(at(9))), (Some(at(10)), None));
        let due: Vec<_> = std::iter::from_fn(|| unanswered.pop(at(30))).collect();
        assert_eq!(due, [1, 3, 2, 4].map(CallId));
    }

    #[test]
    fn answered_calls_take_no_room_for_long() {
        let mut unanswered = Unanswered::default();
        for id in 0..100_000 {
            unanswered.push(NOW, CallId(id), |id| id == CallId(7));
        }
        assert!(unanswered.by_deadline.len() <= COMPACT, "{}", unanswered.by_deadline.len());
        assert_eq!(unanswered.by_deadline.front(), Some(&(NOW, CallId(7))));
    }
}
