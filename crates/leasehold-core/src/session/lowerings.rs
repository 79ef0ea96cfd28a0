//! Which count the background lowers next, where it has as much under way as it may have.
//!
//! A program may drop a hundred thousand guards at once, of one lock or of as many locks. A guard that is dropped later does not wait for
//! all of them: locks take turns, and of those that have had none the newest and the oldest do.

use crate::owner::HoldNumber;
use crate::session::ids::LockId;
use crate::session::window::Window;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

/// How many lowerings the background has under way at most: the least and the greatest window. A server answers so many well within the command
/// timeout, and a hundred thousand guards that are dropped at once do not drown it. With a round trip of 100 ms the least window lets 640 through
/// in a second, and the greatest 10 000.
const WINDOW: RangeInclusive<usize> = 64..=1024;

/// Holds whose lowering waits for room.
#[derive(Debug)]
pub(super) struct ToLower {
    /// The holds of each lock, in the order in which they came.
    holds: HashMap<LockId, VecDeque<HoldNumber>>,
    /// Locks that have had no turn since they came, in that order.
    fresh: VecDeque<LockId>,
    /// The others, in the order of their turns.
    served: VecDeque<LockId>,
    turn: Turn,
    window: Window,
}

impl Default for ToLower {
    fn default() -> Self {
        Self {
            holds: HashMap::default(),
            fresh: VecDeque::new(),
            served: VecDeque::new(),
            turn: Turn::default(),
            window: Window::new(WINDOW),
        }
    }
}

/// The lock of which a hold is taken next.
#[derive(Clone, Copy, Debug, Default)]
enum Turn {
    /// The newest that has had no turn: a lock that comes late does not wait for those before it.
    #[default]
    Newest,
    /// The oldest that has had no turn: one that came early does not wait for those behind it.
    Oldest,
    /// The one whose turn is longest ago.
    Served,
}

impl Turn {
    const fn next(self) -> Self {
        match self {
            Self::Newest => Self::Oldest,
            Self::Oldest => Self::Served,
            Self::Served => Self::Newest,
        }
    }
}

impl ToLower {
    /// Whether another one may be sent while so many are under way.
    pub(super) const fn has_room(&self, under_way: usize) -> bool {
        self.window.has_room(under_way)
    }

    /// A lowering was answered after this time.
    pub(super) fn answered(&mut self, took: Duration) {
        if !self.holds.is_empty() {
            self.window.answered(took);
        }
    }

    /// A lowering was not answered.
    pub(super) const fn not_answered(&mut self) {
        self.window.not_answered();
    }

    pub(super) fn push(&mut self, lock: LockId, number: HoldNumber) {
        let holds = self.holds.entry(lock).or_default();
        if holds.is_empty() {
            self.fresh.push_back(lock);
        }
        holds.push_back(number);
    }

    pub(super) fn pop(&mut self) -> Option<HoldNumber> {
        let turn = self.turn;
        self.turn = turn.next();
        let (fresh, served) = (&mut self.fresh, &mut self.served);
        let lock = match turn {
            Turn::Newest => fresh.pop_back().or_else(|| served.pop_front()),
            Turn::Oldest => fresh.pop_front().or_else(|| served.pop_front()),
            Turn::Served => served.pop_front().or_else(|| fresh.pop_front()),
        }?;
        let holds = self.holds.get_mut(&lock)?;
        let number = holds.pop_front();
        if holds.is_empty() {
            self.holds.remove(&lock);
            if self.holds.is_empty() {
                self.window.begin_anew();
            }
        } else {
            self.served.push_back(lock);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ids::Id;

    fn lock(number: usize) -> LockId {
        LockId::new(number)
    }

    /// The lock of each hold is in its number: the place in the list.
    fn number(index: u64) -> HoldNumber {
        (0..index).fold(HoldNumber::FIRST, |number, _| number.next())
    }

    /// How many are taken before this one is.
    fn before(waiting: &mut ToLower, wanted: HoldNumber) -> usize {
        std::iter::from_fn(|| waiting.pop()).position(|taken| taken == wanted).expect("it is taken")
    }

    #[test]
    fn who_comes_late_does_not_wait_for_all_before() {
        for locks in [1, 1_000] {
            let mut waiting = ToLower::default();
            (0..1_000).for_each(|index| waiting.push(lock(index as usize % locks), number(index)));
            for _ in 0..5 {
                waiting.pop();
            }
            waiting.push(lock(locks), number(1_000));
            assert!(before(&mut waiting, number(1_000)) <= 2, "behind {locks}");
        }
    }

    #[test]
    fn who_came_early_does_not_wait_for_all_behind() {
        let mut waiting = ToLower::default();
        (0..10).for_each(|index| waiting.push(lock(index as usize), number(index)));
        // A new lock comes for each that is taken.
        let mut taken = Vec::new();
        for index in 10..100 {
            taken.extend(waiting.pop());
            waiting.push(lock(index as usize), number(index));
        }
        assert!((0..10).all(|index| taken.contains(&number(index))), "{taken:?}");
    }

    #[test]
    fn locks_take_turns_and_each_keeps_its_order() {
        let mut waiting = ToLower::default();
        (0..100).for_each(|index| waiting.push(lock(7), number(index)));
        (100..103).for_each(|index| waiting.push(lock(index as usize), number(index)));
        (103..106).for_each(|index| waiting.push(lock(103), number(index)));
        let taken: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(taken.len(), 106);
        let at = |index| taken.iter().position(|taken| *taken == number(index)).expect("it is taken");
        assert!((100..106).all(|index| at(index) < 20), "the small are not behind the great");
        assert!((1..100).all(|index| at(index - 1) < at(index)), "the order of one lock");
    }
}
