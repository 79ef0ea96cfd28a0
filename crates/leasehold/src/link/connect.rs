//! Opens the first connections of a link, and identifies the server.
//!
//! After a failure the link looks for the likely mistake. If all addresses of all hosts refuse the connection, waiting
//! is pointless for a caller who expects a running server. A mismatch of TLS is not reported by servers: a server
//! without TLS reads the handshake as the start of a long command and waits for the rest, and a TLS server closes the
//! connection. So the link probes the server with the other protocol, without user and password.

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
use tokio::io::Interest;
use tokio::time::Instant;

/// A link before its connections, which need the runtime that will own them.
pub(crate) struct Connector(Arc<LinkShared>);

impl Connector {
    /// The runtime of `home` must have timers and I/O. Fails if TLS finds no certificate authorities.
    pub(crate) fn new(target: ServerTarget, settings: LinkSettings, home: Option<Home>) -> Result<Self, ConnectError> {
        Ok(Self(LinkShared::new(target.prepared()?, settings, home)))
    }
}

/// The connections of a link. Connections for notices alone and for calls that wait for replicas open on demand.
pub(super) struct Links {
    pub(super) pool: Arc<Pool>,
    pub(super) notices: Arc<Notices>,
    pub(super) durable: Arc<Durable>,
    /// Every connection of the link.
    pools: Arc<[Arc<Pool>]>,
}

impl ServerLink {
    /// Connects on the current runtime, which must outlive the link, and identifies the server. Dropping the future
    /// closes the connections.
    pub(crate) async fn connect(connector: &Connector) -> Result<Self, ConnectError> {
        let shared = &connector.0;
        let deadline = Instant::now() + shared.settings.connect_deadline;
        let link = Self::unconnected(connector);
        let Links { pool, notices, .. } = &*link.0;
        let manager = connect(pool, deadline).await?;
        let info = server_info_within(deadline, shared, &manager).await?;
        notices.shard(info.sharded_notices);
        if notices.need_a_connection() {
            connect(&notices.own, deadline).await?;
        }
        link.0.maintain();
        shared.identity.complete(info);
        Ok(link)
    }

    /// A link that sends nothing until the server is identified. Its connections will run on the current runtime.
    pub(crate) fn unconnected(connector: &Connector) -> Self {
        let [pool, own] = [Role::Calls, Role::Notices].map(|role| Pool::new(&connector.0, role));
        let durable = Arc::new(Durable::new(&connector.0));
        let pools = [&pool, &own].into_iter().chain(durable.all()).map(Arc::clone).collect();
        let notices = Arc::new(Notices::new(Arc::clone(&pool), own));
        Self(Arc::new(Links { pools, pool, notices, durable }))
    }

    /// Identifies the server on the background's runtime, without a time limit. `accept` may refuse the server, and the
    /// link then retries. `then` runs once the server is identified, before anything is sent to it.
    pub(crate) fn identify(
        &self,
        accept: impl Fn(&ServerInfo) -> Result<(), String> + Send + Sync + 'static,
        then: impl FnOnce(&ServerInfo) + Send + 'static,
    ) {
        let link = self.clone();
        drop(self.0.pool.runtime.spawn(async move {
            let shared = link.shared();
            let info = tokio::select! {
                biased;
                () = shared.closed.cancelled() => return,
                info = link.0.identified(accept) => info,
            };
            then(&info);
            shared.identity.complete(info);
            // Wakes requests that failed before the server was identified.
            shared.events.event(LinkEvent::CallsReset);
        }));
    }
}

