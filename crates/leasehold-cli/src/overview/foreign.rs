//! The names at which no lock was found, so that not every look asks for all keys of an application again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a name is left out at the least. One that an application uses may become that of a lock, if rarely.
const LEFT_OUT: Duration = Duration::from_secs(30);

/// The further time of some names, so that not all of them are asked for again at once.
const SPREAD: u64 = 30_000;

/// How many names are remembered at the most. It takes some forty megabytes.
const MOST: usize = 1_000_000;

/// The names, which all looks share. Each is one number: two that have the same one are left out together, which the next half minute mends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    until: Arc<Mutex<HashMap<u64, Instant>>>,
    hasher: RandomState,
}

impl Foreign {
    /// A look has found that no lock stands under this name.
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

    /// Whether the name can be left out.
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
        assert!(!foreign.clone().has("cache:1", now + 2 * LEFT_OUT), "it is asked for again");
    }
}
