//! A copy of all keys of a server.

use crate::engine::keyspace::Entries;
use crate::server::EmbeddedServer;
use std::fmt;

/// A copy by [`EmbeddedServer::snapshot`], for [`EmbeddedServer::restore`].
#[derive(Clone)]
pub struct Snapshot(Entries);

impl EmbeddedServer {
    /// Copies all keys with their expiry.
    #[doc(hidden)]
    pub fn snapshot(&self) -> Snapshot {
        self.with(|state| Snapshot(state.engine.keyspace().copy()))
    }

    /// Replaces all keys by a snapshot, as a failover to a lagging replica does. Keys keep their expiry. Does not
    /// affect subscriptions and connections.
    #[doc(hidden)]
    pub fn restore(&self, snapshot: &Snapshot) {
        self.with(|state| state.engine.keyspace().replace_all(snapshot.0.clone()));
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("keys", &self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::{EmbeddedServer, ManualClock};
    use leasehold_core::reply::Reply;
    use std::time::Duration;

    #[test]
    fn a_snapshot_brings_back_what_was_and_takes_what_came_later() {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        let run = |words: &[&[u8]]| server.command(words).expect("the command succeeds");
        run(&[b"SET", b"old", b"1", b"PX", b"1000"]);
        let snapshot = server.snapshot();
        clock.advance(Duration::from_millis(400));
        run(&[b"SET", b"new", b"2"]);
        run(&[b"DEL", b"old"]);
        server.restore(&snapshot);
        assert_eq!(server.keys(), ["old"]);
        assert_eq!(run(&[b"PTTL", b"old"]), Reply::Int(600), "time has passed since the snapshot");
    }
}
