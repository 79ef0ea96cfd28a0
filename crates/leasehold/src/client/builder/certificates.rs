//! Settings of TLS, which need the feature `tls`.

use super::ClientBuilder;

impl ClientBuilder {
    /// Trusts these certificate authorities, in PEM, instead of those of the operating system. Only for `rediss://`.
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.ca = Some(pem.into());
        self
    }

    /// Presents this certificate chain, with its private key, to a server that requests a client certificate. Both are in PEM. Only for
    /// `rediss://`.
    pub fn tls_identity(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificates.client = Some((chain.into(), key.into()));
        self
    }
}
