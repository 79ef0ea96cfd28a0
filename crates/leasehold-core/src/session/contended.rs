//! Locks that other clients have wanted lately. Holds of these do not linger, and have no mark in their names: it would only bring messages.

use crate::time::Instant;
use bytes::Bytes;
use std::collections::HashMap;
use std::time::Duration;

/// How long that is remembered.
const LATELY: Duration = Duration::from_secs(1);

/// How many locks are remembered at most. More than these are forgotten together, which costs a few messages.
const AT_MOST: usize = 1_024;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Contended(HashMap<Bytes, Instant>);

impl Contended {
    /// Another client wants a lock, or has it.
    pub(super) fn note(&mut self, now: Instant, key: &[u8]) {
        if self.0.len() >= AT_MOST {
            self.0.retain(|_, at| now.since(*at) < LATELY);
        }
        if self.0.len() >= AT_MOST {
            self.0.clear();
        }
        self.0.insert(Bytes::copy_from_slice(key), now);
    }

    /// Whether another client has wanted a lock lately.
    pub(super) fn is_contended(&self, now: Instant, key: &[u8]) -> bool {
        self.0.get(key).is_some_and(|at| now.since(*at) < LATELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_remembered_for_a_while_and_many_are_forgotten() {
        let (now, key) = (Instant::from_nanos(1_000_000_000), b"stock");
        let mut contended = Contended::default();
        assert!(!contended.is_contended(now, key));
        contended.note(now, key);
        assert!(contended.is_contended(now + LATELY / 2, key) && !contended.is_contended(now + LATELY, key));
        for other in 0..AT_MOST {
            contended.note(now, other.to_string().as_bytes());
        }
        assert!(contended.0.len() <= AT_MOST);
    }
}
