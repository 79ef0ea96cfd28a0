//! Whether anything listens where a client is to connect.
//!
//! A connection that is refused proves that nothing does, and then waiting is of no use to a caller who has said that the server is there.
//! All addresses of all hosts must refuse: one of them may be the server's.

use super::target::{Endpoint, Server};
use futures_util::future::join_all;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// How long the addresses may take to refuse.
const PATIENCE: Duration = Duration::from_millis(500);

/// The refusal of one address, if every address refuses the connection. One that is silent, or whose name is not resolved, may belong to a
/// server.
pub(super) async fn refusal(seeds: &[Server], left: Duration) -> Option<io::Error> {
    let refusals = join_all(seeds.iter().map(refusal_of));
    unanimous(tokio::time::timeout(PATIENCE.min(left), refusals).await.ok()?)
}

/// One of the refusals, if all refuse.
fn unanimous(refusals: Vec<Option<io::Error>>) -> Option<io::Error> {
    refusals.into_iter().collect::<Option<Vec<_>>>()?.pop()
}

async fn refusal_of(seed: &Server) -> Option<io::Error> {
    if let Server::At(Endpoint::Unix(path)) = seed {
        return refusal_of_socket(path).await;
    }
    unanimous(join_all(seed.hosts().iter().map(|host| refusal_of_host(&host.name, host.port))).await)
}

async fn refusal_of_host(host: &str, port: u16) -> Option<io::Error> {
    let mut refusal = None;
    for address in tokio::net::lookup_host((host, port)).await.ok()? {
        let error = TcpStream::connect(address).await.err()?;
        match error.kind() {
            ErrorKind::ConnectionRefused => refusal = Some(error),
            // `localhost` has an address of IPv6 on machines that have no IPv6.
            ErrorKind::AddrNotAvailable => {}
            _ => return None,
        }
    }
    refusal
}

async fn refusal_of_socket(socket: &Path) -> Option<io::Error> {
    let error = UnixStream::connect(socket).await.err()?;
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound).then_some(error)
}
