//! The set of known states, stored as hashes.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Number of sets. Sets grow one at a time, so growth never doubles the total memory.
const SETS: usize = 1 << 12;

/// Hashes of reached states, with 76 bits each. A collision among 300 million states has a probability of one in a
/// million.
pub(crate) struct Known(Vec<HashSet<u64, BuildHasherDefault<AsItIs>>>);

impl Known {
    pub(crate) fn new() -> Self {
        Self((0..SETS).map(|_| HashSet::default()).collect())
    }

    /// Inserts a state. Returns whether the state is new.
    pub(crate) fn insert(&mut self, hash: u128) -> bool {
        self.0[(hash >> 64) as usize % SETS].insert(hash as u64)
    }
}

/// Passes hashes through, because the elements are hashes.
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
