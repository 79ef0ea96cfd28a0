//! The byte stream of a connection: TCP, TLS above it, or a Unix socket.
//!
//! Any thread can write without waiting. Reads, and writes after a full socket, need the runtime that made the stream,
//! because only that runtime gets the readiness events of the socket.

use super::error::ConnectError;
use super::settings::LinkSettings;
use super::target::{Endpoint, ServerTarget};
use super::tls_session::Session;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::io;
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(test)]
    Memory(super::tests::memory::End),
}

impl Socket {
    /// Waits until the socket is ready, on the runtime on which it was connected.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
            #[cfg(test)]
            Self::Memory(end) => Ok(end.ready(interest).await),
        }
    }

    /// Reads what has arrived. A short read has emptied the socket, so the next call needs no system call to find that
    /// nothing is left.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = buffer.len();
        let mut short = None;
        // `try_io` notes the last event before the read, so that an event during the read stays.
        let read = match self {
            Self::Tcp(stream) => {
                stream.try_io(Interest::READABLE, || unless_short(stream.try_read(buffer), size, &mut short))
            }
            Self::Unix(stream) => {
                stream.try_io(Interest::READABLE, || unless_short(stream.try_read(buffer), size, &mut short))
            }
            #[cfg(test)]
            Self::Memory(end) => end.try_read(buffer),
        };
        short.map_or(read, Ok)
    }

    /// Reads what has arrived, although tokio may not have noticed it yet.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self {
            Self::Tcp(stream) => rustix::net::recv(stream, buffer, RecvFlags::DONTWAIT),
            Self::Unix(stream) => rustix::net::recv(stream, buffer, RecvFlags::DONTWAIT),
            #[cfg(test)]
            Self::Memory(end) => return end.try_read(buffer),
        };
        read.map(|(read, _)| read).map_err(io::Error::from)
    }

    /// Writes as much as the socket accepts, from any thread. tokio does not notice a full socket: see
    /// [`Socket::try_write`].
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let written = match self {
            Self::Tcp(stream) => rustix::net::send(stream, bytes, flags),
            Self::Unix(stream) => rustix::net::send(stream, bytes, flags),
            #[cfg(test)]
            Self::Memory(end) => return end.try_write(bytes),
        };
        written.map_err(io::Error::from)
    }

    /// Writes as much as the socket accepts. Afterwards [`Socket::ready`] waits until it accepts more.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
            #[cfg(test)]
            Self::Memory(end) => end.try_write(bytes),
        }
    }

    /// Ends the connection in both directions, from any thread.
    pub(super) fn shut_down(&self) {
        // A disconnected socket needs no shutdown.
        let _ = match self {
            Self::Tcp(stream) => rustix::net::shutdown(stream, Shutdown::Both),
            Self::Unix(stream) => rustix::net::shutdown(stream, Shutdown::Both),
            #[cfg(test)]
            Self::Memory(end) => {
                end.shut_down();
                Ok(())
            }
        };
    }
}

/// Turns a short read into the error on which tokio waits for the next event, as tokio's own streams do after one.
fn unless_short(read: io::Result<usize>, size: usize, short: &mut Option<usize>) -> io::Result<usize> {
    match read {
        Ok(read) if EDGE_TRIGGERED && 0 < read && read < size => {
            *short = Some(read);
            Err(io::ErrorKind::WouldBlock.into())
        }
        read => read,
    }
}

/// Whether the system reports new bytes although earlier bytes were left unread: epoll and kqueue do.
const EDGE_TRIGGERED: bool = cfg!(all(
    not(mio_unsupported_force_poll_poll),
    any(target_os = "linux", target_os = "android", target_vendor = "apple")
));

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
        let network = &settings.network;
        let connected = async {
            match to {
                Endpoint::Unix(path) => {
                    let socket = network.dial_unix(path).await;
                    Ok(Self { socket: socket.map_err(|error| ConnectError::of_io(&to.label(), error))?, tls: None })
                }
                Endpoint::Tcp(host) => {
                    let socket = network.dial_host(host).await?;
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
