//! The errors of connecting, and of a call under way.

use super::{Cause, words};
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::wire::Malformed;
use std::io;
use std::time::Duration;
use thiserror::Error as ThisError;

/// Why a link could not be made. The texts name the server, never a password.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub(crate) enum ConnectError {
    /// The address, or something else that the caller gave, makes no sense.
    #[error("the address of the server is not usable: {0}")]
    Address(String),
    /// The certificates that the caller gave cannot be used.
    #[error("the certificates that were given cannot be used: {0}")]
    Certificates(String),
    /// The server's certificate was not accepted, or the server did not accept that of this client.
    #[error("no secure connection to {server}: {reason}")]
    Tls {
        /// Which server.
        server: String,
        /// The part that did not fit.
        reason: String,
        /// The error behind it.
        source: Option<Cause>,
    },
    /// The host has no address.
    #[error("the host name of {server} cannot be resolved: {reason}")]
    Dns {
        /// Which server.
        server: String,
        /// The words of the resolver.
        reason: String,
        /// The error behind it.
        source: Option<Cause>,
    },
    /// No server answers there, or not in time.
    #[error("{server} cannot be reached: {reason}")]
    Unreachable {
        /// Which server.
        server: String,
        /// The last thing seen.
        reason: String,
        /// The error behind it.
        source: Option<Cause>,
    },
    /// Every address refuses the connection.
    #[error(
        "{server} cannot be reached: the connection is refused, because nothing listens there; start the server, or correct host and \
         port, or make the client by connect_lazy where the server may come later"
    )]
    NothingListens {
        /// Which server.
        server: String,
        /// The refusal of the last address.
        source: Cause,
    },
    /// User name or password are wrong.
    #[error("{server} refused the user name or the password: {reason}")]
    WrongPassword {
        /// Which server.
        server: String,
        /// The words of the server.
        reason: String,
    },
    /// The credentials for a connection are missing.
    #[error("no user and password for {server}: the credentials provider failed: {reason}")]
    Credentials {
        /// Which server.
        server: String,
        /// The provider's error message.
        reason: String,
    },
    /// The server wants a password and none was given.
    #[error("{server} asks for a password and none was given: {reason}")]
    PasswordRequired {
        /// Which server.
        server: String,
        /// The words of the server.
        reason: String,
    },
    /// The user may not run a command that is needed.
    #[error("the user lacks a permission on {server}: {reason}")]
    Forbidden {
        /// Which server.
        server: String,
        /// The words of the server.
        reason: String,
    },
    /// The server accepts no client from here.
    #[error("{server} refuses this client: {reason}")]
    Refused {
        /// Which server.
        server: String,
        /// The words of the server.
        reason: String,
    },
    /// The server answers, and does not serve this client now.
    #[error("{server} does not serve now: {reason}")]
    NotServing {
        /// Which server.
        server: String,
        /// The words of the server.
        reason: String,
    },
    /// The server is still reading its data from disk.
    #[error("{server} is still loading its data: {reason}")]
    Loading {
        /// Which server.
        server: String,
        /// The words of the server.
        reason: String,
    },
    /// A cluster was asked for, and this server is none.
    #[error("{server} is not a Redis Cluster; leave out `-cluster` in the address: {reason}")]
    NotACluster {
        /// Which server.
        server: String,
        /// The words of the server.
        reason: String,
    },
    /// The server belongs to a cluster, which was not asked for.
    #[error("{server} is a node of a Redis Cluster; say so in the address, with redis-cluster:// or rediss-cluster://")]
    IsACluster {
        /// Which server.
        server: String,
    },
    /// The server takes no writes.
    #[error(
        "{server} is a replica that may only be read: the address must lead to the primary; \
         redis-sentinel:// and redis-cluster:// find it by themselves"
    )]
    ReadOnly {
        /// Which server.
        server: String,
    },
    /// Several servers accept writes to one data set.
    #[error(
        "{server} shares its data with other servers that take writes at the same time ({kind}), so that two of them grant one lock: use a \
         server, or a database for locks, that has one primary"
    )]
    ActiveActive {
        /// Which server.
        server: String,
        /// The server's name for this setup.
        kind: &'static str,
    },
    /// The other side does not speak the protocol.
    #[error("{server} does not answer as Redis or Valkey does: {reason}")]
    Protocol {
        /// Which server.
        server: String,
        /// Its answer.
        reason: String,
        /// The error behind it.
        source: Option<Cause>,
    },
}

impl ConnectError {
    /// Whether another attempt, a little later, may fare better.
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

    /// The same error with advice, where no server answered.
    pub(super) fn with_advice(mut self, advice: &str) -> Self {
        if let Self::Unreachable { reason, .. } = &mut self {
            reason.push_str(&format!("; {advice}"));
        }
        self
    }

