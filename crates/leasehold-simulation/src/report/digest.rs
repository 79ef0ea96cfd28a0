//! The digest of histories: two versions of the code whose clients do the same in the same worlds have the same one.
//!
//! It covers what a client shows of itself: its calls with all their bytes, their order and instants, what it subscribes to, when it settles,
//! its events, and the outcomes that its callers see; and the replies and notices that it is given. Names within the code are
//! not part of it, so that renaming something changes no digest. Events and outcomes count by their place in their enumeration.

use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    /// Adds what happens next in one history.
    pub(crate) fn record(&mut self, what: impl Hash) {
        let mut hasher = FxHasher::default();
        (self.0, what).hash(&mut hasher);
        self.0 = hasher.finish();
    }

    /// Adds the digest of another history. The order of histories does not matter: they end in any.
    pub(crate) const fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: &[&str]) -> Digest {
        let mut digest = Digest::default();
        records.iter().for_each(|record| digest.record(record));
        digest
    }

    #[test]
    fn digest_tells_histories_apart_by_events_and_order() {
        let histories = [of(&[]), of(&["call"]), of(&["call", "reply"]), of(&["reply", "call"]), of(&["call", "call"])];
        for (number, one) in histories.iter().enumerate() {
            assert!(histories[..number].iter().all(|other| other != one), "{histories:?}");
        }
    }

    #[test]
    fn digest_does_not_depend_on_which_history_ends_first() {
        let (mut one, mut other) = (of(&["call"]), of(&["reply"]));
        let (first, second) = (one, other);
        one.add(second);
        other.add(first);
        assert_eq!(one, other);
    }
}
