//! The server of a world: the embedded engine, its clock, its script cache, and the replica that may take over.

use crate::world::events::Message;
use crate::world::stats::{Coverage, FaultKind};
use crate::world::{World, ms};
use bytes::Bytes;
use leasehold_core::call::{Call, Replicas};
use leasehold_core::reply::Reply;
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

    /// How often a replica has taken over.
    pub(crate) fn reign(&self) -> u32 {
        self.replica.as_ref().map_or(0, |replica| replica.reign)
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

/// The replica of a world whose requests are durable: it hears of each write some time later, acknowledges what it has heard, and takes over.
///
/// What it has is a copy of the server's content behind the last write that it acknowledged. A call that waits for it is answered when it
/// acknowledges, or when the call has waited for long enough.
#[derive(Debug)]
pub(crate) struct Replica {
    rng: fastrand::Rng,
    content: Snapshot,
    /// How often a replica has taken over. Of the server before, this one hears nothing more.
    reign: u32,
    /// When it acknowledges what it has been sent last: writes come to it in their order.
    last: Instant,
    /// It hears of nothing for long times at once.
    lags: bool,
}

impl Replica {
    /// A replica that has what the server has.
    pub(crate) fn new(rng: fastrand::Rng, content: Snapshot) -> Self {
        Self { rng, content, reign: 0, last: Instant::default(), lags: true }
    }

    /// When it acknowledges a write that is made now.
    fn acknowledges_at(&mut self, now: Instant) -> Instant {
        let most = match self.rng.u8(..20) {
            _ if !self.lags => 1,
            0 => 2_000,
            1..=3 => 200,
            _ => 3,
        };
        self.last = self.last.max(now + ms(1).mul_f64(self.rng.f64() * f64::from(most)));
        self.last
    }

    /// Another replica takes over with what it has acknowledged, and this one is that one's.
    pub(crate) fn take_over(&mut self, now: Instant) -> Snapshot {
        self.reign += 1;
        self.last = now;
        self.content.clone()
    }

    /// From here on it hears of every write at once.
    pub(crate) fn calm(&mut self) {
        self.lags = false;
    }
}

impl World {
    /// The server has executed a call that waits for replicas: how many acknowledge it in time, and for how long it waits for them.
    pub(crate) fn wait_for_replica(&mut self, wanted: Replicas) -> (u32, Duration) {
        let now = self.now;
        let content = self.server.snapshot();
        let Some(replica) = &mut self.server.replica else { return (0, wanted.within) };
        let at = replica.acknowledges_at(now);
        let reign = replica.reign;
        self.at(at, Message::Replicated { reign, content });
        if at <= now + wanted.within {
            self.stats.reach(Coverage::Acknowledged);
            return (1, at.since(now));
        }
        self.stats.fault(FaultKind::LaggingReplica);
        (0, wanted.within)
    }

    /// The replica has heard of what the server had.
    pub(crate) fn replicated(&mut self, of_reign: u32, content: Snapshot) {
        if let Some(replica) = self.server.replica.as_mut().filter(|replica| replica.reign == of_reign) {
            replica.content = content;
        }
    }
}

/// The reply of a call's script, without the number of replicas that the embedded engine adds: it has none.
pub(crate) fn of_script(call: &Call, reply: Reply) -> Reply {
    match reply {
        Reply::Array(parts) if call.replicas().is_some() => parts.into_iter().next().unwrap_or(Reply::Nil),
        reply => reply,
    }
}

/// The reply to a call that waited for replicas.
pub(crate) fn acknowledged(reply: Reply, by: u32) -> Reply {
    Reply::Array(vec![reply, Reply::Int(by.into())])
}
