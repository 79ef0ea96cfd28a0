//! TLS in a build without the feature `tls`: an error with advice.

use super::error::ConnectError;
use super::network::Socket;
use super::target::{Certificates, Host};
use std::convert::Infallible;
use std::io;

pub(super) const ADVICE: &str =
    "build leasehold with its feature `tls`, and use rediss:// or valkeys:// instead of redis:// or valkey://";

/// Refuses the scheme of a URL that requires TLS, with advice.
pub(super) fn available(scheme: &str) -> Result<(), ConnectError> {
    Err(ConnectError::Address(format!(
        "{scheme}:// needs the feature `tls` of leasehold, which is off in this build; set in Cargo.toml: \
         leasehold = {{ version = \"{}\", features = [\"tls\"] }}",
        concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"))
    )))
}

pub(super) type ClientSide = Infallible;

/// Refuses certificates: the link never connects to a TLS target without TLS.
pub(super) fn client_side(_certificates: &Certificates) -> Result<ClientSide, ConnectError> {
    available("rediss").map(|()| unreachable!("it is refused"))
}

pub(super) enum Session {}

impl Session {
    pub(super) async fn open(_: &Socket, _: &Host, config: &ClientSide) -> Result<Self, ConnectError> {
        match *config {}
    }

    pub(super) fn encrypt(&self, _plain: &[u8]) -> io::Result<Vec<u8>> {
        match *self {}
    }

    pub(super) fn decrypt(&self, _arrived: &[u8], _plain: &mut Vec<u8>) -> io::Result<bool> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServerTarget;

    #[test]
    fn secure_url_names_the_feature_that_it_needs() {
        for url in [
            "rediss://:hunter2@host",
            "valkeys://host:1/7",
            "rediss-cluster://:hunter2@a:1?node=b:2",
            "valkeys-sentinel://a:1?sentinelServiceName=main",
        ] {
            let error = ServerTarget::parse(url).expect_err(url).to_string();
            let scheme = url.split(['-', ':']).next().expect("a scheme");
            assert!(error.contains(&format!("{scheme}:// needs the feature `tls`")), "{url}: {error}");
            assert!(error.contains("features = [\"tls\"]") && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
