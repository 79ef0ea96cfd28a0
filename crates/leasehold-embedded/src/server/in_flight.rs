//! Pending calls, and requests held by a proxy.

use crate::server::connections::LinkId;
use leasehold_core::call::Call;
use leasehold_core::link::LinkError;
use leasehold_core::reply::Reply;
use std::task::Waker;

/// The number of a call within its server.
pub(crate) type CallId = u64;

/// The reply to the caller of a call.
pub(crate) type CallResult = Result<Reply, LinkError>;

/// A connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Calls.
    Calls,
    /// Durable calls.
    Durable,
    /// Notices and subscription commands.
    Notices,
}

/// The connection of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) link: LinkId,
    pub(crate) wire: Wire,
    /// Number of the connection; unused for notices.
    pub(crate) life: u64,
}

impl Wire {
    /// All connections of a client.
    pub(crate) const ALL: [Self; 3] = [Self::Calls, Self::Durable, Self::Notices];

    /// Returns the connections for calls.
    pub(crate) const OF_CALLS: [Self; 2] = [Self::Calls, Self::Durable];

    /// Returns the connection for a call.
    pub(crate) const fn of(call: &Call) -> Self {
        if call.replicas().is_some() { Self::Durable } else { Self::Calls }
    }
}

impl Route {
    /// Returns whether this is the current connection or an earlier connection of the link.
    pub(crate) fn is_by(&self, link: LinkId, wire: Wire) -> bool {
        self.link == link && self.wire == wire
    }

    /// Returns the connection for notices.
    pub(crate) const fn of_notices(link: LinkId) -> Self {
        Self { link, wire: Wire::Notices, life: 0 }
    }
}

/// A waiting caller.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) route: Route,
    pub(crate) entry: Option<usize>,
    pub(crate) result: Option<CallResult>,
    pub(crate) waker: Option<Waker>,
}

/// A request held by a proxy.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: CallId,
    pub(crate) route: Route,
    pub(crate) entry: Option<usize>,
    pub(crate) call: Call,
}
