//! The TLS certificates from options and environment variables.

use crate::args::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::files::read;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::env;
use std::path::{Path, PathBuf};

/// The contents of the PEM files.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    /// The trusted certificate authorities, as PEM. `None` means the operating system's authorities.
    pub(crate) ca: Option<Vec<u8>>,
    /// The certificate chain of this client and its private key, as PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    /// Reads the files. An option overrides its environment variable.
    ///
    /// # Errors
    ///
    /// A file cannot be read or parsed, or only one of chain and key is set.
    pub(crate) fn of(options: &ServerOptions) -> Result<Self, Failure> {
        let chain = named(options.tls_cert.as_ref(), "LEASEHOLD_TLS_CERT");
        let key = named(options.tls_key.as_ref(), "LEASEHOLD_TLS_KEY");
        let identity = match (chain, key) {
            (Some(chain), Some(key)) => Some((certificates(&chain)?, private_key(&key)?)),
            (None, None) => None,
            (Some(chain), None) => {
                let key = "without its private key; set --tls-key or LEASEHOLD_TLS_KEY";
                return Err(unusable(&chain, key));
            }
            (None, Some(key)) => {
                let chain = "without its certificate; set --tls-cert or LEASEHOLD_TLS_CERT";
                return Err(unusable(&key, chain));
            }
        };
        let ca = named(options.tls_ca.as_ref(), "LEASEHOLD_TLS_CA");
        Ok(Self { ca: ca.map(|path| certificates(&path)).transpose()?, identity })
    }
}

fn named(option: Option<&PathBuf>, variable: &str) -> Option<PathBuf> {
    let of_environment = || env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    option.cloned().or_else(of_environment)
}

fn certificates(path: &Path) -> Result<Vec<u8>, Failure> {
    let pem = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    if all.is_ok_and(|all| !all.is_empty()) {
        return Ok(pem);
    }
    Err(unusable(path, "as a certificate: expected PEM with -----BEGIN CERTIFICATE-----"))
}

fn private_key(path: &Path) -> Result<Vec<u8>, Failure> {
    let pem = read(path)?;
    if PrivateKeyDer::from_pem_slice(&pem).is_ok() {
        return Ok(pem);
    }
    // Both PEM formats with a passphrase contain `ENCRYPTED`.
    if pem.windows(9).any(|word| word == b"ENCRYPTED") {
        let without = "as a private key: it has a passphrase; remove it with `openssl pkey -in FILE -out OTHER`";
        return Err(unusable(path, without));
    }
    Err(unusable(path, "as a private key: expected PEM with -----BEGIN PRIVATE KEY-----"))
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{} cannot be used {why}", path.display()))
}
