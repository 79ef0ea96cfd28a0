//! Settings of secure connections, which need the feature `tls`.

use super::ClientBuilder;

impl ClientBuilder {
    /// Trusts these certificate authorities, in PEM, instead of the operating system's. Only for `rediss://`.
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.ca = Some(pem.into());
        self
    }

    /// Shows this certificate chain, with its private key, both in PEM, to a server that asks. Only for `rediss://`.
    pub fn tls_identity(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificates.client = Some((chain.into(), key.into()));
        self
    }
}
