//! Locks whose channel stays subscribed from one hold of this client to the next. A hold may linger only if its client
//! was subscribed to requests before the acquire.

use crate::session::ids::LockId;
use crate::session::timers::{Timer, Timers};
use crate::time::Instant;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a subscription outlives the last hold.
const AFTER: Duration = Duration::from_secs(2);

/// Maximum number of locks. Holds of further locks do not linger.
const AT_MOST: usize = 1_024;

/// See the [module](self). Each lock has its timer.
#[derive(Debug, Default)]
pub(super) struct Listening(BTreeMap<LockId, Option<Instant>>);

/// The result of [`Listening::keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lock that is new among these is referred to once more"]
pub(super) enum Kept {
    New,
    Longer,
    /// The maximum is reached.
    Not,
}

impl Listening {
    /// Starts to keep the subscription of a lock.
    pub(super) fn keep(&mut self, now: Instant, lock: LockId, timers: &mut Timers) -> Kept {
        let known = self.contains(lock);
        if !known && self.0.len() >= AT_MOST {
            return Kept::Not;
        }
        timers.set(Timer::Listening(lock), self.0.entry(lock).or_default(), Some(now + AFTER));
        if known { Kept::Longer } else { Kept::New }
    }

    /// Stops keeping the subscription of a lock. Returns whether it was kept.
    pub(super) fn end(&mut self, lock: LockId, timers: &mut Timers) -> bool {
        let slot = self.0.remove(&lock);
        slot.is_some_and(|mut slot| {
            timers.set(Timer::Listening(lock), &mut slot, None);
            true
        })
    }

    pub(super) fn contains(&self, lock: LockId) -> bool {
        self.0.contains_key(&lock)
    }

    /// The locks, each of which has a timer.
    pub(super) fn locks(&self) -> impl Iterator<Item = LockId> {
        self.0.keys().copied()
    }
}
