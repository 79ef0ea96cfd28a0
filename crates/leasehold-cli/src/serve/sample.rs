//! The results of the scans, shared by all browsers.

use crate::overview::Picture;

/// The locks of the last scan, and the number of scans.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) picture: Picture,
    pub(super) done: u64,
    pub(super) failed: u64,
}

impl Sample {
    /// Returns the number of finished scans.
    pub(super) const fn ended(&self) -> u64 {
        self.done + self.failed
    }
}
