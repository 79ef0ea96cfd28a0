//! The network of a link: name lookup and sockets. Nothing else leaves the process.
//!
//! The network is a parameter, so tests run whole links on an in-memory network. Timers and tasks are tokio's in both
//! cases. On a single-threaded runtime with a paused clock they are deterministic.

use super::error::ConnectError;
use super::stream::Socket;
use super::target::Host;
#[cfg(test)]
use super::tests::memory::{Memory, Tasks};
use crate::error::Cause;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rustix::net::sockopt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
#[cfg(test)]
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;

/// The delay before an attempt at the next address of a host starts concurrently (RFC 8305).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// A network.
#[derive(Clone, Debug, Default)]
pub(crate) enum Network {
    /// The network of the operating system.
    #[default]
    System,
    #[cfg(test)]
    Memory(Arc<Memory>),
}

impl Network {
    /// The addresses of a host, at least one.
    pub(super) async fn addresses(&self, host: &Host) -> Result<Vec<SocketAddr>, ConnectError> {
        let found = match self {
            Self::System => tokio::net::lookup_host((&*host.name, host.port)).await.map(Iterator::collect),
            #[cfg(test)]
            Self::Memory(_) => Memory::addresses(host),
        };
        let (reason, source) = match found {
            Ok(found) if !Vec::is_empty(&found) => return Ok(found),
            Ok(_) => ("it has no address".to_owned(), None),
            Err(error) => (error.to_string(), Some(Cause::new(error))),
        };
        Err(ConnectError::Dns { server: host.label(), reason, source })
    }

    /// Connects to one address.
    pub(super) async fn dial(&self, address: SocketAddr) -> io::Result<Socket> {
        match self {
            Self::System => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                Ok(Socket::Tcp(stream.into_std()?))
            }
            #[cfg(test)]
            Self::Memory(memory) => memory.dial(address).map(|end| Socket::Memory(Arc::new(end))),
        }
    }

    /// Connects to a Unix socket.
    pub(super) async fn dial_unix(&self, path: &Path) -> io::Result<Socket> {
        match self {
            Self::System => Ok(Socket::Unix(UnixStream::connect(path).await?.into_std()?)),
            #[cfg(test)]
            Self::Memory(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Connects to a host. Tries all of its addresses.
    pub(super) async fn dial_host(&self, host: &Host) -> Result<Socket, ConnectError> {
        let addresses = self.addresses(host).await?;
        self.dial_first(addresses).await.map_err(|error| ConnectError::of_io(&host.label(), error))
    }

    /// The first connection to any of the addresses, or the error of the last address.
    async fn dial_first(&self, addresses: Vec<SocketAddr>) -> io::Result<Socket> {
        let mut waiting = addresses.into_iter();
        let mut attempts = FuturesUnordered::new();
        attempts.extend(waiting.next().map(|address| self.dial(address)));
        loop {
            tokio::select! {
                biased;
                Some(connected) = attempts.next() => match (connected, waiting.next()) {
                    (Ok(socket), _) => return Ok(socket),
                    (Err(_), Some(next)) => attempts.push(self.dial(next)),
                    (Err(error), None) if attempts.is_empty() => return Err(error),
                    (Err(_), None) => {}
                },
                () = tokio::time::sleep(NEXT_ADDRESS), if waiting.len() > 0 => {
                    attempts.extend(waiting.next().map(|address| self.dial(address)));
                }
                else => return Err(io::ErrorKind::AddrNotAvailable.into()),
            }
        }
    }

    /// A random byte, which spreads the reconnects of many clients.
    pub(super) fn jitter(&self) -> u8 {
        match self {
            // A UUID is random enough, and already a dependency.
            Self::System => uuid::Uuid::new_v4().as_bytes()[0],
            #[cfg(test)]
            Self::Memory(memory) => memory.jitter(),
        }
    }
}

/// The runtime on which the client was built. It reads replies while it runs.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    Runtime(Handle),
    #[cfg(test)]
    Tasks(Tasks),
}

impl Home {
    /// Starts a task. A runtime that has been shut down drops it at once.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Runtime(runtime) => drop(runtime.spawn(task)),
            #[cfg(test)]
            Self::Tasks(tasks) => tasks.spawn(task),
        }
    }
}

/// Turns on keep-alive: the system probes idle connections, and closes dead ones. The probes also keep connections
/// alive in firewalls and load balancers.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    // Other systems use their defaults.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        sockopt::set_tcp_keepidle(stream, Duration::from_secs(15))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    }
    Ok(())
}
