//! The error of a connection attempt.

use crate::error::Cause;
use crate::link;
use leasehold_core::link::{LinkError, ServerError};
use thiserror::Error;

/// The error of connecting a client.
///
/// `Display` prints the complete text. [`source`](std::error::Error::source) returns the error of the operating system, the server or the client
/// library, if any. [Troubleshooting](https://github.com/leasehold/leasehold/blob/main/docs/operations.md#troubleshooting) lists the causes
/// and the remedies.
///
/// # Examples
///
/// ```
/// use std::io;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let error = leasehold::Client::connect("redis://127.0.0.1:1").await.expect_err("nothing listens there");
/// let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
/// assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused));
/// # });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A setting or the URL is invalid. Nothing was sent.
    #[error("the client cannot be built: {message}")]
    Invalid {
        /// The setting and the remedy.
        message: String,
        /// The source error.
        source: Option<Cause>,
    },
    /// No server answers at the address, or the operating system refused a thread.
    #[error("not connected: {message}")]
    Unreachable {
        /// The address, the last failure, and the duration of the attempts.
        message: String,
        /// The source error.
        source: Option<Cause>,
    },
    /// The server refused the user or the password, or the user lacks a permission.
    #[error("not connected: {message}")]
    Denied {
        /// The server and its message.
        message: String,
        /// The source error.
        source: Option<Cause>,
    },
    /// The TLS handshake failed.
    #[error("not connected: {message}")]
    Tls {
        /// The server and the failed check.
        message: String,
        /// The source error.
        source: Option<Cause>,
    },
    /// The server is up but cannot serve yet.
    #[error("not connected: {message}")]
    Loading {
        /// The server and its message.
        message: String,
        /// The source error.
        source: Option<Cause>,
    },
    /// The server does not match the settings or the requirements of this crate.
    #[error("not connected: the server cannot be used: {message}")]
    Unsuitable {
        /// The server and the mismatch.
        message: String,
        /// The source error.
        source: Option<Cause>,
    },
}

impl ConnectError {
    /// Creates the error of an invalid setting without a source.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), source: None }
    }
}

impl From<LinkError> for ConnectError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::NotSent(message) | LinkError::Unknown(message) => Self::Unreachable { message, source: None },
            LinkError::Refused(refusal) => {
                let (message, source) = (refusal.text().to_owned(), Some(Cause::new(refusal.clone())));
                match refusal.code() {
                    "LOADING" => Self::Loading { message, source },
                    _ => Self::Unsuitable { message, source },
                }
            }
        }
    }
}

impl From<link::ConnectError> for ConnectError {
    fn from(error: link::ConnectError) -> Self {
        use link::ConnectError as Link;
        let message = error.to_string();
        let said = |words| Some(Cause::new(ServerError::new(words)));
        match error {
            Link::Address(_) | Link::Certificates(_) => Self::invalid(message),
            Link::Dns { source, .. } | Link::Unreachable { source, .. } => Self::Unreachable { message, source },
            Link::NothingListens { source, .. } => Self::Unreachable { message, source: Some(source) },
            Link::Credentials { .. } => Self::Denied { message, source: None },
            Link::NotServing { reason, .. } => Self::Unreachable { message, source: said(reason) },
            Link::WrongPassword { reason, .. }
            | Link::PasswordRequired { reason, .. }
            | Link::Forbidden { reason, .. }
            | Link::Refused { reason, .. } => Self::Denied { message, source: said(reason) },
            Link::Tls { source, .. } => Self::Tls { message, source },
            Link::Loading { reason, .. } => Self::Loading { message, source: said(reason) },
            Link::NotACluster { reason, .. } | Link::NoFsync { reason, .. } => {
                Self::Unsuitable { message, source: said(reason) }
            }
            Link::IsACluster { .. } | Link::ReadOnly { .. } | Link::ActiveActive { .. } => {
                Self::Unsuitable { message, source: None }
            }
            Link::Protocol { source, .. } => Self::Unsuitable { message, source },
        }
    }
}
