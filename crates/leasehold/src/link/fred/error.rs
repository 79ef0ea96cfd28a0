//! The errors of connecting, and of a call under way.

use super::{Cause, words};
use fred::error::{Error, ErrorKind};
use leasehold_core::link::{LinkError, ServerError};
use std::time::Duration;
use std::{fmt, io};
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
    /// Several servers take writes for the same data at once.
    #[error(
        "{server} shares its data with other servers that take writes at the same time ({kind}), so that two of them grant one lock: use a \
         server, or a database for locks, that has one primary"
    )]
    ActiveActive {
        /// Which server.
        server: String,
        /// Its own word for that.
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
        matches!(self, Self::Dns { .. } | Self::Unreachable { .. } | Self::Loading { .. } | Self::Protocol { .. })
    }

    /// The same error, which says for how long connecting was tried, where no server answered.
    pub(super) fn after(mut self, tried: Duration) -> Self {
        if let Self::Dns { reason, .. } | Self::Unreachable { reason, .. } | Self::Protocol { reason, .. } = &mut self {
            reason.push_str(&format!("; it was tried for {tried:?}, as connect_deadline says"));
        }
        self
    }

    /// The error of fred while it connected to `server`.
    pub(super) fn of_fred(server: &str, tls: bool, error: &Error) -> Self {
        let (server, reason) = (server.to_owned(), words::plain(error.details()));
        let source = Some(cause_of(error));
        let any = |words: &[&str]| words.iter().any(|word| reason.contains(word));
        if let Some(refused) = Self::of_text(&server, &reason) {
            return refused;
        }
        if error.kind().to_str() == TLS_KIND
            || (tls && any(&["certificate", "does not speak TLS", "secure connection", "version of TLS"]))
        {
            return Self::Tls { server, reason, source };
        }
        match error.kind() {
            ErrorKind::Auth => Self::WrongPassword { server, reason },
            ErrorKind::Timeout => Self::Unreachable { server, reason: "no answer in time".to_owned(), source },
            _ if any(&["failed to lookup address", "Name or service not known", "No such host"]) => {
                Self::Dns { server, reason, source }
            }
            ErrorKind::IO | ErrorKind::Sentinel | ErrorKind::Canceled => Self::Unreachable { server, reason, source },
            ErrorKind::Config if reason.contains("cluster support disabled") => Self::NotACluster { server, reason },
            ErrorKind::Config | ErrorKind::Url => Self::Address(reason),
            _ => Self::Protocol { server, reason, source },
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
            _ => None,
        }
    }
}

/// fred's word for errors of that kind. The kind itself is there only with the feature `tls`.
const TLS_KIND: &str = "TLS Error";

/// An error of fred, of which users see no more than its text: fred is no part of the API.
#[derive(Debug)]
struct FredError(Error);

impl fmt::Display for FredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for FredError {}

/// The error behind an error of fred. fred keeps no more of an error of the operating system than its `Debug` form, and the code there says
/// which one it was.
fn cause_of(error: &Error) -> Cause {
    let code = error.details().split_once("Os { code: ").and_then(|(_, rest)| rest.split_once(','));
    match code.and_then(|(code, _)| code.parse().ok()) {
        Some(code) => Cause::new(io::Error::from_raw_os_error(code)),
        None => Cause::new(FredError(error.clone())),
    }
}

/// The fate of a command for which fred has no reply.
///
/// Only four of fred's errors prove that the command never left the process, given the profile that we use: one write
/// attempt, `fail_fast`, and a router that never reconnects.
///
/// - `Connection closed unexpectedly.` is said in one place, before the command is queued.
/// - `Failed to send command to router.` is said when the queue has no receiver any more, by the call that found it so.
/// - `Failed to route command.` is said when there is no connection to write to. With one write attempt the command had
///   none before.
/// - Back-pressure is said instead of queueing.
///
/// Everything else, `Too many failed write attempts.` included, may come after the command was written. So may an error
/// that repeats a server's words: on `CLUSTERDOWN` fred drops the connection and gives these words to every command that
/// was under way.
pub(super) fn of_fred(error: &Error) -> LinkError {
    let unsent = match error.kind() {
        ErrorKind::Canceled => error.details() == "Connection closed unexpectedly.",
        ErrorKind::Unknown => {
            error.details() == "Failed to send command to router." || error.details() == "Failed to route command."
        }
        ErrorKind::Backpressure => true,
        _ => false,
    };
    // fred's words for a connection that is gone say more of fred than of the connection.
    let lost = matches!(error.kind(), ErrorKind::Canceled | ErrorKind::Unknown | ErrorKind::IO);
    match (unsent, lost && LOST.contains(&error.details())) {
        (true, true) => LinkError::NotSent("the connection was lost".to_owned()),
        (true, false) => LinkError::NotSent(error.to_string()),
        (false, true) => LinkError::Unknown("the connection was lost before a reply came".to_owned()),
        (false, false) if *error.kind() == ErrorKind::IO => {
            let why = words::plain(error.details());
            LinkError::Unknown(format!("the connection was lost before a reply came: {why}"))
        }
        (false, false) => LinkError::Unknown(error.to_string()),
    }
}

/// The words of fred for a connection that is gone, or for the end of the task that owns it.
const LOST: [&str; 6] = [
    "Connection closed unexpectedly.",
    "Connection closed.",
    "Failed to send command to router.",
    "Failed to route command.",
    "channel closed",
    "Canceled.",
];

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
    fn only_four_errors_prove_that_nothing_was_sent() {
        let unsent = [
            Error::new(ErrorKind::Canceled, "Connection closed unexpectedly."),
            Error::new(ErrorKind::Unknown, "Failed to send command to router."),
            Error::new(ErrorKind::Unknown, "Failed to route command."),
            Error::new(ErrorKind::Backpressure, "x"),
        ];
        for error in unsent {
            assert!(matches!(of_fred(&error), LinkError::NotSent(_)), "{error}");
        }
        let unknown = [
            Error::new(ErrorKind::Canceled, "Canceled."),
            Error::new(ErrorKind::IO, "Connection closed."),
            Error::new(ErrorKind::Timeout, "Request timed out."),
            Error::new(ErrorKind::Unknown, "channel closed"),
            Error::new(ErrorKind::Unknown, "Too many failed write attempts."),
            Error::new(ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"),
            Error::new(ErrorKind::Unknown, "OOM command not allowed"),
        ];
        for error in unknown {
            assert!(matches!(of_fred(&error), LinkError::Unknown(_)), "{error}");
        }
    }

    #[test]
    fn redirections_are_read() {
        let moved = redirect(&ServerError::new("MOVED 3999 127.0.0.1:6381"));
        assert_eq!(moved, Some(Redirect::Moved(3999, "127.0.0.1:6381".to_owned())));
        let ask = redirect(&ServerError::new("ASK 12 :7000"));
        assert_eq!(ask, Some(Redirect::Ask(12, ":7000".to_owned())));
        assert_eq!(redirect(&ServerError::new("MOVED x y")), None);
    }
}
