//! The link of a client to its server: [`AnyLink`] is a [`ServerLink`], or a link to the embedded engine.
//!
//! A `ServerLink` has one connection to each server, for calls and notices. Notices have their own connection in RESP2
//! and with sharded Pub/Sub. Durable calls have up to five more. On a cluster, connections open on demand.
//!
//! | file | contents |
//! |---|---|
//! | `target.rs`, `error.rs` | the URL, credentials and certificates of a server; the errors of a connect |
//! | `network.rs`, `tls.rs`, `no_tls.rs` | name lookup, sockets, and TLS or its absence |
//! | `connect.rs`, `handshake.rs` | opens the first connections; logs in, and identifies the server |
//! | `connection.rs`, `connection/reader.rs` | one connection, with its guarantees; the two readers of its replies |
//! | `pool.rs`, `shared.rs` | reconnects; a connection to each server; the state of the link and its events |
//! | `route.rs` | the slot map of a cluster, and the routing of calls |
//! | `call.rs`, `durable.rs`, `notices.rs` | calls and their replies, calls that wait for replicas, subscriptions |
//! | `settle.rs`, `maintain.rs` | the proof that the server applies no earlier call; the periodic checks |

mod call;
mod connect;
mod connection;
mod durable;
mod error;
mod handshake;
mod maintain;
mod network;
#[cfg(not(feature = "tls"))]
mod no_tls;
mod notices;
mod pool;
#[cfg(feature = "unstable-raw")]
pub(crate) mod raw;
mod route;
mod settle;
mod shared;
mod target;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;

use connect::Links;
pub(crate) use error::ConnectError;
pub(crate) use network::Home;
pub(crate) use shared::LinkSettings;
pub use target::Credentials;
pub(crate) use target::{AddressMap, Certificates, ENCODE, Provider, ServerTarget};

use crate::error::Cause;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Link, LinkError, LinkEvent, Outcome, Receiver, ServerInfo, Settled};
use leasehold_core::reply::Reply;
use leasehold_core::scan::{ScanPage, Scanned, ServerId};
use leasehold_core::session::CallId;
#[cfg(feature = "embedded")]
use leasehold_embedded::EmbeddedLink;
#[cfg(not(feature = "tls"))]
use no_tls as tls;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Weak};

/// A link.
#[derive(Clone, Debug)]
pub(crate) enum AnyLink {
    /// A link to Redis or Valkey.
    Server(ServerLink),
    /// A link to the embedded engine.
    #[cfg(feature = "embedded")]
    Embedded(EmbeddedLink),
}

impl AnyLink {
    /// Whether the server is identified. Until then the link sends no calls.
    pub(crate) fn is_identified(&self) -> bool {
        match self {
            Self::Server(link) => link.shared().identity.check().is_ok(),
            #[cfg(feature = "embedded")]
            Self::Embedded(_) => true,
        }
    }
}

/// Forwards to the inner link.
macro_rules! on_each {
    ($self:ident, $link:ident => $what:expr) => {
        match $self {
            Self::Server($link) => $what,
            #[cfg(feature = "embedded")]
            Self::Embedded($link) => $what,
        }
    };
}

impl Link for AnyLink {
    fn server(&self) -> &ServerInfo {
        on_each!(self, link => link.server())
    }

    fn settlings(&self, durable: bool) -> u64 {
        on_each!(self, link => link.settlings(durable))
    }

    async fn call_decided(&self, decided: u64, call: Call) -> Result<Reply, LinkError> {
        on_each!(self, link => link.call_decided(decided, call).await)
    }

    fn start(&self, decided: u64, id: CallId, call: Call) -> Result<Option<Outcome>, Call> {
        on_each!(self, link => link.start(decided, id, call))
    }

    fn deliver_to(&self, receiver: Weak<dyn Receiver>) {
        on_each!(self, link => link.deliver_to(receiver));
    }

    async fn settle(&self, key: Bytes, durable: bool) -> Result<Settled, LinkError> {
        on_each!(self, link => link.settle(key, durable).await)
    }

    fn servers(&self) -> Vec<ServerId> {
        on_each!(self, link => link.servers())
    }

