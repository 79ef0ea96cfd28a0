//! Latches: what is left of their counts, by a model of them beside the server.

use crate::report::stats::Coverage;
use crate::world::World;
use crate::world::client::TaskKind;
use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::Duration;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Latches {
    left: FxHashMap<Bytes, i64>,
    /// Counts that have been carried out.
    counted: FxHashSet<Bytes>,
}

impl Latches {
    /// So much is left of a latch.
    pub(crate) fn set(&mut self, lock: Bytes, left: i64) {
        self.left.insert(lock, left);
    }

    /// A count arrives: it changes what is left, unless it is a copy, or the latch is open. The server must answer this.
    pub(crate) fn count_down(&mut self, lock: &Bytes, operation: &Bytes) -> [i64; 2] {
        let left = self.left.entry(lock.clone()).or_default();
        let code = if self.counted.contains(operation) {
            2
        } else if *left == 0 {
            0
        } else {
            *left -= 1;
            self.counted.insert(operation.clone());
            1
        };
        [code, *left]
    }

    /// No caller goes through a latch that is closed.
    pub(crate) fn check(&self, world: &World, client: usize, task: usize) -> Option<Coverage> {
        let state = &world.clients[client].tasks[task];
        let TaskKind::Acquire(wish) = &state.kind else { return None };
        let left = self.left.get(wish.name.key()).copied().unwrap_or_default();
        assert!(world.doubts.broken || left == 0, "client {client} went through {} with {left} left", wish.name);
        (world.local(client).since(state.started) > Duration::from_millis(50)).then_some(Coverage::LatchOpened)
    }
}
