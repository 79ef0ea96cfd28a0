//! The network of a link: name lookup, sockets and byte streams. Nothing else leaves the process.
//!
//! Any thread can read and write a socket without blocking. To wait for readiness, a runtime [watches](Socket::watch)
//! it; several runtimes can watch one socket. The network is a parameter, so tests run whole links in memory.

use super::error::ConnectError;
use super::shared::LinkSettings;
use super::target::{Endpoint, Host, ServerTarget};
#[cfg(test)]
use super::tests::memory::{Memory, Tasks};
use super::tls::Session;
use crate::error::Cause;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rustix::net::{RecvFlags, SendFlags, Shutdown, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
#[cfg(test)]
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// How long to wait before also trying the host's next address (RFC 8305).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, Default)]
pub(crate) enum Network {
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

    pub(super) async fn dial(&self, address: SocketAddr) -> io::Result<Socket> {
        match self {
            Self::System => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                // The probes find dead connections, and keep live ones open in firewalls and load balancers.
                sockopt::set_socket_keepalive(&stream, true)?;
                // Other systems use their defaults.
                #[cfg(any(target_os = "linux", target_os = "macos"))]
                {
                    sockopt::set_tcp_keepidle(&stream, Duration::from_secs(15))?;
                    sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(5))?;
                }
                Ok(Socket::System(stream.into_std()?.into()))
            }
            #[cfg(test)]
            Self::Memory(memory) => memory.dial(address).map(|end| Socket::Memory(Arc::new(end))),
        }
    }

    pub(super) async fn dial_unix(&self, path: &Path) -> io::Result<Socket> {
        match self {
            Self::System => Ok(Socket::System(tokio::net::UnixStream::connect(path).await?.into_std()?.into())),
            #[cfg(test)]
            Self::Memory(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The first connection to any of a host's addresses, or the error of the last address.
    pub(super) async fn dial_host(&self, host: &Host, addresses: Vec<SocketAddr>) -> Result<Socket, ConnectError> {
        let failed = |error| ConnectError::of_io(&host.label(), error);
        let mut waiting = addresses.into_iter();
        let mut attempts = FuturesUnordered::new();
        attempts.extend(waiting.next().map(|address| self.dial(address)));
        loop {
            tokio::select! {
                biased;
                Some(connected) = attempts.next() => match (connected, waiting.next()) {
                    (Ok(socket), _) => return Ok(socket),
                    (Err(_), Some(next)) => attempts.push(self.dial(next)),
                    (Err(error), None) if attempts.is_empty() => return Err(failed(error)),
                    (Err(_), None) => {}
                },
                () = tokio::time::sleep(NEXT_ADDRESS), if waiting.len() > 0 => {
                    attempts.extend(waiting.next().map(|address| self.dial(address)));
                }
                else => return Err(failed(io::ErrorKind::AddrNotAvailable.into())),
            }
        }
    }

    /// Returns a random byte, which spreads the reconnects of many clients.
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

pub(super) enum Socket {
    /// TCP or Unix.
    System(OwnedFd),
    #[cfg(test)]
    Memory(Arc<super::tests::memory::End>),
}

impl Socket {
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::System(socket) => receive(socket, buffer),
            #[cfg(test)]
            Self::Memory(end) => end.try_read(buffer),
        }
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::System(socket) => send(socket, bytes),
            #[cfg(test)]
            Self::Memory(end) => end.try_write(bytes),
        }
    }

    pub(super) fn shut_down(&self) {
        match self {
            // A disconnected socket needs no shutdown.
            Self::System(socket) => drop(rustix::net::shutdown(socket, Shutdown::Both)),
            #[cfg(test)]
            Self::Memory(end) => end.shut_down(),
        }
    }

    /// Registers the socket with the current runtime, which must have I/O enabled.
    pub(super) fn watch(&self) -> io::Result<Watched> {
        Ok(match self {
            Self::System(socket) => Watched::System(TcpStream::from_std(socket.try_clone()?.into())?),
            #[cfg(test)]
            Self::Memory(end) => Watched::Memory(Arc::clone(end)),
        })
    }
}

fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?.0)
}

fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

pub(super) enum Watched {
    /// TCP or Unix: tokio needs only the descriptor.
    System(TcpStream),
    #[cfg(test)]
    Memory(Arc<super::tests::memory::End>),
}

impl Watched {
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::System(socket) => socket.ready(interest).await,
            #[cfg(test)]
            Self::Memory(end) => Ok(end.ready(interest).await),
        }
    }

    /// Reads what has arrived. A short read has emptied the socket, so the next call needs no system call.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut short = None;
        let read = match self {
            // `try_io` notes the last event before the read, and so keeps an event during the read.
            Self::System(socket) => socket.try_io(Interest::READABLE, || match receive(socket, buffer) {
                Ok(read) if EDGE_TRIGGERED && 0 < read && read < buffer.len() => {
                    short = Some(read);
                    Err(io::ErrorKind::WouldBlock.into())
                }
                read => read,
            }),
            #[cfg(test)]
            Self::Memory(end) => end.try_read(buffer),
        };
        short.map_or(read, Ok)
    }

    /// Writes as much as the socket accepts. Afterwards [`Watched::ready`] waits until it accepts more.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::System(socket) => socket.try_io(Interest::WRITABLE, || send(socket, bytes)),
            #[cfg(test)]
            Self::Memory(end) => end.try_write(bytes),
        }
    }

    /// Waits for bytes, and reads them.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.ready(Interest::READABLE).await?;
            match self.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Whether the system reports new bytes despite earlier unread bytes, like epoll and kqueue. Tokio's own streams also treat a short read
/// as the last.
const EDGE_TRIGGERED: bool = cfg!(all(
    not(mio_unsupported_force_poll_poll),
    any(target_os = "linux", target_os = "android", target_vendor = "apple")
));

pub(super) struct Stream {
    pub(super) socket: Socket,
    pub(super) tls: Option<Session>,
}

impl Stream {
    pub(super) async fn connect(
        target: &ServerTarget,
        to: &Endpoint,
        settings: &LinkSettings,
    ) -> Result<Self, ConnectError> {
        let network = &settings.network;
        let mut is_resolved = true;
        let connected = async {
            match to {
                Endpoint::Unix(path) => {
                    let socket = network.dial_unix(path).await;
                    Ok(Self { socket: socket.map_err(|error| ConnectError::of_io(&to.label(), error))?, tls: None })
                }
                Endpoint::Tcp(host) => {
                    is_resolved = false;
                    let addresses = network.addresses(host).await?;
                    is_resolved = true;
                    let socket = network.dial_host(host, addresses).await?;
                    let tls = match &target.tls {
                        Some(config) => Some(Session::open(&socket, host, config).await?),
                        None if target.secure => return Err(ConnectError::Certificates("none were read".to_owned())),
                        None => None,
                    };
                    Ok(Self { socket, tls })
                }
            }
        };
        let connected = tokio::time::timeout(settings.attempt(), connected).await;
        match connected {
            Ok(connected) => connected,
            Err(_) if is_resolved => Err(ConnectError::silent(to.label())),
            Err(_) => Err(ConnectError::Dns {
                server: to.label(),
                reason: "the resolver gave no answer in time".to_owned(),
                source: None,
            }),
        }
    }
}
