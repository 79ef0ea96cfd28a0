//! Errors of connects, and error messages for people.

use super::Cause;
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::wire::Malformed;
use std::io;
use std::time::Duration;
use thiserror::Error as ThisError;

/// The error of a failed connect. The texts contain the server, never a password. `reason` is the error message of the server, the
/// operating system, the resolver or the credentials provider.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub(crate) enum ConnectError {
    #[error("the address of the server is invalid: {0}")]
    Address(String),
    #[error("the certificates cannot be used: {0}")]
    Certificates(String),
    /// The client rejected the server's certificate, or the server rejected the client's.
    #[error("no secure connection to {server}: {reason}")]
    Tls { server: String, reason: String, source: Option<Cause> },
    #[error("the host name of {server} cannot be resolved: {reason}")]
    Dns { server: String, reason: String, source: Option<Cause> },
    #[error("{server} cannot be reached: {reason}")]
    Unreachable { server: String, reason: String, source: Option<Cause> },
    #[error(
        "{server} cannot be reached: the connection is refused, because nothing listens there; start the server or correct host and \
         port, or use connect_lazy if the server may start later"
    )]
    NothingListens { server: String, source: Cause },
    #[error("{server} refused the user name or the password: {reason}")]
    WrongPassword { server: String, reason: String },
    #[error("no user and password for {server}: the credentials provider failed: {reason}")]
    Credentials { server: String, reason: String },
    #[error("{server} requires a password, and none was set: {reason}")]
    PasswordRequired { server: String, reason: String },
    #[error("the user lacks a permission on {server}: {reason}")]
    Forbidden { server: String, reason: String },
    #[error("{server} refuses this client: {reason}")]
    Refused { server: String, reason: String },
    /// The server replies, but does not yet serve clients.
    #[error("{server} cannot serve now: {reason}")]
    NotServing { server: String, reason: String },
    #[error("{server} is still loading its data: {reason}")]
    Loading { server: String, reason: String },
    #[error("{server} is not a Redis Cluster; remove `-cluster` from the URL: {reason}")]
    NotACluster { server: String, reason: String },
    #[error("{server} is a node of a Redis Cluster; use a URL with redis-cluster:// or rediss-cluster://")]
    IsACluster { server: String },
    #[error(
        "{server} is a read-only replica: use the address of the primary; redis-sentinel:// and redis-cluster:// find the primary"
    )]
    ReadOnly { server: String },
    #[error(
        "{server} shares its data with other writable servers ({kind}), and two servers can grant one lock: use a server or a database \
         with one primary"
    )]
    ActiveActive { server: String, kind: &'static str },
    #[error("{server} cannot confirm that a grant is on disk, and fsync is set: {remedy}, or remove fsync: {reason}")]
    NoFsync { server: String, remedy: &'static str, reason: String },
    #[error("{server} does not answer like Redis or Valkey: {reason}")]
    Protocol { server: String, reason: String, source: Option<Cause> },
}

impl ConnectError {
    /// Returns whether a later attempt may succeed.
    pub(super) const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Dns { .. }
                | Self::Unreachable { .. }
                | Self::Credentials { .. }
                | Self::NotServing { .. }
                | Self::Loading { .. }
                | Self::Protocol { .. }
        )
    }

    pub(super) fn with_advice(mut self, advice: &str) -> Self {
        if let Self::Unreachable { reason, .. } = &mut self {
            reason.push_str(&format!("; {advice}"));
        }
        self
    }

    /// Adds the duration of the attempts to the error of an unreachable server.
    pub(super) fn after(mut self, tried: Duration) -> Self {
        if let Self::Dns { reason, .. } | Self::Unreachable { reason, .. } | Self::Protocol { reason, .. } = &mut self {
            reason.push_str(&format!("; retried for {tried:?} (connect_deadline)"));
        }
        self
    }

    pub(super) fn of_malformed(server: &str, malformed: Malformed) -> Self {
        if let Malformed::Refused(refusal) = &malformed {
            return Self::of_refusal(server, refusal);
        }
        let reason = malformed.to_string();
        Self::Protocol { server: server.to_owned(), reason, source: Some(Cause::new(malformed)) }
    }

    pub(super) fn silent(server: String) -> Self {
        Self::Unreachable { server, reason: "no answer in time".to_owned(), source: None }
    }

    pub(super) fn of_io(server: &str, error: io::Error) -> Self {
        let reason = error_text(&format!("{error:?}"));
        Self::Unreachable { server: server.to_owned(), reason, source: Some(Cause::new(error)) }
    }

    #[cfg(feature = "tls")]
    pub(super) fn of_tls(server: &str, error: io::Error) -> Self {
        let reason = error_text(&format!("{error:?}"));
        Self::Tls { server: server.to_owned(), reason, source: Some(Cause::new(error)) }
    }

    /// Converts the error into a TLS error if the server closed a TLS connection because of a certificate.
    pub(super) fn secure(self, tls: bool) -> Self {
        match self {
            Self::Unreachable { server, reason, source }
                if tls && ["certificate", "secure connection"].iter().any(|word| reason.contains(word)) =>
            {
                Self::Tls { server, reason, source }
            }
            other => other,
        }
    }

    /// The connection was lost, or timed out, during the identification of `server`, which changes nothing.
    pub(super) fn of_loss(server: &str, error: LinkError) -> Self {
        let (reason, source) = match error {
            LinkError::NotSent(reason) | LinkError::Unknown(reason) => (reason, None),
            LinkError::Refused(refusal) => (refusal.text().to_owned(), Some(Cause::new(refusal))),
        };
        Self::Unreachable { server: server.to_owned(), reason, source }
    }

    pub(super) fn of_refusal(server: &str, error: &ServerError) -> Self {
        let text = error.text();
        let (server, reason) = (server.to_owned(), text.to_owned());
        match error.code() {
            "WRONGPASS" => Self::WrongPassword { server, reason },
            "NOAUTH" => Self::PasswordRequired { server, reason },
            "NOPERM" => Self::Forbidden { server, reason },
            "LOADING" | "MASTERDOWN" => Self::Loading { server, reason },
            "DENIED" => Self::Refused { server, reason },
            _ if text.contains("DB index is out of range") => {
                Self::Address(format!("{server} does not have this database: {reason}"))
            }
            _ if text.contains("SELECT is not allowed in cluster mode") => {
                let why = "is a cluster, which has only database 0; remove the number from the URL";
                Self::Address(format!("{server} {why}: {reason}"))
            }
            // Redis 6 quotes the command with backticks, later versions with apostrophes.
            _ if text.contains("unknown command")
                && text.replace('`', "'").to_ascii_uppercase().contains("'SENTINEL'") =>
            {
                Self::Address(format!("{server} is not a Sentinel; remove `-sentinel` from the URL: {reason}"))
            }
            _ if text.contains("cluster support disabled") => Self::NotACluster { server, reason },
            _ if text.contains("invalid password") || text.contains("without any password configured") => {
                Self::WrongPassword { server, reason }
            }
            // Not Redis or Valkey, or a proxy without a required command.
            _ if text.contains("unknown command") => {
                Self::Protocol { server, reason, source: Some(Cause::new(error.clone())) }
            }
            _ => Self::NotServing { server, reason },
        }
    }
}

