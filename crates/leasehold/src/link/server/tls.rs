//! TLS, by rustls with the provider `ring`.

use super::certificates::Certificates;
use super::error::ConnectError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, crypto};
use std::sync::Arc;

/// The advice for a user whose server expects TLS.
pub(super) const ADVICE: &str = "write rediss:// or valkeys:// in place of redis:// or valkey://";

/// Accepts the scheme of a URL that asks for a secure connection. A build without the feature `tls` refuses it.
pub(super) const fn available(_scheme: &str) -> Result<(), ConnectError> {
    Ok(())
}

/// The TLS settings of a client.
pub(super) type ClientSide = Arc<ClientConfig>;

/// The TLS side of a connection. It has its own crypto provider, regardless of the provider that the process has
/// installed.
///
/// # Errors
///
/// The certificates are not PEM, or none were given and the operating system has no authorities.
pub(super) fn client_side(certificates: &Certificates) -> Result<ClientSide, ConnectError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error))?
        .with_root_certificates(roots(certificates.ca.as_deref())?);
    let config = match &certificates.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = chain_of(chain, "client certificate")?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| no_key(key))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| refused(&error))?
        }
    };
    Ok(Arc::new(config))
}

fn roots(ca: Option<&[u8]>) -> Result<RootCertStore, ConnectError> {
    let mut store = RootCertStore::empty();
    if let Some(pem) = ca {
        for certificate in chain_of(pem, "certificate authority")? {
            store.add(certificate).map_err(|error| refused(&error))?;
        }
        return Ok(store);
    }
    let native = rustls_native_certs::load_native_certs();
    // An unreadable file among the system's does not affect the rest.
    store.add_parsable_certificates(native.certs);
    if store.is_empty() {
        return Err(ConnectError::Address(
            "the operating system has no certificate authorities; give one, as PEM".to_owned(),
        ));
    }
    Ok(store)
}

fn chain_of(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(ConnectError::Certificates(format!("the {what} is no PEM certificate"))),
    }
}

/// The error for an unusable private key.
fn no_key(pem: &[u8]) -> ConnectError {
    // Both forms of an encrypted key have this word in their headers.
    let is_encrypted = pem.windows(9).any(|word| word == b"ENCRYPTED");
    let what = if is_encrypted { "has a passphrase; give it without one" } else { "is no PEM private key" };
    ConnectError::Certificates(format!("the client's private key {what}"))
}

fn refused(error: &rustls::Error) -> ConnectError {
    let why = match error {
        rustls::Error::InconsistentKeys(_) => "the private key is not that of the certificate".to_owned(),
        other => other.to_string(),
    };
    ConnectError::Certificates(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_test_support::Ca;

    #[test]
    fn what_is_no_certificate_is_refused_in_words() {
        let certificates = Certificates { ca: Some(b"hello".to_vec()), client: None };
        let error = client_side(&certificates).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("given cannot be used: the certificate authority is no PEM certificate"), "{error}");
        let refused = |chain: &str, key: &str| {
            let client = Some((chain.as_bytes().to_vec(), key.as_bytes().to_vec()));
            client_side(&Certificates { ca: None, client }).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let (one, other) = (Ca::new().issue(&["a"]), Ca::new().issue(&["a"]));
        let error = refused(&one.cert_pem, &other.key_pem);
        assert!(error.contains("the private key is not that of the certificate"), "{error}");
        let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let error = refused(&one.cert_pem, locked);
        assert!(error.contains("has a passphrase"), "{error}");
    }
}
