//! Opens the first connections of a link, and identifies the server.
//!
//! After a failure the link looks for the likely mistake. Servers do not report a mismatch of TLS: a server without TLS
//! waits for the rest of a long command, and a TLS server closes the connection. So the link probes the server with the
//! other protocol, without user and password.

use super::durable::Durable;
use super::error::ConnectError;
use super::handshake::server_info;
use super::maintain::maintain;
use super::network::{Home, Network};
use super::notices::Notices;
use super::pool::{Backoff, ConnectionManager, Pool};
use super::shared::{LinkSettings, LinkShared, Role};
use super::target::{Endpoint, Host, Server, ServerTarget};
use super::{Cause, ServerLink, tls};
use futures_util::future::{join_all, select_ok};
use leasehold_core::link::{LinkEvent, ServerInfo};
use std::io;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The connections of a link. Connections for notices alone and for calls that wait for replicas open on demand.
pub(super) struct Links {
    pub(super) pool: Arc<Pool>,
    pub(super) notices: Arc<Notices>,
    pub(super) durable: Arc<Durable>,
    pools: Arc<[Arc<Pool>]>,
}

impl ServerLink {
    /// A link that sends nothing until the server is identified. Its connections run on the current runtime, which must outlive the link. The runtime
    /// of `home` must have timers and I/O.
    pub(crate) fn new(target: ServerTarget, settings: LinkSettings, home: Option<Home>) -> Self {
        let shared = LinkShared::new(target, settings, home);
        let [pool, own] = [Role::Calls, Role::Notices].map(|role| Pool::new(&shared, role));
        let durable = Arc::new(Durable::new(&shared));
        let pools = [&pool, &own].into_iter().chain(durable.all()).map(Arc::clone).collect();
        let notices = Arc::new(Notices::new(Arc::clone(&pool), own));
        Self(Arc::new(Links { pools, pool, notices, durable }))
    }

    /// Connects and identifies the server, within the connect deadline.
    pub(crate) async fn connect(&self) -> Result<(), ConnectError> {
        let links = Arc::clone(&self.0);
        let connected = self.0.pool.runtime.spawn(async move {
            let info = links.connect().await?;
            links.identified(info);
            Ok(())
        });
        connected.await.unwrap_or_else(|_| Err(ConnectError::silent(self.shared().target.to_string())))
    }

    /// Connects and identifies the server in the background, without a time limit. `accept` may refuse the server, and the
    /// link then retries. `then` runs once the server is identified, before anything is sent to it.
    pub(crate) fn identify(
        &self,
        accept: impl Fn(&ServerInfo) -> Result<(), String> + Send + Sync + 'static,
        then: impl FnOnce(&ServerInfo) + Send + 'static,
    ) {
        let links = Arc::clone(&self.0);
        drop(self.0.pool.runtime.spawn(async move {
            let shared = &links.pool.shared;
            let info = tokio::select! {
                biased;
                () = shared.closed.cancelled() => return,
                info = links.connect_at_last(accept) => info,
            };
            then(&info);
            links.identified(info);
            // Wakes requests that failed before the server was identified.
            shared.events.event(LinkEvent::CallsReset);
        }));
    }
}

impl Links {
    /// Connects and identifies the server, within the connect deadline. If nothing listens, or the server refuses, the error
    /// comes at once. A caller who expects that to change does not wait here.
    async fn connect(&self) -> Result<ServerInfo, ConnectError> {
        let LinkShared { target, settings, .. } = &*self.pool.shared;
        let deadline = Instant::now() + settings.connect_deadline;
        let mut backoff = Backoff::default();
        let mut trouble = None;
        loop {
            let attempt = async {
                tokio::time::sleep(backoff.next(&settings.network)).await;
                self.attempt().await
            };
            let error = match tokio::time::timeout_at(deadline, attempt).await {
                Ok(Ok(info)) => return Ok(info),
                Ok(Err(error)) => error,
                // The error of a failed attempt is more specific than the deadline's error.
                Err(_) => match trouble {
                    Some(trouble) => return Err(ConnectError::after(trouble, settings.connect_deadline)),
                    None => ConnectError::silent(target.to_string()),
                },
            };
            let error = self.explained(error).await;
            if !error.is_transient() || matches!(error, ConnectError::NotServing { .. }) {
                return Err(error);
            }
            if matches!(error, ConnectError::Unreachable { .. })
                && let Some(refusal) = refused_by_all(&settings.network, &target.servers).await
            {
                return Err(ConnectError::NothingListens { server: target.to_string(), source: Cause::new(refusal) });
            }
            trouble = Some(error);
        }
    }