/// Describes an error of the system or of TLS, whose `Debug` output is `details`.
pub(super) fn error_text(details: &str) -> String {
    // A TLS alert of the server describes this client, even if its name matches a local error.
    const ALERTS: [(&str, &str); 8] = [
        ("CertificateRequired", "the server requires a client certificate"),
        ("HandshakeFailure", "the server refused the secure connection; it may require a client certificate"),
        ("CertificateExpired", "the server reports that the client certificate has expired"),
        ("CertificateRevoked", "the server reports that the client certificate was revoked"),
        ("UnknownCA", "the server does not trust the issuer of the client certificate"),
        // The certificate is not signed by an authority that the server trusts.
        ("DecryptError", "the server rejected the client certificate"),
        ("Certificate", "the server rejected the client certificate"),
        ("AccessDenied", "the server rejected the client certificate"),
    ];
    const MEANINGS: [(&str, &str); 12] = [
        ("NotValidForName", "the certificate is not valid for this host name"),
        ("NotValidYet", "the certificate is not valid yet; check the clocks"),
        ("Expired", "the certificate has expired"),
        ("UnknownIssuer", "the certificate was issued by an authority that is not trusted"),
        // The authority has a new key under its old name.
        ("BadSignature", "the certificate was issued by an authority that is not trusted"),
        ("Revoked", "the certificate was revoked"),
        ("InvalidCertificate", "the certificate was rejected"),
        ("AlertReceived", "the server ended the secure connection"),
        ("InvalidMessage", "the server does not speak TLS"),
        ("PeerIncompatible", "the client and the server support no common TLS version"),
        ("ConnectionRefused", "the connection was refused: nothing listens on this port"),
        ("ConnectionReset", "the server closed the connection"),
    ];
    let is_shown =
        ["Os {", "Custom {", "InvalidCertificate(", "AlertReceived(", "InvalidMessage(", "PeerIncompatible("];
    if !is_shown.iter().any(|form| details.contains(form)) {
        return details.to_owned();
    }
    let alert = details.split_once("AlertReceived(").map(|(_, alert)| alert);
    if let Some((_, meaning)) = alert.and_then(|alert| ALERTS.iter().find(|(word, _)| alert.contains(word))) {
        return (*meaning).to_owned();
    }
    if let Some((_, meaning)) = MEANINGS.iter().find(|(word, _)| details.contains(word)) {
        return (*meaning).to_owned();
    }
    let quoted = |after: &str| details.split_once(after)?.1.split('"').next().map(str::to_owned);
    quoted("message: \"").or_else(|| quoted("error: \"")).unwrap_or_else(|| details.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_in_words() {
        let told = [
            (
                "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
                "the connection was refused: nothing listens on this port",
            ),
            ("Os { code: 2, kind: NotFound, message: \"No such file or directory\" }", "No such file or directory"),
            (
                "Custom { kind: InvalidData, error: InvalidCertificate(NotValidForNameContext { expected: DnsName(\"a\") }) }",
                "the certificate is not valid for this host name",
            ),
            ("InvalidCertificate(UnknownIssuer)", "the certificate was issued by an authority that is not trusted"),
            ("AlertReceived(CertificateExpired)", "the server reports that the client certificate has expired"),
            ("AlertReceived(CertificateRequired)", "the server requires a client certificate"),
            ("AlertReceived(UnknownCA)", "the server does not trust the issuer of the client certificate"),
            ("InvalidCertificate(BadSignature)", "the certificate was issued by an authority that is not trusted"),
            ("AlertReceived(BadCertificate)", "the server rejected the client certificate"),
            ("AlertReceived(InternalError)", "the server ended the secure connection"),
            ("Custom { kind: UnexpectedEof, error: \"tls handshake eof\" }", "tls handshake eof"),
            ("WRONGPASS invalid username-password pair", "WRONGPASS invalid username-password pair"),
        ];
        for (details, words) in told {
            assert_eq!(error_text(details), words);
        }
    }
}
