//! A log of what went over the wire.

use crate::channels::LinkId;
use crate::server::EmbeddedServer;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, Plane, ServerError};
use leasehold_core::reply::Reply;

/// One call that a client made.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub(crate) link: LinkId,
    pub(crate) plane: Plane,
    pub(crate) call: Call,
    pub(crate) applied: u32,
    pub(crate) outcome: Option<Result<Reply, LinkError>>,
}

impl Recorded {
    /// The plane that it went by.
    pub const fn plane(&self) -> Plane {
        self.plane
    }

    /// The name of its script, such as `lock/acquire`.
    pub const fn script(&self) -> &'static str {
        self.call.script().name()
    }

    /// Its keys.
    pub fn keys(&self) -> &[Bytes] {
        self.call.keys()
    }

    /// Its arguments.
    pub fn args(&self) -> &[Bytes] {
        self.call.args()
    }

    /// The whole call.
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// How often the server has run it.
    pub const fn applied(&self) -> u32 {
        self.applied
    }

    /// The reply to the caller, or that it was to get had it still listened. `None` while the reply has not come.
    pub const fn outcome(&self) -> Option<&Result<Reply, LinkError>> {
        self.outcome.as_ref()
    }
}

/// The calls of one link, or of all links of a server, in the order in which they were sent, from the time of
/// [`EmbeddedLink::record`](crate::EmbeddedLink::record) or [`EmbeddedServer::record`] on.
#[derive(Clone, Debug)]
pub struct Recorder {
    server: EmbeddedServer,
    link: Option<LinkId>,
    from: usize,
}

impl Recorder {
    pub(crate) const fn new(server: EmbeddedServer, link: Option<LinkId>, from: usize) -> Self {
        Self { server, link, from }
    }

    /// The calls so far. Calls that were refused before they were sent, because the link was down, are among them.
    pub fn calls(&self) -> Vec<Recorded> {
        self.server.with(|state| self.entries(state.log()).map(|(_, recorded)| recorded.clone()).collect())
    }

    /// The names of their scripts.
    pub fn scripts(&self) -> Vec<&'static str> {
        self.server.with(|state| self.entries(state.log()).map(|(_, recorded)| recorded.script()).collect())
    }

    /// Delivers a call to the server once more: a late duplicate. Only the caller of this method gets its reply.
    ///
    /// # Errors
    ///
    /// The server's own.
    ///
    /// # Panics
    ///
    /// There is no call with this index.
    pub fn replay(&self, index: usize) -> Result<Reply, ServerError> {
        self.server.with(|state| {
            let found = self.entries(state.log()).nth(index).map(|(entry, recorded)| (entry, recorded.call.clone()));
            let Some((entry, call)) = found else { panic!("there is no recorded call {index}") };
            state.apply(&call, Some(entry))
        })
    }

    fn entries<'a>(&'a self, log: &'a [Recorded]) -> impl Iterator<Item = (usize, &'a Recorded)> {
        log.iter()
            .enumerate()
            .skip(self.from)
            .filter(|(_, recorded)| self.link.is_none_or(|link| link == recorded.link))
    }
}
