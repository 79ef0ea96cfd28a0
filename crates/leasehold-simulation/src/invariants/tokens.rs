//! Fencing tokens: they grow with every grant.

use crate::world::World;
use bytes::Bytes;
use rustc_hash::FxHashMap;

/// The last fencing token of each lock.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    last: FxHashMap<Bytes, i64>,
}

impl Tokens {
    /// A token must be greater than the last, unless the server has lost that and the time at which it was issued: then it falls by no more
    /// than the server's clock was put back.
    pub(crate) fn check(&self, world: &World, lock: &Bytes, id: &Bytes, token: i64) {
        let last = self.last.get(lock).copied();
        let put_back = i64::try_from(world.server.put_back.as_micros()).unwrap_or(i64::MAX);
        let back = if world.doubts.lost_tokens { put_back } else { 0 };
        assert!(
            last.is_none_or(|last| last < token.saturating_add(back)),
            "{id:?} got the token {token} of {lock:?} after {last:?}"
        );
    }

    pub(crate) fn issue(&mut self, lock: Bytes, token: i64) {
        self.last.insert(lock, token);
    }
}
