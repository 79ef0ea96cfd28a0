//! Maps whose keys are numbers that the session itself gives out.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers that count up: nobody outside chooses them, so that no attack has to be feared and a multiplication will do.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// See [`NumberMap`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio spreads consecutive numbers; the map looks at the highest and the lowest bits.
        let spread = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn consecutive_numbers_meet_in_few_places() {
        let hasher = BuildHasherDefault::<NumberHasher>::default();
        let places: HashSet<u64> = (0..4_096u64).map(|number| hasher.hash_one(number) & 4_095).collect();
        let tags: HashSet<u64> = (0..4_096u64).map(|number| hasher.hash_one(number) >> 57).collect();
        assert!(places.len() > 2_400, "{}", places.len());
        assert_eq!(tags.len(), 128);
    }
}
