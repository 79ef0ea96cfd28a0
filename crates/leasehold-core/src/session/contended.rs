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
pub(super) struct Contended(HashMap<Bytes, Noted>);

/// The recent contention of a lock.
#[derive(Clone, Copy, Debug)]
struct Noted {
    /// The time of the last known request of another client.
    wanted: Option<Instant>,
    /// End of the head start of other clients; this client does not acquire before.
    held_back_until: Instant,
}

impl Noted {
    fn is_stale(&self, now: Instant) -> bool {
        self.wanted.is_none_or(|at| now.since(at) >= LATELY) && self.held_back_until <= now
    }
}

impl Contended {
    /// Another client wants a lock, or has it.
    pub(super) fn note(&mut self, now: Instant, key: &[u8]) {
        self.entry(now, key).wanted = Some(now);
    }

    /// Gives other clients a head start until this instant.
    pub(super) fn hold_back(&mut self, now: Instant, key: &[u8], until: Instant) {
        self.entry(now, key).held_back_until = until;
    }

    /// Whether another client has recently requested a lock.
    pub(super) fn is_contended(&self, now: Instant, key: &[u8]) -> bool {
        self.0.get(key).and_then(|noted| noted.wanted).is_some_and(|at| now.since(at) < LATELY)
    }

    /// The end of the head start of other clients.
    pub(super) fn held_back_until(&self, now: Instant, key: &[u8]) -> Option<Instant> {
        self.0.get(key).map(|noted| noted.held_back_until).filter(|until| *until > now)
    }

    fn entry(&mut self, now: Instant, key: &[u8]) -> &mut Noted {
        if self.0.len() >= AT_MOST {
            self.0.retain(|_, noted| !noted.is_stale(now));
        }
        if self.0.len() >= AT_MOST {
            self.0.clear();
        }
        let new = Noted { wanted: None, held_back_until: now };
        self.0.entry(Bytes::copy_from_slice(key)).or_insert(new)
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
        assert_eq!(contended.held_back_until(now, key), None);
        contended.hold_back(now, key, now + LATELY / 4);
        assert_eq!(contended.held_back_until(now, key), Some(now + LATELY / 4));
        assert!(
            contended.is_contended(now + LATELY / 2, key) && contended.held_back_until(now + LATELY / 4, key).is_none()
        );
        for other in 0..AT_MOST {
            contended.note(now, other.to_string().as_bytes());
        }
        assert!(contended.0.len() <= AT_MOST);
    }
}
