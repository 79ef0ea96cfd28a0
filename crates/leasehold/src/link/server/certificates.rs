//! The certificates for secure connections, as they were given.

use std::fmt;

/// The certificates that the caller gave, as PEM.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// Whom to trust instead of the certificate authorities of the operating system.
    pub(crate) ca: Option<Vec<u8>>,
    /// Our own certificate chain and its private key, where the server asks for one.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("ca", &self.ca.is_some()).field("client", &self.client.is_some()).finish()
    }
}
