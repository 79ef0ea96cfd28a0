//! Detects, after a failed connect, a TLS server behind a URL without TLS, or the reverse.
//!
//! The servers do not report the mismatch. A server without TLS reads the handshake as the start of a long command and
//! waits for the rest. A TLS server closes the connection. So only after a failure the client probes the server with
//! the other protocol, without user and password.

use super::error::ConnectError;
use super::network::Network;
use super::target::{Host, Server};
use super::tls;
use futures_util::future::select_ok;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::Interest;

/// The timeout of the probe.
const PATIENCE: Duration = Duration::from_millis(500);

/// The reply of a server without TLS.
const PING: &[u8] = b"PING\r\n";

/// An empty TLS handshake message, to which a TLS server replies with an alert.
const EMPTY_HELLO: &[u8] = &[0x16, 3, 1, 0, 4, 1, 0, 0, 0];

/// The type of TLS alert records.
const ALERT: u8 = 0x15;

/// Adds advice to the error if the URL is wrong about TLS.
pub(super) async fn reason(network: &Network, seed: &Server, secure: bool) -> Option<ConnectError> {
    let greeting = if secure { PING } else { EMPTY_HELLO };
    if seed.hosts().is_empty() {
        return None;
    }
    let asked = seed.hosts().iter().map(|host| Box::pin(asked(network, host, greeting)));
    let (first, _) = select_ok(asked).await.ok()?;
    let reason = match (secure, first) {
        (true, b'+' | b'-') => {
            "it answers without TLS; write redis:// or valkey:// in place of rediss:// or valkeys://".to_owned()
        }
        (false, ALERT) => format!("it expects TLS; {}", tls::ADVICE),
        _ => return None,
    };
    Some(ConnectError::Tls { server: seed.label(), reason, source: None })
}

/// The first byte of the server's reply, if it arrives in time.
async fn asked(network: &Network, host: &Host, greeting: &[u8]) -> Result<u8, ()> {
    let first = tokio::time::timeout(PATIENCE, first_byte(network, host, greeting)).await;
    first.ok().flatten().ok_or(())
}

async fn first_byte(network: &Network, host: &Host, greeting: &[u8]) -> Option<u8> {
    let socket = network.dial_host(host).await.ok()?;
    // A new connection accepts so few bytes in one write.
    socket.write(greeting).ok()?;
    let watched = socket.watch().ok()?;
    let mut first = [0];
    loop {
        watched.ready(Interest::READABLE).await.ok()?;
        match watched.try_read(&mut first) {
            Ok(read) => return (read == 1).then_some(first[0]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}
