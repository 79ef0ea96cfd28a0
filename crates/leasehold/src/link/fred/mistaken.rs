//! Whether a server that could not be connected to speaks TLS where none was asked for, or the reverse.
//!
//! Neither side says so by itself: a server without TLS takes the greeting for the beginning of a long command, and waits for the rest; one
//! with TLS closes the connection. So after a failure, and only then, the server is asked in the other language, without user and password.

use super::connection::Connection;
use super::error::ConnectError;
use super::shared::LinkShared;
use super::{target, tls};
use fred::types::config::{Server, ServerConfig};
use futures_util::future::select_ok;
use std::io::ErrorKind;
use std::time::Duration;

/// How long the server may take to show itself.
const PATIENCE: Duration = Duration::from_millis(500);

/// How many messages of fred wait for their reader. With room for one alone it loses the reason why it has not connected.
const CAPACITY: usize = 16;

/// The answer of a server without TLS.
const PING: &[u8] = b"PING\r\n";

/// A greeting of TLS with nothing in it, to which a server with TLS answers by an alert.
const EMPTY_HELLO: &[u8] = &[0x16, 3, 1, 0, 4, 1, 0, 0, 0];

/// The type of a TLS record that carries an alert.
const ALERT: u8 = 0x15;

/// The reason why a server could not be connected to, if that is its side of TLS, and not a fault that time mends.
pub(super) async fn reason(shared: &LinkShared, seed: &ServerConfig) -> Option<ConnectError> {
    match about_tls(seed, shared.target.secure()).await {
        Some(mistaken) => Some(mistaken),
        None => about_certificates(shared, seed).await,
    }
}

/// The reason why no secure connection is made to a Sentinel, which fred does not pass on. Each is asked by itself, without user and password.
async fn about_certificates(shared: &LinkShared, seed: &ServerConfig) -> Option<ConnectError> {
    let ServerConfig::Sentinel { hosts, .. } = seed else { return None };
    if !shared.target.secure() {
        return None;
    }
    let target = shared.target.clone().without_credentials();
    for server in hosts {
        let server = ServerConfig::Centralized { server: server.clone() };
        let connecting = Connection::connect(&target, server, &shared.settings, CAPACITY);
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(Err(error @ ConnectError::Tls { .. })) => return Some(error),
            Ok(Ok((connection, router))) => {
                connection.end();
                router.abort();
            }
            _ => {}
        }
    }
    None
}

/// The advice for the user, if the URL is wrong about TLS.
async fn about_tls(seed: &ServerConfig, secure: bool) -> Option<ConnectError> {
    let hosts = match seed {
        ServerConfig::Centralized { server } => std::slice::from_ref(server),
        ServerConfig::Sentinel { hosts, .. } => hosts.as_slice(),
        _ => return None,
    };
    let greeting = if secure { PING } else { EMPTY_HELLO };
    let asked = hosts.iter().map(|server| Box::pin(asked(server, greeting)));
    let (first, _) = select_ok(asked).await.ok()?;
    let reason = match (secure, first) {
        (true, b'+' | b'-') => {
            "it answers without TLS; write redis:// or valkey:// in place of rediss:// or valkeys://".to_owned()
        }
        (false, ALERT) => format!("it expects TLS; {}", tls::ADVICE),
        _ => return None,
    };
    Some(ConnectError::Tls { server: target::label(seed), reason, source: None })
}

/// The first byte of the answer of a server that answers in time.
async fn asked(server: &Server, greeting: &[u8]) -> Result<u8, ()> {
    let first = tokio::time::timeout(PATIENCE, first_byte(&server.host, server.port, greeting)).await;
    first.ok().flatten().ok_or(())
}

async fn first_byte(host: &str, port: u16, greeting: &[u8]) -> Option<u8> {
    let stream = tokio::net::TcpStream::connect((host, port)).await.ok()?;
    stream.writable().await.ok()?;
    // So few bytes are taken as a whole by a connection that is new.
    stream.try_write(greeting).ok()?;
    let mut first = [0];
    loop {
        stream.readable().await.ok()?;
        match stream.try_read(&mut first) {
            Ok(read) => return (read == 1).then_some(first[0]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}
