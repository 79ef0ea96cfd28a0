//! The link to Redis and Valkey.
//!
//! - [`target`]: the parsed URL; [`settings`]: timeouts; [`tls`], `no_tls`: TLS, or its absence; [`certificates`]:
//!   trusted authorities; [`credentials`]: users and passwords; [`network`]: lookup and dialling; [`stream`]: sockets;
//!   [`greeting`]: the handshake; [`about`]: the server's description of itself.
//! - [`connection`]: one connection, from connect to close, with its guarantees, on which everything else relies.
//! - [`connection_slot`]: reconnects; [`pool`]: a slot for each server; [`pools`]: all pools; [`slots`]: the slot map
//!   of a cluster; [`shared`]: their common state.
//! - [`call`], [`durable`], [`settle`], [`notices`], [`scan`]: the link's operations; [`route`]: routing; [`events`]:
//!   events for the session.
//! - [`connect`]: builds the link; [`learn`]: identifies the server; [`met`]: whether it is identified; [`maintain`]:
//!   periodic checks; [`scripts`]: the script cache; [`error`], [`absent`], [`mistaken`] and [`words`]: errors.
//!
//! A link has one connection to each server, for calls and notices. Sharded notices have a second connection (see
//! [`notices`]). So have notices in RESP2, where a subscribed connection carries no calls. Durable calls have up to
//! five more. On a cluster, all connections but the first open on demand.

mod about;
mod absent;
mod address;
mod call;
mod certificates;
mod connect;
mod connection;
mod connection_slot;
mod credentials;
mod durable;
mod error;
mod events;
mod greeting;
mod learn;
mod maintain;
mod met;
mod mistaken;
mod network;
#[cfg(not(feature = "tls"))]
mod no_tls;
#[cfg(not(feature = "tls"))]
mod no_tls_session;
mod notices;
mod pool;
mod pools;
#[cfg(feature = "unstable-raw")]
pub(crate) mod raw;
mod route;
mod scan;
mod scripts;
mod settings;
mod settle;
mod shared;
mod slots;
mod stream;
mod target;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_session;
mod words;

pub(crate) use certificates::Certificates;
pub(crate) use connect::{Connector, Links};
pub use credentials::Credentials;
pub(crate) use credentials::Provider;
pub(crate) use error::ConnectError;
pub(crate) use network::Home;
pub(crate) use settings::{LinkSettings, Publish};
pub(crate) use target::{AddressMap, ENCODE, ServerTarget};

use crate::error::Cause;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Link, LinkError, LinkEvent, Outcome, Receiver, ServerInfo, Settled};
use leasehold_core::reply::Reply;
use leasehold_core::scan::{ScanPage, Scanned, ServerId};
use leasehold_core::session::CallId;
#[cfg(not(feature = "tls"))]
use no_tls as tls;
#[cfg(not(feature = "tls"))]
use no_tls_session as tls_session;
use pool::Pool;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;

/// A link to a server, Sentinels, or a cluster.
#[derive(Clone)]
pub(crate) struct ServerLink {
    links: Arc<Links>,
}

impl ServerLink {
    /// A link to an identified server.
    pub(crate) fn new(links: Links, server: ServerInfo) -> Self {
        let link = Self::unmet(links);
        link.shared().met.is(server);
        link
    }

    /// A link that sends nothing until the server is identified.
    pub(crate) fn unmet(links: Links) -> Self {
        Self { links: Arc::new(links) }
    }

    /// Identifies the server on the background's runtime, without a time limit. `accept` may refuse the server, and the
    /// link then retries. `met` runs once the server is identified, before anything is sent to it.
    pub(crate) fn meet(
        &self,
        accept: impl Fn(&ServerInfo) -> Result<(), String> + Send + Sync + 'static,
        met: impl FnOnce(&ServerInfo) + Send + 'static,
    ) {
        let link = self.clone();
        let meeting = async move {
            let shared = link.shared();
            let info = tokio::select! {
                biased;
                () = shared.closed.cancelled() => return,
                info = link.links.meet(accept) => info,
            };
            met(&info);
            shared.met.is(info);
            // Wakes requests that failed before the server was identified.
            shared.events.event(LinkEvent::CallsReset);
        };
        drop(self.runtime().spawn(meeting));
    }

    fn shared(&self) -> &shared::LinkShared {
        &self.links.pool.shared
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.links.pool
    }

    fn runtime(&self) -> &Handle {
        &self.links.pool.runtime
    }
}

impl Link for ServerLink {
    fn server(&self) -> &ServerInfo {
        self.shared().met.server()
    }

    fn settlings(&self, durable: bool) -> u64 {
        *self.shared().send_barrier(durable).read()
    }

    async fn call_decided(&self, decided: u64, call: Call) -> Result<Reply, LinkError> {
        self.shared().met.check()?;
        if let Some(replicas) = call.replicas() {
            // Boxed, because it is rare and would enlarge the future of every call.
            return Box::pin(durable::call(&self.links.durable, decided, call, replicas)).await;
        }
        within(self.runtime(), call::call(self.pool(), decided, call)).await
    }

    fn start(&self, decided: u64, id: CallId, call: Call) -> Result<Option<Outcome>, Call> {
        if let Err(not_met) = self.shared().met.check() {
            return Ok(Some(Err(not_met)));
        }
        if call.replicas().is_some() {
            return Err(call);
        }
        call::start(self.pool(), decided, id, call)
    }

    fn deliver_to(&self, receiver: Weak<dyn Receiver>) {
        self.shared().inbox.set(receiver);
    }

    async fn settle(&self, key: Bytes, durable: bool) -> Result<Settled, LinkError> {
        let Links { pool, durable: lanes, .. } = &*self.links;
        // Also before the server is identified: a suspended thread may send late.
        *pool.shared.send_barrier(durable).write() += 1;
        if self.shared().met.check().is_err() {
            // Nothing has ever been sent.
            return Ok(Settled::Proven);
        }
        let settled = async {
            match durable {
                true => settle::settle(&lanes.all().collect::<Vec<_>>(), pool, &key).await,
                false => settle::settle(&[&**pool], pool, &key).await,
            }
        };
        within(self.runtime(), settled).await
    }

    fn servers(&self) -> Vec<ServerId> {
        scan::servers(&self.links.pool)
    }

    async fn scan(&self, server: ServerId, page: ScanPage) -> Result<Scanned, LinkError> {
        self.shared().met.check()?;
        within(self.runtime(), scan::scan(&self.links.pool, server, &page)).await
    }

    async fn subscribe(&self, channel: Bytes) -> Result<(), LinkError> {
        self.shared().met.check()?;
        within(self.runtime(), self.links.notices.subscribe(&channel)).await
    }

    async fn unsubscribe(&self, channel: Bytes) -> Result<(), LinkError> {
        self.shared().met.check()?;
        within(self.runtime(), self.links.notices.unsubscribe(&channel)).await
    }

    async fn event(&self) -> Option<LinkEvent> {
        self.shared().events.next().await
    }

    async fn close(&self) {
        self.links.close();
    }
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink")
            .field("target", &self.shared().target)
            .field("server", self.shared().met.server())
            .finish_non_exhaustive()
    }
}

/// Polls a future in the context of `runtime`, for its timers, from any thread.
async fn within<T>(runtime: &Handle, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        let _context = runtime.enter();
        work.as_mut().poll(cx)
    })
    .await
}