    async fn scan(&self, server: ServerId, page: ScanPage) -> Result<Scanned, LinkError> {
        on_each!(self, link => link.scan(server, page).await)
    }

    async fn ping(&self, server: ServerId) -> Result<(), LinkError> {
        on_each!(self, link => link.ping(server).await)
    }

    async fn subscribe(&self, channel: Bytes) -> Result<(), LinkError> {
        on_each!(self, link => link.subscribe(channel).await)
    }

    async fn unsubscribe(&self, channel: Bytes) -> Result<(), LinkError> {
        on_each!(self, link => link.unsubscribe(channel).await)
    }

    async fn event(&self) -> Option<LinkEvent> {
        on_each!(self, link => link.event().await)
    }

    async fn close(&self) {
        on_each!(self, link => link.close().await);
    }
}

/// A link to a server, Sentinels, or a cluster.
#[derive(Clone)]
pub(crate) struct ServerLink(Arc<Links>);

impl ServerLink {
    fn shared(&self) -> &shared::LinkShared {
        &self.0.pool.shared
    }

    /// Polls a future in the context of the background's runtime, for its timers, from any thread.
    async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let _context = self.0.pool.runtime.enter();
            work.as_mut().poll(cx)
        })
        .await
    }
}

impl Link for ServerLink {
    fn server(&self) -> &ServerInfo {
        self.shared().identity.server()
    }

    fn settlings(&self, durable: bool) -> u64 {
        *self.shared().send_barrier(durable).read()
    }

    async fn call_decided(&self, decided: u64, call: Call) -> Result<Reply, LinkError> {
        self.shared().identity.check()?;
        // Boxed, because these futures are large.
        match call.replicas() {
            Some(replicas) => Box::pin(durable::call(&self.0.durable, decided, call, replicas)).await,
            None => Box::pin(self.within(call::call(&self.0.pool, decided, call))).await,
        }
    }

    fn start(&self, decided: u64, id: CallId, call: Call) -> Result<Option<Outcome>, Call> {
        if let Err(unidentified) = self.shared().identity.check() {
            return Ok(Some(Err(unidentified)));
        }
        if call.replicas().is_some() {
            return Err(call);
        }
        call::start(&self.0.pool, decided, id, call)
    }

    fn deliver_to(&self, receiver: Weak<dyn Receiver>) {
        let _ = self.shared().inbox.receiver.set(receiver);
    }

    async fn settle(&self, key: Bytes, durable: bool) -> Result<Settled, LinkError> {
        let Links { pool, durable: lanes, .. } = &*self.0;
        // Even before the server is identified: a suspended thread may send late.
        *pool.shared.send_barrier(durable).write() += 1;
        if self.shared().identity.check().is_err() {
            // The link has never sent a call.
            return Ok(Settled::Proven);
        }
        let settled = async {
            match durable {
                true => settle::settle(&lanes.all().collect::<Vec<_>>(), pool, &key).await,
                false => settle::settle(&[pool], pool, &key).await,
            }
        };
        self.within(settled).await
    }

    fn servers(&self) -> Vec<ServerId> {
        call::servers(&self.0.pool)
    }

    async fn scan(&self, server: ServerId, page: ScanPage) -> Result<Scanned, LinkError> {
        self.shared().identity.check()?;
        self.within(call::scan(&self.0.pool, server, &page)).await
    }

    async fn ping(&self, server: ServerId) -> Result<(), LinkError> {
        self.shared().identity.check()?;
        self.within(call::ping(&self.0.pool, server)).await
    }

    async fn subscribe(&self, channel: Bytes) -> Result<(), LinkError> {
        self.shared().identity.check()?;
        self.within(self.0.notices.subscribe(&channel)).await
    }

    async fn unsubscribe(&self, channel: Bytes) -> Result<(), LinkError> {
        self.shared().identity.check()?;
        self.within(self.0.notices.unsubscribe(&channel)).await
    }

    async fn event(&self) -> Option<LinkEvent> {
        self.shared().events.next().await
    }

    async fn close(&self) {
        self.0.close();
    }
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink")
            .field("target", &self.shared().target)
            .field("server", self.shared().identity.server())
            .finish_non_exhaustive()
    }
}
