//! Without the feature `tls` there are no TLS sessions.

use super::error::ConnectError;
use super::stream::Socket;
use super::target::Host;
use super::tls::ClientSide;

/// A session that cannot exist.
#[derive(Debug)]
pub(super) enum Session {}

impl Session {
    pub(super) async fn open(_: &Socket, _: &Host, config: &ClientSide) -> Result<Self, ConnectError> {
        match *config {}
    }

    pub(super) fn encrypt(&self, _plain: &[u8]) -> std::io::Result<Vec<u8>> {
        match *self {}
    }

    pub(super) fn decrypt(&self, _arrived: &[u8], _plain: &mut Vec<u8>) -> std::io::Result<bool> {
        match *self {}
    }
}
