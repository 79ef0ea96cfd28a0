//! The results of the looks, shared by all browsers.

use crate::overview::Picture;

/// The locks as the last look has found them, and how many looks there were.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) picture: Picture,
    pub(super) done: u64,
    pub(super) failed: u64,
}

impl Sample {
    /// The number of completed looks.
    pub(super) const fn ended(&self) -> u64 {
        self.done + self.failed
    }
}
