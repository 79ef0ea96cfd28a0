//! Whether anything listens where a client is to connect.
//!
//! A connection that is refused proves that nothing does, and then waiting is of no use to a caller who has said that the server is there.
//! fred's errors do not tell this apart for Sentinels, and for a host with several addresses they tell of one; so the addresses are asked.

use fred::types::config::ServerConfig;
use futures_util::future::join_all;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// How long the addresses may take to refuse.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether every address refuses the connection. One that is silent, or whose name is not resolved, may belong to a server.
pub(super) async fn nothing_listens(seeds: &[ServerConfig], left: Duration) -> bool {
    let refusals = join_all(seeds.iter().map(refuses));
    let refusals = tokio::time::timeout(PATIENCE.min(left), refusals).await;
    refusals.is_ok_and(|refusals| !refusals.is_empty() && refusals.iter().all(|refused| *refused))
}

async fn refuses(seed: &ServerConfig) -> bool {
    if let ServerConfig::Unix { path } = seed {
        return has_no_listener(path).await;
    }
    let hosts = seed.hosts();
    let refusals = join_all(hosts.iter().map(|server| is_refused(&server.host, server.port))).await;
    !refusals.is_empty() && refusals.iter().all(|refused| *refused)
}

async fn is_refused(host: &str, port: u16) -> bool {
    let Ok(addresses) = tokio::net::lookup_host((host, port)).await else { return false };
    let mut refused = false;
    for address in addresses {
        match TcpStream::connect(address).await.map_err(|error| error.kind()) {
            Err(ErrorKind::ConnectionRefused) => refused = true,
            // `localhost` has an address of IPv6 on machines that have no IPv6.
            Err(ErrorKind::AddrNotAvailable) => {}
            _ => return false,
        }
    }
    refused
}

async fn has_no_listener(socket: &Path) -> bool {
    let connected = UnixStream::connect(socket).await;
    connected.is_err_and(|error| matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound))
}
