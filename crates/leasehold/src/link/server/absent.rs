//! Whether anything listens where a client is to connect.
//!
//! A connection that is refused proves that nothing does, and then waiting is of no use to a caller who has said that the server is there.
//! All addresses of all hosts must refuse: one of them may be the server's.

use super::network::Network;
use super::target::{Endpoint, Host, Server};
use futures_util::future::join_all;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// How long the addresses may take to refuse.
const PATIENCE: Duration = Duration::from_millis(500);

/// The refusal of one address, if every address refuses the connection. One that is silent, or whose name is not resolved, may belong to a
/// server.
pub(super) async fn refusal(network: &Network, seeds: &[Server], left: Duration) -> Option<io::Error> {
    let refusals = join_all(seeds.iter().map(|seed| refusal_of(network, seed)));
    unanimous(tokio::time::timeout(PATIENCE.min(left), refusals).await.ok()?)
}

/// One of the refusals, if all refuse.
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
            // `localhost` has an address of IPv6 on machines that have no IPv6.
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
