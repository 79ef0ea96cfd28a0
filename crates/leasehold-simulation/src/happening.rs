//! What is about to happen in the world.

use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Epoch, LinkError, LinkEvent, Plane};
use leasehold_core::reply::Reply;
use leasehold_core::session::CallId;
use std::time::Duration;

/// The number of a call in the world.
pub(crate) type CallKey = u64;

/// Something that is about to happen.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A request comes to the server.
    Arrive {
        key: CallKey,
        client: usize,
        plane: Plane,
        epoch: Epoch,
        call: Call,
        reply: ReplyFate,
    },
    /// A copy of a request comes to the server; nobody waits for its reply.
    Copy {
        call: Call,
    },
    /// A reply, or its absence, comes to the client.
    Answer {
        key: CallKey,
        result: Result<Reply, LinkError>,
    },
    /// A barrier on a connection was answered, or a control command was.
    Settled {
        client: usize,
        plane: Plane,
        epoch: Epoch,
        id: CallId,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyFate {
    Comes,
    /// The connection is lost after the call was applied.
    Lost,
    /// It never comes, and the connection looks alive.
    Swallowed,
}
