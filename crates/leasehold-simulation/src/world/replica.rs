//! The replica of a world whose requests are durable: it hears of each write some time later, acknowledges what it has heard, and takes over.
//!
//! What it has is a copy of the server's content behind the last write that it acknowledged. A call that waits for it is answered when it
//! acknowledges, or when the call has waited for long enough.

use crate::report::stats::{Coverage, FaultKind};
use crate::world::message::Message;
use crate::world::{World, ms, trace};
use leasehold_core::call::{Call, Replicas};
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use leasehold_embedded::Snapshot;
use std::time::Duration;

/// See the [module](self).
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

    /// The replica takes over. What it has acknowledged is there, and nothing else.
    pub(crate) fn take_over(&mut self) {
        let now = self.now;
        let Some(replica) = &mut self.server.replica else { return };
        replica.reign += 1;
        replica.last = now;
        let content = replica.content.clone();
        trace!(self, "the replica takes over with what it has acknowledged");
        self.stats.fault(FaultKind::TakeOver);
        self.server.restore(&content);
        let survives = self.guards.iter().filter(|guard| guard.alive && self.is_believed(guard)).count();
        for _ in 0..survives {
            self.stats.reach(Coverage::SurvivedTakeOver);
        }
        self.lose_what_is_not_acknowledged();
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
