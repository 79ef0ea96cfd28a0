//! The messages between clients and the server, in either direction.

use crate::world::World;
use crate::world::network::Role;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, LinkEvent};
use leasehold_core::reply::Reply;
use leasehold_core::session::CallId;
use leasehold_core::time::Instant;
use leasehold_embedded::{RefuseAt, Snapshot};

/// The number of a call in the world.
pub(crate) type CallKey = u64;

/// A settling of one connection: all calls up to `life` are dead afterwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settlement {
    pub(crate) client: usize,
    pub(crate) role: Role,
    pub(crate) life: u64,
    /// The client's name for it.
    pub(crate) id: CallId,
}

/// A message that is about to come to the server or to a client, or the time at which it is not awaited any longer.
#[derive(Debug)]
pub(crate) enum Message {
    /// A request comes to the server.
    Arrive {
        key: CallKey,
        client: usize,
        role: Role,
        life: u64,
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
        of: Settlement,
        until: Instant,
    },
    /// A barrier on a connection was answered, or a control command was.
    Settled {
        of: Settlement,
    },
    /// The barrier is not awaited any longer: the connections are killed.
    Kill {
        of: Settlement,
    },
    Killed {
        of: Settlement,
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
    /// A message on a channel, as the link tells it.
    Notice {
        client: usize,
        event: LinkEvent,
        life: u64,
    },
    Event {
        client: usize,
        event: LinkEvent,
    },
    /// A connection is lost by chance, or because of what was sent by it.
    Lost {
        client: usize,
        role: Role,
        lose: bool,
    },
    Reconnected {
        client: usize,
        role: Role,
    },
    /// The replica of a server has heard of all that it had.
    Replicated {
        reign: u32,
        content: Snapshot,
    },
    /// The server did not know the script: the link sends its text.
    NoScript {
        key: CallKey,
        client: usize,
        role: Role,
        call: Call,
        reply: ReplyFate,
    },
}

impl Message {
    /// The client that it comes to; nothing, if it comes to the server.
    pub(crate) fn within(&self, world: &World) -> Option<usize> {
        match self {
            Self::Answer { key, .. } => world.net.waiting.get(key).map(|waiting| waiting.client),
            Self::Settled { of, .. } | Self::Kill { of } | Self::Killed { of, .. } => Some(of.client),
            Self::SettleFailed { client, .. }
            | Self::SubscriptionAnswer { client, .. }
            | Self::Notice { client, .. }
            | Self::Event { client, .. }
            | Self::Reconnected { client, .. }
            | Self::NoScript { client, .. } => Some(*client),
            Self::Arrive { .. }
            | Self::Copy { .. }
            | Self::Barrier { .. }
            | Self::Subscription { .. }
            | Self::Lost { .. }
            | Self::Replicated { .. } => None,
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
    Inside(RefuseAt),
}

/// The key of the lock of a call.
pub(crate) fn lock_of(call: &Call) -> Bytes {
    Bytes::copy_from_slice(&call.keys()[0])
}

/// The id that tells one hold from all others in the calls of its kind, and the count that the call is about.
pub(crate) fn hold_of(call: &Call) -> Option<(Bytes, u32)> {
    let (folder, verb) = call.script().name().split_once('/')?;
    if !matches!(verb, "acquire" | "release") || folder == "latch" {
        return None;
    }
    let (id, count) = match folder {
        "semaphore" => (call.keys().get(1)?, call.args().first()?),
        _ => (call.args().first()?, call.args().get(1)?),
    };
    Some((Bytes::copy_from_slice(id), std::str::from_utf8(count).ok()?.parse().ok()?))
}
