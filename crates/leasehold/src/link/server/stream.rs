//! The byte stream of a connection: TCP, TLS above it, or a Unix socket.
//!
//! Any thread can write without waiting. Reads, and writes after a full socket, need the runtime that made the stream,
//! because only that runtime gets the readiness events of the socket.

use super::Cause;
use super::error::ConnectError;
use super::settings::LinkSettings;
use super::target::{Endpoint, Host, ServerTarget};
use super::tls_session::Session;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rustix::net::{SendFlags, Shutdown, sockopt};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// The delay before an attempt at the next address of a host starts concurrently (RFC 8305).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects to a host. Tries all of its addresses.
    pub(super) async fn tcp(host: &Host) -> Result<Self, ConnectError> {
        let label = host.label();
        let unresolved = |reason: String, source| ConnectError::Dns { server: label.clone(), reason, source };
        let found = tokio::net::lookup_host((&*host.name, host.port)).await;
        let found = found.map_err(|error| unresolved(error.to_string(), Some(Cause::new(error))))?;
        let stream = match first_of(found.collect()).await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return Err(ConnectError::of_io(&label, error)),
            None => return Err(unresolved("it has no address".to_owned(), None)),
        };
        let unset = |error| ConnectError::of_io(&label, error);
        stream.set_nodelay(true).map_err(unset)?;
        keep_alive(&stream).map_err(unset)?;
        Ok(Self::Tcp(stream))
    }

    /// Connects to a Unix socket.
    pub(super) async fn unix(path: &Path) -> Result<Self, ConnectError> {
        let stream = UnixStream::connect(path).await;
        stream.map(Self::Unix).map_err(|error| ConnectError::of_io(&path.display().to_string(), error))
    }

    /// Waits until the socket is ready, on the runtime on which it was connected.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
        }
    }

    /// Reads what has arrived.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
        }
    }

    /// Writes as much as the socket accepts, from any thread. tokio does not notice a full socket: see
    /// [`Socket::try_write`].
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let written = match self {
            Self::Tcp(stream) => rustix::net::send(stream, bytes, flags),
            Self::Unix(stream) => rustix::net::send(stream, bytes, flags),
        };
        written.map_err(io::Error::from)
    }

    /// Writes as much as the socket accepts. Afterwards [`Socket::ready`] waits until it accepts more.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Ends the connection in both directions, from any thread.
    pub(super) fn shut_down(&self) {
        // A disconnected socket needs no shutdown.
        let _ = match self {
            Self::Tcp(stream) => rustix::net::shutdown(stream, Shutdown::Both),
            Self::Unix(stream) => rustix::net::shutdown(stream, Shutdown::Both),
        };
    }
}

/// The first connection to any of the addresses, or the error of the last address.
async fn first_of(addresses: Vec<SocketAddr>) -> Option<io::Result<TcpStream>> {
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    attempts.push(TcpStream::connect(waiting.next()?));
    loop {
        tokio::select! {
            biased;
            Some(connected) = attempts.next() => match (connected, waiting.next()) {
                (Ok(stream), _) => return Some(Ok(stream)),
                (Err(_), Some(next)) => attempts.push(TcpStream::connect(next)),
                (Err(error), None) if attempts.is_empty() => return Some(Err(error)),
                (Err(_), None) => {}
            },
            () = tokio::time::sleep(NEXT_ADDRESS), if waiting.len() > 0 => {
                attempts.extend(waiting.next().map(TcpStream::connect));
            }
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

/// Bytes in clear or through TLS.
pub(super) struct Stream {
    pub(super) socket: Socket,
    /// The TLS session, above the socket.
    pub(super) tls: Option<Session>,
}

impl Stream {
    /// Connects, with TLS if the target uses TLS.
    pub(super) async fn connect(
        target: &ServerTarget,
        to: &Endpoint,
        settings: &LinkSettings,
    ) -> Result<Self, ConnectError> {
        let connected = async {
            match to {
                Endpoint::Unix(path) => Ok(Self { socket: Socket::unix(path).await?, tls: None }),
                Endpoint::Tcp(host) => {
                    let socket = Socket::tcp(host).await?;
                    let tls = match target.tls() {
                        Some(config) => Some(Session::open(&socket, host, config).await?),
                        None => None,
                    };
                    Ok(Self { socket, tls })
                }
            }
        };
        match tokio::time::timeout(settings.attempt(), connected).await {
            Ok(connected) => connected,
            Err(_) => Err(ConnectError::silent(to.label())),
        }
    }
}
