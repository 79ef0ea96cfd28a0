//! The byte stream of a connection: TCP, TLS above it, or a Unix socket.
//!
//! Any thread can read and write without blocking. To wait for readiness, a runtime [watches](Socket::watch) the
//! socket; several runtimes can watch one socket.

use super::error::ConnectError;
use super::settings::LinkSettings;
use super::target::{Endpoint, ServerTarget};
use super::tls_session::Session;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
#[cfg(test)]
use std::sync::Arc;
use tokio::io::{Interest, Ready};

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(test)]
    Memory(Arc<super::tests::memory::End>),
}

impl Socket {
    /// Reads what has arrived.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self {
            Self::Tcp(stream) => rustix::net::recv(stream, buffer, RecvFlags::DONTWAIT),
            Self::Unix(stream) => rustix::net::recv(stream, buffer, RecvFlags::DONTWAIT),
            #[cfg(test)]
            Self::Memory(end) => return end.try_read(buffer),
        };
        Ok(read?.0)
    }

    /// Writes as much as the socket accepts.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let written = match self {
            Self::Tcp(stream) => rustix::net::send(stream, bytes, flags),
            Self::Unix(stream) => rustix::net::send(stream, bytes, flags),
            #[cfg(test)]
            Self::Memory(end) => return end.try_write(bytes),
        };
        Ok(written?)
    }

    /// Ends the connection in both directions.
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

    /// Registers the socket with the current runtime, which must have I/O enabled.
    pub(super) fn watch(&self) -> io::Result<Watched> {
        Ok(match self {
            Self::Tcp(stream) => Watched::Tcp(tokio::net::TcpStream::from_std(stream.try_clone()?)?),
            Self::Unix(stream) => Watched::Unix(tokio::net::UnixStream::from_std(stream.try_clone()?)?),
            #[cfg(test)]
            Self::Memory(end) => Watched::Memory(Arc::clone(end)),
        })
    }
}

/// A socket that a runtime watches.
#[derive(Debug)]
pub(super) enum Watched {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
    #[cfg(test)]
    Memory(Arc<super::tests::memory::End>),
}

impl Watched {
    /// Waits until the socket is ready.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
            #[cfg(test)]
            Self::Memory(end) => Ok(end.ready(interest).await),
        }
    }

    /// Reads what has arrived. A short read has emptied the socket, so the next call needs no system call.
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

    /// Writes as much as the socket accepts. Afterwards [`Watched::ready`] waits until it accepts more.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
            #[cfg(test)]
            Self::Memory(end) => end.try_write(bytes),
        }
    }
}

/// Turns a short read into the error on which tokio waits for the next event. Tokio's own streams do so too.
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