    /// Connects and identifies the server, without a time limit. Until then calls fail with the reason of the last failure.
    async fn connect_at_last(&self, accept: impl Fn(&ServerInfo) -> Result<(), String>) -> ServerInfo {
        let shared = &self.pool.shared;
        let mut backoff = Backoff::default();
        let (began, mut is_reported) = (Instant::now(), false);
        loop {
            tokio::time::sleep(backoff.next(&shared.settings.network)).await;
            match self.attempt().await {
                Ok(info) => match accept(&info) {
                    Ok(()) => return info,
                    Err(reason) => shared.identity.record_failure(reason, true),
                },
                Err(error) => {
                    let error = self.explained(error).await;
                    // The cluster's nodes are still unknown.
                    if let (true, Some(seed), None) =
                        (error.is_transient(), shared.target.servers.first(), &shared.slots)
                        && !std::mem::replace(&mut is_reported, true)
                    {
                        let (server, why, lost_for) = (seed.label(), error.to_string(), began.elapsed());
                        shared.events.event(LinkEvent::OutOfReach { server, why, lost_for, slots: None });
                    }
                    shared.identity.record_failure(error.to_string(), !error.is_transient());
                }
            }
        }
    }

    /// Tries once to open all connections except a cluster's notice connections.
    async fn attempt(&self) -> Result<ServerInfo, ConnectError> {
        let manager = open(&self.pool).await?;
        let info = server_info(&self.pool.shared, &manager).await?;
        // On a cluster, connections for notices open on demand.
        if self.pool.shared.slots.is_none() && (info.sharded_notices || !manager.is_resp3()) {
            open(&self.notices.own).await?;
        }
        Ok(info)
    }

    /// Returns the error of a URL with the wrong TLS setting, or `error`.
    async fn explained(&self, error: ConnectError) -> ConnectError {
        let LinkShared { target, settings, .. } = &*self.pool.shared;
        if matches!(error, ConnectError::Unreachable { .. } | ConnectError::Protocol { .. }) {
            for seed in &target.servers {
                if let Some(mismatch) = tls_mismatch(&settings.network, seed, target.secure).await {
                    return mismatch;
                }
            }
        }
        error
    }

    /// From now on the link sends calls.
    fn identified(&self, info: ServerInfo) {
        self.pool.shared.identity.complete(info);
        let maintained = maintain(Arc::clone(&self.pools), Arc::clone(&self.pool), Arc::clone(&self.notices));
        drop(self.pool.runtime.spawn(maintained));
    }

    /// Closes all connections, from any thread. The tasks that own the sockets close them when they next run.
    pub(super) fn close(&self) {
        let shared = &self.pool.shared;
        shared.closed.cancel();
        self.pools.iter().flat_map(|pool| pool.all()).for_each(|(_, manager)| manager.close());
        shared.events.close();
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.close();
    }
}

/// Connects to the only server, or to all reachable nodes of a cluster, at least one. Tries the addresses in order.
async fn open(pool: &Arc<Pool>) -> Result<Arc<ConnectionManager>, ConnectError> {
    let mut trouble = None;
    for seed in &pool.shared.target.servers {
        match first(pool, seed.clone()).await {
            Err(error) if error.is_transient() => trouble = Some(error),
            opened => return opened,
        }
    }
    Err(trouble.unwrap_or_else(|| ConnectError::Address("it names no host".to_owned())))
}

