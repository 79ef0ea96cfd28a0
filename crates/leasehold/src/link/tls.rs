//! TLS, by rustls with the provider `ring`. A session encrypts and decrypts, and the connection reads and writes.

use super::error::ConnectError;
use super::network::{Socket, Watched};
use super::target::{Certificates, Host};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto};
use std::io;
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use tokio::io::Interest;

pub(super) const ADVICE: &str = "use rediss:// or valkeys:// instead of redis:// or valkey://";

/// Accepts the scheme of a URL that requires TLS. A build without the feature `tls` refuses it.
pub(super) const fn available(_scheme: &str) -> Result<(), ConnectError> {
    Ok(())
}

pub(super) type ClientSide = Arc<ClientConfig>;

/// The settings have their own crypto provider, regardless of the provider of the process.
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
    // Ignore unreadable files of the system: the readable certificates may suffice.
    store.add_parsable_certificates(native.certs);
    if store.is_empty() {
        return Err(ConnectError::Address(
            "the operating system has no certificate authorities; set one in PEM".to_owned(),
        ));
    }
    Ok(store)
}

fn chain_of(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(ConnectError::Certificates(format!("the {what} is not a PEM certificate"))),
    }
}

fn no_key(pem: &[u8]) -> ConnectError {
    // The header of every encrypted key contains this word.
    let is_encrypted = pem.windows(9).any(|word| word == b"ENCRYPTED");
    let what = if is_encrypted { "has a passphrase; remove the passphrase" } else { "is not a PEM private key" };
    ConnectError::Certificates(format!("the client's private key {what}"))
}

fn refused(error: &rustls::Error) -> ConnectError {
    let why = match error {
        rustls::Error::InconsistentKeys(_) => "the private key does not match the certificate".to_owned(),
        other => other.to_string(),
    };
    ConnectError::Certificates(why)
}

pub(super) struct Session(Mutex<ClientConnection>);

impl Session {
    pub(super) async fn open(socket: &Socket, host: &Host, config: &ClientSide) -> Result<Self, ConnectError> {
        let label = host.label();
        let name = host.certificate_name.as_deref().unwrap_or(&host.name).to_owned();
        let name = ServerName::try_from(name)
            .map_err(|_| ConnectError::Address(format!("{label} has a host that no certificate can name")))?;
        let failed = |error: io::Error| ConnectError::of_io(&label, error);
        let invalid = |error| ConnectError::of_tls(&label, io::Error::new(ErrorKind::InvalidData, error));
        let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(invalid)?;
        connection.set_buffer_limit(None);
        let mut buffer = vec![0; 16 * 1024];
        let watched = socket.watch().map_err(failed)?;
        loop {
            let mut out = Vec::new();
            append_records(&mut connection, &mut out).map_err(failed)?;
            write_all(&watched, &out).await.map_err(failed)?;
            if !connection.is_handshaking() {
                return Ok(Self(Mutex::new(connection)));
            }
            let read = watched.read(&mut buffer).await.map_err(failed)?;
            if read == 0 {
                let closed = "the server closed the connection in the handshake";
                return Err(failed(io::Error::new(ErrorKind::UnexpectedEof, closed)));
            }
            let mut arrived = &buffer[..read];
            while !arrived.is_empty() {
                connection.read_tls(&mut arrived).map_err(failed)?;
                if let Err(error) = connection.process_new_packets() {
                    // The alert gives the server the reason.
                    let mut alert = Vec::new();
                    let _ = connection.write_tls(&mut alert);
                    let _ = socket.write(&alert);
                    return Err(invalid(error));
                }
            }
        }
    }

    /// Encrypts bytes, and appends the session's own records.
    pub(super) fn encrypt(&self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut connection = self.0.lock();
        let mut out = Vec::with_capacity(plain.len() + 64);
        connection.writer().write_all(plain)?;
        append_records(&mut connection, &mut out)?;
        Ok(out)
    }

    /// Decrypts received bytes into `plain`. Returns whether the session has its own records to send.
    pub(super) fn decrypt(&self, mut arrived: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        let mut connection = self.0.lock();
        while !arrived.is_empty() {
            connection.read_tls(&mut arrived)?;
            let state =
                connection.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            let (length, closed) = (state.plaintext_bytes_to_read(), state.peer_has_closed());
            let start = plain.len();
            plain.resize(start + length, 0);
            connection.reader().read_exact(&mut plain[start..])?;
            if closed {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the secure connection"));
            }
        }
        Ok(connection.wants_write())
    }
}

/// Appends the pending records of the session.
fn append_records(connection: &mut ClientConnection, out: &mut Vec<u8>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(out)?;
    }
    Ok(())
}

async fn write_all(watched: &Watched, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        watched.ready(Interest::WRITABLE).await?;
        match watched.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_test_support::Ca;

    #[test]
    fn what_is_no_certificate_is_refused_in_words() {
        let certificates = Certificates { ca: Some(b"hello".to_vec()), client: None };
        let error = client_side(&certificates).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("cannot be used: the certificate authority is not a PEM certificate"), "{error}");
        let refused = |chain: &str, key: &str| {
            let client = Some((chain.as_bytes().to_vec(), key.as_bytes().to_vec()));
            client_side(&Certificates { ca: None, client }).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let (one, other) = (Ca::new().issue(&["a"]), Ca::new().issue(&["a"]));
        let error = refused(&one.cert_pem, &other.key_pem);
        assert!(error.contains("the private key does not match the certificate"), "{error}");
        let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let error = refused(&one.cert_pem, locked);
        assert!(error.contains("has a passphrase"), "{error}");
    }
}
