//! Calls whose reply has not come, and requests that a proxy keeps.

use crate::channels::LinkId;
use leasehold_core::call::Call;
use leasehold_core::link::{Epoch, LinkError, Plane};
use leasehold_core::reply::Reply;
use std::task::Waker;

/// The number of a call within its server.
pub(crate) type CallId = u64;

/// What the caller of a call is told.
pub(crate) type CallResult = Result<Reply, LinkError>;

/// The connection that a call went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) link: LinkId,
    pub(crate) plane: Plane,
    pub(crate) epoch: Epoch,
}

impl Route {
    /// Whether it is a connection of this plane from `epoch` or before.
    pub(crate) fn is_of(&self, link: LinkId, plane: Plane, epoch: Epoch) -> bool {
        self.link == link && self.plane == plane && self.epoch <= epoch
    }
}

/// A caller that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) route: Route,
    pub(crate) entry: Option<usize>,
    pub(crate) result: Option<CallResult>,
    pub(crate) waker: Option<Waker>,
}

/// A request that a proxy keeps.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: CallId,
    pub(crate) route: Route,
    pub(crate) entry: Option<usize>,
    pub(crate) call: Call,
}
