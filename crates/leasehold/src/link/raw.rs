//! Plain commands to servers, for tools: configuration, clock, slow log.

use super::connection::Connection;
use super::error::ConnectError;
use super::route::Slots;
use super::shared::LinkSettings;
use super::target::{Endpoint, Server, ServerTarget};
use super::{handshake, target};
use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_core::reply::Reply;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A connection to one server for plain commands, separate from a client's connections. Dropping the value closes the connection.
pub struct RawConnection {
    connection: Connection,
    timeout: Duration,
}

impl RawConnection {
    /// The address of the server, such as `db:6379`.
    pub fn address(&self) -> &str {
        &self.connection.server
    }

    /// Sends a command, and returns the reply within the command timeout.
    ///
    /// # Errors
    ///
    /// The server's refusal with its error message, or a missing reply.
    ///
    /// # Cancel safety
    ///
    /// The server may still execute the command after the future is dropped.
    pub async fn ask(&self, command: &'static str, args: &[&str]) -> Result<Reply, String> {
        let args = args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect();
        match self.connection.send(command, args, self.timeout).await {
            Ok(Reply::Error(refusal)) => Err(refusal.text().to_owned()),
            Ok(reply) => Ok(reply),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn open(target: &ServerTarget, server: Server, settings: &LinkSettings) -> Result<Self, ConnectError> {
        let connection = Connection::connect(target, server, settings, &Arc::default()).await?;
        Ok(Self { connection, timeout: settings.command_timeout })
    }
}

impl fmt::Debug for RawConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawConnection").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// Connects to the only server, or to each reachable primary of a cluster, ordered by address.
pub(crate) async fn primaries(
    target: &ServerTarget,
    settings: &LinkSettings,
) -> Result<Vec<RawConnection>, ConnectError> {
    let mut trouble = None;
    for seed in &target.servers {
        let first = match RawConnection::open(target, seed.clone(), settings).await {
            Ok(first) => first,
            Err(error) => {
                trouble.get_or_insert(error);
                continue;
            }
        };
        if !target.is_cluster {
            return Ok(vec![first]);
        }
        let slots = Slots::default();
        slots.read(&first.connection, first.timeout).await?;
        let mut addresses: Vec<_> = slots.primaries().into_iter().filter_map(|node| slots.address(node)).collect();
        addresses.sort();
        let each = addresses.iter().filter_map(|address| target::host_and_port(address));
        let opened = each.map(|(host, port)| RawConnection::open(target, target.node(host, port), settings));
        return Ok(join_all(opened).await.into_iter().filter_map(Result::ok).collect());
    }
    Err(trouble.unwrap_or_else(|| ConnectError::silent(target.to_string())))
}

/// Returns the service that Sentinels watch, and each Sentinel's address and connection; `None` without Sentinels.
pub(crate) async fn sentinels(
    target: &ServerTarget,
    settings: &LinkSettings,
) -> Result<Option<(String, Vec<(String, Result<RawConnection, ConnectError>)>)>, ConnectError> {
    let Some(Server::OfSentinels(sentinels)) = target.servers.first() else { return Ok(None) };
    let each = sentinels.hosts.iter().map(|host| async {
        let opened = handshake::sentinel(target, &Endpoint::Tcp(host.clone()), sentinels, settings).await;
        let timeout = settings.command_timeout;
        (host.label(), opened.map(|connection| RawConnection { connection, timeout }))
    });
    let all = join_all(each).await;
    Ok(Some((sentinels.service.clone(), all)))
}
