//! A state of a small world: numbers of states of its parts, and what is on the way between them.

use super::client::Wire;
use leasehold_core::time::Instant;

/// What comes back to a client by a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Back {
    Answer {
        key: u32,
        reply: u32,
    },
    /// The answer to a barrier, or that the earlier connections of a plane have been killed.
    Settled {
        key: u32,
        by_barrier: bool,
    },
    Subscribed,
    Unsubscribed,
}

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// Requests on the way, by their numbers.
    pub(super) requests: Vec<u32>,
    /// Replies on the way.
    pub(super) replies: Vec<Back>,
    /// What is still on the way by earlier connections of the plane, which are lost.
    pub(super) old: Vec<u32>,
}

impl Lane {
    /// Whether nothing is on the way by the connection that stands.
    pub(super) fn is_still(&self) -> bool {
        self.requests.is_empty() && self.replies.is_empty()
    }
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Local {
    /// In the state with this number.
    At(u32),
    /// Its script is over, and its session has nothing and waits for nothing.
    Done,
    Crashed,
}

/// A client, and its connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) local: Local,
    pub(super) lanes: [Lane; 4],
    pub(super) is_subscribed: bool,
    /// Notices on the way.
    pub(super) notices: u32,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: Instant,
    pub(super) server: u32,
    pub(super) members: Vec<Member>,
    /// How many crashes and ends of leases there may still be.
    pub(super) disturbances: u8,
    /// How many connections may still be lost.
    pub(super) losses: u8,
    /// Of a fair lock: the clients that wait, in the order in which the server took them in, each with its hold.
    pub(super) places: Vec<(usize, String)>,
}

impl State {
    /// The beginning.
    pub(super) fn new(clients: usize, disturbances: u8, losses: u8) -> Self {
        let lane = Lane::default;
        let member = || Member {
            local: Local::At(0),
            lanes: [lane(), lane(), lane(), lane()],
            is_subscribed: false,
            notices: 0,
        };
        Self {
            now: Instant::from_nanos(0),
            server: 0,
            members: (0..clients).map(|_| member()).collect(),
            disturbances,
            losses,
            places: Vec::new(),
        }
    }

    pub(super) fn lane(&mut self, client: usize, wire: Wire) -> &mut Lane {
        &mut self.members[client].lanes[wire as usize]
    }
}