    /// The same error, which says for how long connecting was tried, where no server answered.
    pub(super) fn after(mut self, tried: Duration) -> Self {
        if let Self::Dns { reason, .. } | Self::Unreachable { reason, .. } | Self::Protocol { reason, .. } = &mut self {
            reason.push_str(&format!("; it was tried for {tried:?}, as connect_deadline says"));
        }
        self
    }

    /// The reply of `server` during its identification is not a valid reply.
    pub(super) fn of_malformed(server: &str, malformed: Malformed) -> Self {
        if let Malformed::Refused(refusal) = &malformed {
            return Self::of_refusal(server, refusal);
        }
        let reason = malformed.to_string();
        Self::Protocol { server: server.to_owned(), reason, source: Some(Cause::new(malformed)) }
    }

    /// `server` did not reply in time.
    pub(super) fn silent(server: String) -> Self {
        Self::Unreachable { server, reason: "no answer in time".to_owned(), source: None }
    }

    /// The error of the operating system while connecting to `server`.
    pub(super) fn of_io(server: &str, error: io::Error) -> Self {
        let reason = words::plain(&format!("{error:?}"));
        Self::Unreachable { server: server.to_owned(), reason, source: Some(Cause::new(error)) }
    }

    /// The error of the TLS session while a connection to `server` was secured.
    #[cfg(feature = "tls")]
    pub(super) fn of_tls(server: &str, error: io::Error) -> Self {
        match Self::of_io(server, error) {
            Self::Unreachable { server, reason, source } => Self::Tls { server, reason, source },
            other => other,
        }
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

    /// The connection was lost, or gave no answer, while we got to know `server`. That nothing is known of the outcome of a call is no news
    /// there.
    pub(super) fn of_loss(server: &str, error: LinkError) -> Self {
        let (reason, source) = match error {
            LinkError::NotSent(reason) | LinkError::Unknown(reason) => (reason, None),
            LinkError::Refused(refusal) => (refusal.text().to_owned(), Some(Cause::new(refusal))),
        };
        Self::Unreachable { server: server.to_owned(), reason, source }
    }

    /// The answer of the server while we got to know it.
    pub(super) fn of_refusal(server: &str, error: &ServerError) -> Self {
        Self::of_text(server, error.text()).unwrap_or_else(|| Self::Protocol {
            server: server.to_owned(),
            reason: error.text().to_owned(),
            source: Some(Cause::new(error.clone())),
        })
    }

    fn of_text(server: &str, text: &str) -> Option<Self> {
        let (server, reason) = (server.to_owned(), text.to_owned());
        match text.split(' ').next().unwrap_or_default() {
            "WRONGPASS" => Some(Self::WrongPassword { server, reason }),
            "NOAUTH" => Some(Self::PasswordRequired { server, reason }),
            "NOPERM" => Some(Self::Forbidden { server, reason }),
            "LOADING" | "MASTERDOWN" => Some(Self::Loading { server, reason }),
            "DENIED" => Some(Self::Refused { server, reason }),
            _ if text.contains("DB index is out of range") => {
                Some(Self::Address(format!("{server} does not have this database: {reason}")))
            }
            _ if text.contains("SELECT is not allowed in cluster mode") => {
                let why = "has no database but 0, as clusters have; leave out the number in the address";
                Some(Self::Address(format!("{server} {why}: {reason}")))
            }
            // Redis 6 quotes the command with backticks, later ones with apostrophes.
            _ if text.contains("unknown command")
                && text.replace('`', "'").to_ascii_uppercase().contains("'SENTINEL'") =>
            {
                Some(Self::Address(format!("{server} is no Sentinel; leave out `-sentinel` in the address: {reason}")))
            }
            _ if text.contains("cluster support disabled") => Some(Self::NotACluster { server, reason }),
            _ if text.contains("invalid password") || text.contains("without any password configured") => {
                Some(Self::WrongPassword { server, reason })
            }
            // Another server, or a proxy that does not know what a lock needs.
            _ if text.contains("unknown command") => None,
            _ => Some(Self::NotServing { server, reason }),
        }
    }
}

/// The target of a redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot lives there now.
    Moved(u16, String),
    /// This one call goes there, the slot is on its way.
    Ask(u16, String),
}

/// The redirection that `error` is, if it is one. An empty host stands for that of the server that said it.
pub(super) fn redirect(error: &ServerError) -> Option<Redirect> {
    let mut words = error.text().split(' ');
    let code = words.next()?;
    let slot = words.next()?.parse().ok()?;
    let node = words.next()?.to_owned();
    match code {
        "MOVED" => Some(Redirect::Moved(slot, node)),
        "ASK" => Some(Redirect::Ask(slot, node)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        let moved = redirect(&ServerError::new("MOVED 3999 127.0.0.1:6381"));
        assert_eq!(moved, Some(Redirect::Moved(3999, "127.0.0.1:6381".to_owned())));
        let ask = redirect(&ServerError::new("ASK 12 :7000"));
        assert_eq!(ask, Some(Redirect::Ask(12, ":7000".to_owned())));
        assert_eq!(redirect(&ServerError::new("MOVED x y")), None);
    }
}
