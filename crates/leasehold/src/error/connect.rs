//! The error of connecting.

use crate::link::fred;
use thiserror::Error;

/// Why a client could not be connected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A setting, or the URL, cannot be used. Nothing was sent.
    #[error("the client cannot be built: {0}")]
    Invalid(String),
    /// No server answers at the address.
    #[error("not connected: {0}")]
    Unreachable(String),
    /// The server refused user or password, or the user lacks a permission.
    #[error("not connected: {0}")]
    Denied(String),
    /// No secure connection could be made.
    #[error("not connected: {0}")]
    Tls(String),
    /// The server is there and does not serve yet.
    #[error("not connected: {0}")]
    Loading(String),
    /// The server is not what the settings say, or not what this library needs.
    #[error("not connected: the server cannot be used: {0}")]
    Unsuitable(String),
}

impl From<fred::ConnectError> for ConnectError {
    fn from(error: fred::ConnectError) -> Self {
        use fred::ConnectError as Link;
        let why = error.to_string();
        match error {
            Link::Address(_) => Self::Invalid(why),
            Link::Dns { .. } | Link::Unreachable { .. } | Link::NothingListens { .. } => Self::Unreachable(why),
            Link::WrongPassword { .. } | Link::PasswordRequired { .. } | Link::Forbidden { .. } => Self::Denied(why),
            Link::Tls { .. } => Self::Tls(why),
            Link::Loading { .. } => Self::Loading(why),
            Link::NotACluster { .. } | Link::IsACluster { .. } | Link::ReadOnly { .. } | Link::Protocol { .. } => {
                Self::Unsuitable(why)
            }
        }
    }
}
