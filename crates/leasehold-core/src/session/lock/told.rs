//! Something that is told of a lock again and again, and in one second once.

use crate::time::Instant;
use std::fmt;

/// The second of the clock in which it was told last, counted from 1; 0 where it never was.
#[derive(Default)]
pub(crate) struct Told(u32);

impl Told {
    /// There is something to be told. Says whether it is: tasks that hand a lock to each other wait all the time, and whatever is told wakes
    /// the background.
    pub(crate) fn note(&mut self, now: Instant) -> bool {
        let second = u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX).saturating_add(1);
        std::mem::replace(&mut self.0, second) != second
    }
}

/// What was told makes no difference to what a lock does.
impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}
