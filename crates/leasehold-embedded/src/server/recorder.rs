//! A view of the recorded calls.

use crate::server::EmbeddedServer;
use crate::server::connections::LinkId;
use crate::server::recorded::Recorded;
use crate::server::state::State;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;

/// The calls of a link, or of all links of a server, in sending order. Recording starts with
/// [`EmbeddedLink::record`](crate::EmbeddedLink::record) or [`EmbeddedServer::record`].
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

    /// Returns the calls so far, including calls that failed because the link was down.
    pub fn calls(&self) -> Vec<Recorded> {
        self.server.with(|state| self.entries(state.log()).map(|(_, recorded)| recorded.clone()).collect())
    }

    /// Returns the script names of the calls.
    pub fn scripts(&self) -> Vec<&'static str> {
        self.server.with(|state| self.entries(state.log()).map(|(_, recorded)| recorded.script()).collect())
    }

    /// Resends a call as a late duplicate, and returns the reply only here.
    ///
    /// # Errors
    ///
    /// The server's error.
    ///
    /// # Panics
    ///
    /// No call has this index.
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

impl EmbeddedServer {
    /// Starts recording the calls of all links.
    pub fn record(&self) -> Recorder {
        Recorder::new(self.clone(), None, self.with(State::start_log))
    }
}
