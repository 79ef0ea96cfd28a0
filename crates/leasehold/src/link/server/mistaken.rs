//! Whether a server that could not be connected to speaks TLS where none was asked for, or the reverse.
//!
//! Neither side says so by itself: a server without TLS takes the greeting for the beginning of a long command, and waits for the rest; one
//! with TLS closes the connection. So after a failure, and only then, the server is asked in the other language, without user and password.

use super::error::ConnectError;
use super::target::{Host, Server};
use super::tls;
use futures_util::future::select_ok;
use std::io::ErrorKind;
use std::time::Duration;

/// How long the server may take to show itself.
const PATIENCE: Duration = Duration::from_millis(500);

/// The answer of a server without TLS.
const PING: &[u8] = b"PING\r\n";

/// A greeting of TLS with nothing in it, to which a server with TLS answers by an alert.
const EMPTY_HELLO: &[u8] = &[0x16, 3, 1, 0, 4, 1, 0, 0, 0];

/// The type of a TLS record that carries an alert.
const ALERT: u8 = 0x15;

/// The error with the advice for the user, if the URL is wrong about TLS.
pub(super) async fn reason(seed: &Server, secure: bool) -> Option<ConnectError> {
    let greeting = if secure { PING } else { EMPTY_HELLO };
    if seed.hosts().is_empty() {
        return None;
    }
    let asked = seed.hosts().iter().map(|host| Box::pin(asked(host, greeting)));
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

/// The first byte of the answer of a server that answers in time.
async fn asked(host: &Host, greeting: &[u8]) -> Result<u8, ()> {
    let first = tokio::time::timeout(PATIENCE, first_byte(&host.name, host.port, greeting)).await;
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