/// Connects to a seed, and to the nodes that the seed announces.
async fn first(pool: &Arc<Pool>, seed: Server) -> Result<Arc<ConnectionManager>, ConnectError> {
    let shared = &pool.shared;
    let label = seed.label();
    let by_address = matches!(seed, Server::At(_));
    let manager = pool.manager(seed);
    manager.open().await?;
    let connection = manager.current().map_err(|error| ConnectError::of_loss(&label, error))?;
    let Some(slots) = &shared.slots else {
        if connection.about.is_cluster {
            connection.end();
            return Err(ConnectError::IsACluster { server: label });
        }
        // Sentinel finds the primary. This also accepts a former primary that returns as a replica: its address will soon
        // lead to another primary, and calls wait for it.
        if by_address && connection.about.is_read_only {
            connection.end();
            return Err(ConnectError::ReadOnly { server: label });
        }
        pool.adopt(0, &manager);
        return Ok(manager);
    };
    slots.read(&connection, shared.settings.attempt()).await.inspect_err(|_| connection.end())?;
    // The seed is usually a node itself: reuse its connection.
    let own = slots.node(&connection.server);
    let primaries = slots.primaries();
    if primaries.contains(&own) {
        pool.adopt(own, &manager);
    } else {
        manager.close();
    }
    let all: Vec<_> = primaries.iter().filter_map(|node| pool.to(*node)).collect();
    let ready = join_all(all.iter().map(|manager| manager.ready())).await;
    let announced: Vec<_> = all.iter().take(3).map(|manager| manager.label()).collect();
    let standing = all.into_iter().zip(ready).find(|(_, ready)| ready.is_ok());
    standing.map(|(manager, _)| manager).ok_or_else(|| ConnectError::Unreachable {
        server: label,
        reason: format!(
            "no announced node is reachable: {}; if the nodes have other addresses from here, use map_addresses",
            announced.join(", ")
        ),
        source: None,
    })
}

/// The time limit for probes of an unreachable server.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns a refusal if every address refuses the connection. A silent address, or an unresolved name, may belong to a server.
async fn refused_by_all(network: &Network, seeds: &[Server]) -> Option<io::Error> {
    let refusal = async {
        let mut refusal = None;
        for seed in seeds {
            if let Server::At(Endpoint::Unix(path)) = seed {
                let error = network.dial_unix(path).await.err()?;
                return matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound).then_some(error);
            }
            for host in seed.hosts() {
                for address in network.addresses(host).await.ok()? {
                    let error = network.dial(address).await.err()?;
                    match error.kind() {
                        ErrorKind::ConnectionRefused => refusal = Some(error),
                        // `localhost` has an IPv6 address even on machines without IPv6.
                        ErrorKind::AddrNotAvailable => {}
                        _ => return None,
                    }
                }
            }
        }
        refusal
    };
    tokio::time::timeout(PROBE_TIMEOUT, refusal).await.ok()?
}

/// Returns the error of a URL with the wrong TLS setting.
async fn tls_mismatch(network: &Network, seed: &Server, secure: bool) -> Option<ConnectError> {
    // A server without TLS replies to the command, and a TLS server replies to the empty handshake with an alert.
    const ALERT: u8 = 0x15;
    let greeting: &[u8] = if secure { b"PING\r\n" } else { &[0x16, 3, 1, 0, 4, 1, 0, 0, 0] };
    if seed.hosts().is_empty() {
        return None;
    }
    let probes = seed.hosts().iter().map(|host| {
        Box::pin(async move {
            let first = tokio::time::timeout(PROBE_TIMEOUT, first_byte(network, host, greeting)).await;
            first.ok().flatten().ok_or(())
        })
    });
    let (first, _) = select_ok(probes).await.ok()?;
    let reason = match (secure, first) {
        (true, b'+' | b'-') => {
            "it answers without TLS; use redis:// or valkey:// instead of rediss:// or valkeys://".to_owned()
        }
        (false, ALERT) => format!("it expects TLS; {}", tls::ADVICE),
        _ => return None,
    };
    Some(ConnectError::Tls { server: seed.label(), reason, source: None })
}

/// Returns the first byte of the server's reply.
async fn first_byte(network: &Network, host: &Host, greeting: &[u8]) -> Option<u8> {
    let socket = network.dial_host(host, network.addresses(host).await.ok()?).await.ok()?;
    // A new socket accepts these few bytes in one write.
    socket.write(greeting).ok()?;
    let mut first = [0];
    let read = socket.watch().ok()?.read(&mut first).await.ok()?;
    (read == 1).then_some(first[0])
}
