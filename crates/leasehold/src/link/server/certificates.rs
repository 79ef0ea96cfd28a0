//! The certificates for TLS, as configured.

use std::fmt;

/// The caller's certificates, as PEM.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// The trusted authorities, in place of those of the operating system.
    pub(crate) ca: Option<Vec<u8>>,
    /// The client's certificate chain and private key, for servers that request them.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("ca", &self.ca.is_some()).field("client", &self.client.is_some()).finish()
    }
}
