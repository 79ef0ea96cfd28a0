//! Detects that nothing listens at the addresses of the target.
//!
//! If every address refuses the connection, waiting is pointless for a caller who expects a running server. All
//! addresses of all hosts must refuse, because each may be the server's.

use super::network::Network;
use super::target::{Endpoint, Host, Server};
use futures_util::future::join_all;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// The time limit for the refusals.
const PATIENCE: Duration = Duration::from_millis(500);

/// A refusal, if every address refuses the connection. A silent address, or an unresolved name, may belong to a server.
pub(super) async fn refusal(network: &Network, seeds: &[Server], left: Duration) -> Option<io::Error> {
    let refusals = join_all(seeds.iter().map(|seed| refusal_of(network, seed)));
    unanimous(tokio::time::timeout(PATIENCE.min(left), refusals).await.ok()?)
}

/// A refusal, if all addresses refuse.
fn unanimous(refusals: Vec<Option<io::Error>>) -> Option<io::Error> {
    refusals.into_iter().collect::<Option<Vec<_>>>()?.pop()
}

async fn refusal_of(network: &Network, seed: &Server) -> Option<io::Error> {
    if let Server::At(Endpoint::Unix(path)) = seed {
        return refusal_of_socket(network, path).await;
    }
    unanimous(join_all(seed.hosts().iter().map(|host| refusal_of_host(network, host))).await)
}

async fn refusal_of_host(network: &Network, host: &Host) -> Option<io::Error> {
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

async fn refusal_of_socket(network: &Network, socket: &Path) -> Option<io::Error> {
    let error = network.dial_unix(socket).await.err()?;
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound).then_some(error)
}
