//! A private certificate authority, for servers that speak TLS.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// A certificate authority made for one test. A second one is the authority that a client must refuse.
pub struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub cert_pem: String,
    /// Its private key.
    pub key_pem: String,
}

impl Ca {
    /// Makes an authority with a key of its own.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "every value differs, which a default should not")]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "leasehold test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key for the test authority");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate for the test authority") }
    }

    /// Issues a certificate for the given host names and IP addresses.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, |_| {})
    }

    /// The same, but it ended long ago.
    #[must_use]
    pub fn issue_expired(&self, names: &[&str]) -> Issued {
        self.issue_with(names, |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        })
    }

    fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).expect("names that a certificate can carry");
        change(&mut params);
        let key = KeyPair::generate().expect("a key for a certificate");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate signed by the test authority");
        Issued { cert_pem: cert.pem(), key_pem: key.serialize_pem() }
    }

    /// The certificate of the authority, in PEM: what a client has to trust.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }
}

impl std::fmt::Debug for Ca {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ca").finish_non_exhaustive()
    }
}