impl Links {
    /// Connects and identifies the server. Until then calls fail with the reason of the last failure.
    async fn identified(&self, accept: impl Fn(&ServerInfo) -> Result<(), String>) -> ServerInfo {
        let shared = &self.pool.shared;
        let mut backoff = Backoff::default();
        let (began, mut is_reported) = (Instant::now(), false);
        loop {
            tokio::time::sleep(backoff.next(&shared.settings.network)).await;
            match self.attempt().await {
                Ok(info) => match accept(&info) {
                    Ok(()) => {
                        self.maintain();
                        return info;
                    }
                    Err(reason) => shared.identity.record_failure(reason, true),
                },
                Err(error) => {
                    // The cluster's nodes are still unknown.
                    if let (true, Some(seed), None) =
                        (error.is_transient(), shared.target.seeds().first(), &shared.slots)
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

    /// One attempt to open all connections, except for notices on a cluster.
    async fn attempt(&self) -> Result<ServerInfo, ConnectError> {
        let shared = &self.pool.shared;
        let manager = connect_once(&self.pool).await?;
        let info = server_info(shared, &manager).await?;
        self.notices.shard(info.sharded_notices);
        if self.notices.need_a_connection() {
            connect_once(&self.notices.own).await?;
        }
        Ok(info)
    }

    fn maintain(&self) {
        let maintained = maintain(Arc::clone(&self.pools), Arc::clone(&self.pool), Arc::clone(&self.notices));
        drop(self.pool.runtime.spawn(maintained));
    }

    /// Closes all connections, from any thread. The tasks that own the sockets close them when they next run.
    pub(super) fn close(&self) {
        let shared = &self.pool.shared;
        shared.closed.cancel();
        self.pools.iter().for_each(|pool| pool.close());
        shared.events.close();
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.close();
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Connects to the only server, or to all reachable nodes of a cluster, at least one. If nothing listens, or the server
/// refuses, the error comes at once. A caller who expects that to change does not wait here.
async fn connect(pool: &Arc<Pool>, deadline: Instant) -> Result<Arc<ConnectionManager>, ConnectError> {
    let shared = &pool.shared;
    let network = &shared.settings.network;
    let mut backoff = Backoff::default();
    let mut trouble = None;
    loop {
        tokio::time::sleep(backoff.next(network).min(left(deadline))).await;
        if let Some(manager) = pass(pool, deadline, &mut trouble).await? {
            return Ok(manager);
        }
        if let Some(refusal @ ConnectError::NotServing { .. }) = trouble {
            return Err(refusal);
        }
        let target = &shared.target;
        if matches!(trouble, Some(ConnectError::Unreachable { .. }))
            && let Some(refusal) = refused_by_all(network, &target.seeds(), left(deadline)).await
        {
            return Err(ConnectError::NothingListens { server: target.to_string(), source: Cause::new(refusal) });
        }
        if left(deadline).is_zero() {
            return Err(trouble.unwrap_or_else(no_host).after(shared.settings.connect_deadline));
        }
    }
}

/// As above, with one attempt for each address.
async fn connect_once(pool: &Arc<Pool>) -> Result<Arc<ConnectionManager>, ConnectError> {
    let shared = &pool.shared;
    let addresses = u32::try_from(shared.target.seeds().len()).unwrap_or(u32::MAX);
    // One attempt for each address, plus one for the name lookups.
    let deadline = Instant::now() + shared.settings.attempt().saturating_mul(addresses.saturating_add(1));
    let mut trouble = None;
    let connected = pass(pool, deadline, &mut trouble).await?;
    connected.ok_or_else(|| trouble.unwrap_or_else(no_host))
}

fn no_host() -> ConnectError {
    ConnectError::Address("it names no host".to_owned())
}

/// Tries the addresses in order. Stores a failure in `trouble`, or returns it if time does not fix it.
async fn pass(
    pool: &Arc<Pool>,
    deadline: Instant,
    trouble: &mut Option<ConnectError>,
) -> Result<Option<Arc<ConnectionManager>>, ConnectError> {
    let shared = &pool.shared;
    let network = &shared.settings.network;
    for seed in shared.target.seeds() {
        let error = match tokio::time::timeout(left(deadline), resolve(network, &seed)).await {
            Ok(Ok(())) => match tokio::time::timeout(left(deadline), first(pool, seed.clone())).await {
                Ok(Ok(manager)) => return Ok(Some(manager)),
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            },
            Ok(Err(error)) => Some(error),
            Err(_) => Some(ConnectError::Dns {
                server: seed.label(),
                reason: "the resolver gave no answer in time".to_owned(),
                source: None,
            }),
        };
        let is_silent =
            |error: &ConnectError| matches!(error, ConnectError::Unreachable { .. } | ConnectError::Protocol { .. });
        if error.as_ref().is_none_or(is_silent)
            && let Some(mismatch) = tls_mismatch(network, &seed, shared.target.secure).await
        {
            return Err(mismatch);
        }
        match error {
            Some(error) if !error.is_transient() => return Err(error),
            Some(error) => *trouble = Some(error),
            // The deadline's error is less specific than the error of a failed attempt.
            None => {
                let silent = ConnectError::silent(seed.label());
                trouble.get_or_insert(match shared.target.secure {
                    true => silent.with_advice("it may not speak TLS"),
                    false => silent,
                });
            }
        }
    }
    Ok(None)
}

async fn resolve(network: &Network, seed: &Server) -> Result<(), ConnectError> {
    match seed {
        Server::At(Endpoint::Tcp(host)) => network.addresses(host).await.map(drop),
        _ => Ok(()),
    }
}

/// Connects to a seed, and to the nodes that it names.
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
        // Sentinel finds the primary. A primary that returns as a replica is not refused either. Its address will soon
        // lead to another primary, and calls wait for that.
        if by_address && connection.about.is_read_only {
            connection.end();
            return Err(ConnectError::ReadOnly { server: label });
        }
        pool.adopt(0, &manager);
        return Ok(manager);
    };
    slots.read(&connection, shared.settings.attempt()).await.inspect_err(|_| connection.end())?;
    // The seed is usually one of the nodes, so its connection is reused.
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

/// Identifies the server. Retries if its slot has replaced a lost connection.
async fn server_info_within(
    deadline: Instant,
    shared: &LinkShared,
    manager: &ConnectionManager,
) -> Result<ServerInfo, ConnectError> {
    let mut lost = None;
    let asked = async {
        loop {
            match server_info(shared, manager).await {
                Err(error) if error.is_transient() => lost = Some(error),
                answered => return answered,
            }
            manager.standing().await;
        }
    };
    match tokio::time::timeout(left(deadline), asked).await {
        Ok(answered) => answered,
        Err(_) => {
            Err(lost.unwrap_or_else(|| ConnectError::silent(manager.label())).after(shared.settings.connect_deadline))
        }
    }
}

/// The time limit for probes of a server that cannot be reached.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// A refusal, if every address refuses the connection. A silent address, or an unresolved name, may belong to a server.
async fn refused_by_all(network: &Network, seeds: &[Server], left: Duration) -> Option<io::Error> {
    let refusals = join_all(seeds.iter().map(|seed| refused_by(network, seed)));
    unanimous(tokio::time::timeout(PROBE_TIMEOUT.min(left), refusals).await.ok()?)
}

fn unanimous(refusals: Vec<Option<io::Error>>) -> Option<io::Error> {
    refusals.into_iter().collect::<Option<Vec<_>>>()?.pop()
}

async fn refused_by(network: &Network, seed: &Server) -> Option<io::Error> {
    if let Server::At(Endpoint::Unix(path)) = seed {
        let error = network.dial_unix(path).await.err()?;
        return matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound).then_some(error);
    }
    unanimous(join_all(seed.hosts().iter().map(|host| refused_by_host(network, host))).await)
}

async fn refused_by_host(network: &Network, host: &Host) -> Option<io::Error> {
    let mut refusal = None;
    for address in network.addresses(host).await.ok()? {
        let error = network.dial(address).await.err()?;
        match error.kind() {
            ErrorKind::ConnectionRefused => refusal = Some(error),
            // `localhost` has an IPv6 address even on machines without IPv6.
            ErrorKind::AddrNotAvailable => {}
            _ => return None,
        }
    }
    refusal
}

/// The error of a URL that is wrong about TLS.
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

/// The first byte of the server's reply.
async fn first_byte(network: &Network, host: &Host, greeting: &[u8]) -> Option<u8> {
    let socket = network.dial_host(host).await.ok()?;
    // A new connection accepts so few bytes in one write.
    socket.write(greeting).ok()?;
    let watched = socket.watch().ok()?;
    let mut first = [0];
    loop {
        watched.ready(Interest::READABLE).await.ok()?;
        match watched.try_read(&mut first) {
            Ok(read) => return (read == 1).then_some(first[0]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}
