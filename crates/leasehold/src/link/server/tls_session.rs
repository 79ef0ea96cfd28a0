//! A TLS session above a socket: rustls encrypts and decrypts, and the connection reads and writes.

use super::error::ConnectError;
use super::stream::{Socket, Watched};
use super::target::Host;
use super::tls::ClientSide;
use parking_lot::Mutex;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use tokio::io::Interest;

/// A TLS session above a socket, without I/O of its own.
#[derive(Debug)]
pub(super) struct Session(Mutex<ClientConnection>);

impl Session {
    /// Creates the session with a handshake on the socket.
    pub(super) async fn open(socket: &Socket, host: &Host, config: &ClientSide) -> Result<Self, ConnectError> {
        let label = host.label();
        let name = host.certificate_name.as_deref().unwrap_or(&host.name).to_owned();
        let name = ServerName::try_from(name)
            .map_err(|_| ConnectError::Address(format!("{label} has a host that no certificate can name")))?;
        let failed = |error: io::Error| ConnectError::of_io(&label, error);
        let invalid = |error| ConnectError::of_tls(&label, io::Error::new(ErrorKind::InvalidData, error));
        let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(invalid)?;
        connection.set_buffer_limit(None);
        let mut buffer = vec![0; 16 * 1024];
        let watched = socket.watch().map_err(failed)?;
        while connection.is_handshaking() {
            let mut out = Vec::new();
            while connection.wants_write() {
                connection.write_tls(&mut out).map_err(failed)?;
            }
            write_all(&watched, &out).await.map_err(failed)?;
            if !connection.is_handshaking() {
                break;
            }
            watched.ready(Interest::READABLE).await.map_err(failed)?;
            let mut arrived = match watched.try_read(&mut buffer) {
                Ok(0) => {
                    return Err(failed(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "the server closed the connection in the handshake",
                    )));
                }
                Ok(read) => &buffer[..read],
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(failed(error)),
            };
            while !arrived.is_empty() {
                connection.read_tls(&mut arrived).map_err(failed)?;
                if let Err(error) = connection.process_new_packets() {
                    // The alert gives the server the reason.
                    let mut alert = Vec::new();
                    let _ = connection.write_tls(&mut alert);
                    let _ = socket.write(&alert);
                    return Err(invalid(error));
                }
            }
        }
        let mut last = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut last).map_err(failed)?;
        }
        write_all(&watched, &last).await.map_err(failed)?;
        Ok(Self(Mutex::new(connection)))
    }

    /// Encrypts bytes, and appends the session's own records.
    pub(super) fn encrypt(&self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut connection = self.0.lock();
        let mut out = Vec::with_capacity(plain.len() + 64);
        connection.writer().write_all(plain)?;
        while connection.wants_write() {
            connection.write_tls(&mut out)?;
        }
        Ok(out)
    }

    /// Decrypts received bytes into `plain`. Returns whether the session has its own records to send.
    pub(super) fn decrypt(&self, mut arrived: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        let mut connection = self.0.lock();
        while !arrived.is_empty() {
            connection.read_tls(&mut arrived)?;
            let state =
                connection.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            let (length, closed) = (state.plaintext_bytes_to_read(), state.peer_has_closed());
            let start = plain.len();
            plain.resize(start + length, 0);
            connection.reader().read_exact(&mut plain[start..])?;
            if closed {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the secure connection"));
            }
        }
        Ok(connection.wants_write())
    }
}

/// Waits until all bytes are written.
async fn write_all(watched: &Watched, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        watched.ready(Interest::WRITABLE).await?;
        match watched.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
