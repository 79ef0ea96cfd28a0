//! The server of a world: the embedded engine, its clock, its script cache, and the replica that may take over.

use crate::world::replica::Replica;
use bytes::Bytes;
use leasehold_core::time::Instant;
use leasehold_embedded::{EmbeddedServer, RefusalEffect, ServerClock, Snapshot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// See the [module](self).
pub(crate) struct Server {
    engine: EmbeddedServer,
    clock: Arc<AtomicU64>,
    /// By how much its clock was put back, in all.
    pub(crate) put_back: Duration,
    /// How often it has lost data, or time.
    pub(crate) data_epoch: u32,
    /// The scripts in its cache, once that was flushed; until then it has them all.
    cache: Option<FxHashSet<&'static str>>,
    pub(crate) snapshot: Option<Snapshot>,
    /// The replica of a world whose requests wait for it.
    pub(crate) replica: Option<Replica>,
    /// Whether the last script that was to be refused something came as far.
    pub(crate) met: RefusalEffect,
    /// When keys end that a command was aimed at.
    pub(crate) ends: FxHashMap<Bytes, i64>,
}

impl Server {
    /// A server that is new, and goes on with the Lua state of another.
    pub(crate) fn new(used: Option<EmbeddedServer>) -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let shown = clock.clone();
        let server_clock = ServerClock::from_fn(move || Instant::from_nanos(shown.load(Ordering::Relaxed)));
        let engine = match used {
            Some(old) => EmbeddedServer::in_place_of(old, server_clock),
            None => EmbeddedServer::with_clock(server_clock),
        };
        Self {
            engine,
            clock,
            put_back: Duration::ZERO,
            data_epoch: 0,
            cache: None,
            snapshot: None,
            replica: None,
            met: RefusalEffect::Nothing,
            ends: FxHashMap::default(),
        }
    }

    pub(crate) fn into_engine(self) -> EmbeddedServer {
        self.engine
    }

    pub(crate) fn set_time(&self, now: Instant) {
        self.clock.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn knows(&self, script: &str) -> bool {
        self.cache.as_ref().is_none_or(|cache| cache.contains(script))
    }

    /// The text of a script has come.
    pub(crate) fn learn(&mut self, script: &'static str) {
        self.cache.as_mut().map(|cache| cache.insert(script));
    }

    pub(crate) fn flush_scripts(&mut self) {
        self.cache = Some(FxHashSet::default());
    }
}

impl Deref for Server {
    type Target = EmbeddedServer;

    fn deref(&self) -> &EmbeddedServer {
        &self.engine
    }
}
