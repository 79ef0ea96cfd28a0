//! A cache of keys that are not locks. Scans skip these keys instead of inspecting all keys of an application.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Minimum time for which scans skip a name.
const LEFT_OUT: Duration = Duration::from_secs(30);

/// Maximum additional time in milliseconds, which spreads the expiry of the entries.
const SPREAD: u64 = 30_000;

/// Maximum number of names, about 40 MB.
const MOST: usize = 1_000_000;

/// The names, shared by all scans. Stores hashes; a collision hides a lock until the entry expires.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    until: Arc<Mutex<HashMap<u64, Instant>>>,
    hasher: RandomState,
}

impl Foreign {
    /// Adds a name that is not a lock.
    pub(crate) fn add(&self, name: &str, now: Instant) {
        let mut until = self.until();
        if until.len() >= MOST {
            until.retain(|_, until| *until > now);
            if until.len() >= MOST {
                return;
            }
        }
        let number = self.hasher.hash_one(name);
        until.insert(number, now + LEFT_OUT + Duration::from_millis(number % SPREAD));
    }

    /// Returns whether scans can skip the name.
    pub(crate) fn has(&self, name: &str, now: Instant) -> bool {
        self.until().get(&self.hasher.hash_one(name)).is_some_and(|until| now < *until)
    }

    fn until(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_no_lock_is_left_out_for_a_while() {
        let (foreign, now) = (Foreign::default(), Instant::now());
        foreign.add("cache:1", now);
        assert!(foreign.has("cache:1", now + LEFT_OUT) && !foreign.has("stock:1", now));
        assert!(!foreign.clone().has("cache:1", now + 2 * LEFT_OUT), "the entry has expired");
    }
}
