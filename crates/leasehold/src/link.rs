//! The link of a client, as one type without a box or a type parameter.

pub(crate) mod server;

use self::server::ServerLink;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Link, LinkError, LinkEvent, Outcome, Receiver, ServerInfo, Settled};
use leasehold_core::reply::Reply;
use leasehold_core::scan::{ScanPage, Scanned, ServerId};
use leasehold_core::session::CallId;
use std::sync::Weak;

#[cfg(feature = "embedded")]
use leasehold_embedded::EmbeddedLink;

/// A link.
#[derive(Clone, Debug)]
pub(crate) enum AnyLink {
    /// A link to Redis or Valkey.
    Server(ServerLink),
    /// A link to the embedded engine.
    #[cfg(feature = "embedded")]
    Embedded(EmbeddedLink),
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
