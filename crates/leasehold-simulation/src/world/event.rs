//! The events to come in the world.

use crate::workload::registers::Versions;
use crate::world::World;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Epoch, LinkError, LinkEvent, Plane};
use leasehold_core::reply::Reply;
use leasehold_core::session::CallId;
use leasehold_core::time::Instant;
use leasehold_embedded::Inside;
use std::time::Duration;

/// The number of a call in the world.
pub(crate) type CallKey = u64;

/// The purpose of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Nothing that was sent before may be applied later.
    Settle,
    /// Has what was sent before been answered? It hinders nothing.
    Probe,
}

/// Something that is about to happen.
#[derive(Debug)]
pub(crate) enum WorldEvent {
    /// A request comes to the server.
    Arrive {
        key: CallKey,
        client: usize,
        plane: Plane,
        epoch: Epoch,
        call: Call,
        reply: ReplyFate,
    },
    /// A copy of a request comes to the server; its reply is not waited for.
    Copy {
        key: CallKey,
        call: Call,
    },
    /// A reply, or its absence, comes to the client.
    Answer {
        key: CallKey,
        result: Result<Reply, LinkError>,
    },
    /// A barrier comes to the server, behind all that was sent by its connection before, and is awaited until then.
    Barrier {
        client: usize,
        plane: Plane,
        epoch: Epoch,
        id: CallId,
        until: Instant,
        ask: Ask,
    },
    /// A barrier on a connection was answered, or a control command was.
    Settled {
        client: usize,
        plane: Plane,
        epoch: Epoch,
        id: CallId,
        ask: Ask,
    },
    /// A probe was answered, or was not in time.
    Probed {
        client: usize,
        id: CallId,
        answered: bool,
    },
    /// The barrier is not awaited any longer: the connections are killed.
    Kill {
        client: usize,
        plane: Plane,
        epoch: Epoch,
        id: CallId,
    },
    Killed {
        client: usize,
        plane: Plane,
        epoch: Epoch,
        id: CallId,
        proven: bool,
    },
    SettleFailed {
        client: usize,
        id: CallId,
    },
    /// A subscription, or its end, comes to the server.
    Subscription {
        client: usize,
        channel: Bytes,
        wanted: bool,
        life: u64,
        fate: Result<(), LinkError>,
    },
    /// Its confirmation comes to the client.
    SubscriptionAnswer {
        client: usize,
        channel: Bytes,
        wanted: bool,
        life: u64,
        result: Result<(), LinkError>,
    },
    Notice {
        client: usize,
        channel: Bytes,
        life: u64,
    },
    Event {
        client: usize,
        event: LinkEvent,
    },
    Reset {
        client: usize,
        plane: Plane,
        lose: bool,
    },
    Reconnected {
        client: usize,
        plane: Plane,
    },
    ResetNotices {
        client: usize,
    },
    Freeze {
        client: usize,
        plane: Plane,
        pause: Duration,
    },
    Unreachable {
        client: usize,
        yes: bool,
    },
    RestartEmpty,
    DenyGrowth {
        deny: bool,
    },
    Poll {
        client: usize,
        task: usize,
    },
    Abandon {
        client: usize,
        task: usize,
    },
    Start {
        client: usize,
    },
    GiveUp {
        guard: usize,
        how: u8,
    },
    /// The server did not know the script: the link sends its text.
    NoScript {
        key: CallKey,
        client: usize,
        plane: Plane,
        call: Call,
        reply: ReplyFate,
    },
    /// The process of a client ends, whatever it is doing.
    Crash {
        client: usize,
    },
    /// A new process begins.
    Join,
    /// A client does nothing at all for a while.
    Pause {
        client: usize,
        pause: Duration,
        /// Its clock goes on meanwhile.
        counts: bool,
    },
    Resume {
        client: usize,
    },
    /// From now on the clock of a client is too fast by so many millionths; and it jumps.
    Clock {
        client: usize,
        ppm: i64,
        jump: Duration,
    },
    /// The server's clock is stepped.
    StepServer {
        millis: i64,
    },
    /// The server restarts and has its data.
    Restart,
    /// A replica will have heard of the server's present content.
    Snapshot,
    /// That replica takes over.
    Failover,
    /// A key that has a time to live goes away, or any key.
    Evict {
        all: bool,
    },
    /// An operator ends the hold of another.
    ForceRelease,
    FlushScripts,
    /// The holder must have been told by now that its hold was removed.
    Promptness {
        guard: usize,
        removed: Instant,
    },
    /// A count comes to a latch.
    CountDown {
        call: Call,
    },
    /// A holder begins to work on what the store has.
    Section {
        guard: usize,
    },
    /// Its read comes to the store.
    StoreRead {
        guard: usize,
    },
    /// The value that it read comes to the holder.
    Work {
        guard: usize,
        read: Versions,
    },
    /// Its write comes to the store.
    StoreWrite {
        guard: usize,
        read: Versions,
    },
}

impl WorldEvent {
    /// Whether it happens within a client, and to which; otherwise it happens elsewhere, whatever clients do.
    pub(crate) fn within(&self, world: &World) -> Option<usize> {
        match self {
            Self::Answer { key, .. } => world.net.waiting.get(key).map(|waiting| waiting.client),
            Self::Settled { client, .. }
            | Self::Kill { client, .. }
            | Self::Killed { client, .. }
            | Self::Probed { client, .. }
            | Self::SettleFailed { client, .. }
            | Self::SubscriptionAnswer { client, .. }
            | Self::Notice { client, .. }
            | Self::Event { client, .. }
            | Self::Reconnected { client, .. }
            | Self::Poll { client, .. }
            | Self::Abandon { client, .. }
            | Self::Start { client }
            | Self::NoScript { client, .. } => Some(*client),
            Self::GiveUp { guard, .. } | Self::Section { guard } | Self::Work { guard, .. } => {
                Some(world.guards[*guard].client)
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyFate {
    Comes,
    /// The connection is lost after the call was applied.
    Lost,
    /// It never comes, and the connection looks alive.
    Swallowed,
    /// The server refuses the call with this error.
    Refused(&'static str),
    /// The script meets an error in its middle.
    Inside(Inside),
}
