//! Secure connections, by rustls with the provider `ring`.

use super::certificates::Certificates;
use super::error::ConnectError;
use fred::rustls::pki_types::pem::PemObject;
use fred::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use fred::rustls::{ClientConfig, RootCertStore, crypto};
use fred::types::config::{Config, Server, TlsConfig, TlsConnector, TlsHostMapping};
use std::sync::Arc;

/// The advice for a user whose server expects TLS.
pub(super) const ADVICE: &str = "write rediss:// or valkeys:// in place of redis:// or valkey://";

/// Accepts the scheme of a URL that asks for a secure connection. A build without the feature `tls` refuses it.
pub(super) const fn available(_scheme: &str) -> Result<(), ConnectError> {
    Ok(())
}

/// Gives a configuration its TLS side.
///
/// # Errors
///
/// The certificates are not PEM, or none were given and the operating system has no authorities.
pub(super) fn secure(target: &mut Config, certificates: &Certificates) -> Result<(), ConnectError> {
    target.tls = Some(config(certificates)?);
    Ok(())
}

/// A server whose certificate is checked by another name than its host, where there is one.
pub(super) fn server(host: &str, port: u16, certificate_name: Option<String>) -> Server {
    Server::new_with_tls(host.to_owned(), port, certificate_name)
}

/// The TLS side of a connection. It brings its own crypto provider: what the process has installed, or has not, plays no part.
fn config(certificates: &Certificates) -> Result<TlsConfig, ConnectError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error))?
        .with_root_certificates(roots(certificates.ca.as_deref())?);
    let config = match &certificates.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = chain_of(chain, "client certificate")?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|_| ConnectError::Address("the client's private key is no PEM private key".to_owned()))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| refused(&error))?
        }
    };
    Ok(TlsConfig { connector: TlsConnector::from(config), hostnames: TlsHostMapping::None })
}

fn roots(ca: Option<&[u8]>) -> Result<RootCertStore, ConnectError> {
    let mut store = RootCertStore::empty();
    if let Some(pem) = ca {
        for certificate in chain_of(pem, "certificate authority")? {
            store.add(certificate).map_err(|error| refused(&error))?;
        }
        return Ok(store);
    }
    let native = fred::rustls_native_certs::load_native_certs();
    // One unreadable file among the system's does not spoil the others.
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
        _ => Err(ConnectError::Address(format!("the {what} is no PEM certificate"))),
    }
}

fn refused(error: &fred::rustls::Error) -> ConnectError {
    ConnectError::Address(format!("the certificates that were given cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused_in_words() {
        let certificates = Certificates { ca: Some(b"hello".to_vec()), client: None };
        let error = config(&certificates).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("the certificate authority is no PEM certificate"), "{error}");
    }
}
