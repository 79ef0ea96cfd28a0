//! Which states are known, by their hashes.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// How many sets there are. They grow one by one, so that a large one is never in memory twice.
const SETS: usize = 1 << 12;

/// Hashes of the states that were met. Each counts by 76 bits: that two of 300 million have the same is one chance in a million.
pub(crate) struct Known(Vec<HashSet<u64, BuildHasherDefault<AsItIs>>>);

impl Known {
    pub(crate) fn new() -> Self {
        Self((0..SETS).map(|_| HashSet::default()).collect())
    }

    /// Notes a state, and says whether it was not known.
    pub(crate) fn insert(&mut self, hash: u128) -> bool {
        self.0[(hash >> 64) as usize % SETS].insert(hash as u64)
    }
}

/// The members of a set are hashes already.
#[derive(Default)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
