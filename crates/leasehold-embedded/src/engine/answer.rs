//! The result of a command, before it becomes a Lua value or a reply on the wire.

use bytes::Bytes;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// No value. In Lua it is `false`.
    Nil,
    /// An integer. In Lua it is a double with 53 bits.
    Int(i64),
    /// A status such as `OK`. In Lua it is a table with the field `ok`.
    Status(&'static str),
    /// Bytes.
    Bulk(Bytes),
    /// Several results.
    Array(Vec<Self>),
}

impl Answer {
    /// `OK`.
    pub(crate) const OK: Self = Self::Status("OK");

    /// 1 or 0.
    pub(crate) fn flag(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }

    /// Converts a number of elements.
    pub(crate) fn count(n: usize) -> Self {
        Self::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// Converts bytes, or no value.
    pub(crate) fn maybe(bytes: Option<Bytes>) -> Self {
        bytes.map_or(Self::Nil, Self::Bulk)
    }

    /// Converts to the client's reply. A status becomes text.
    pub(crate) fn into_reply(self) -> Reply {
        match self {
            Self::Nil => Reply::Nil,
            Self::Int(value) => Reply::Int(value),
            Self::Status(text) => Reply::Bulk(Bytes::from_static(text.as_bytes())),
            Self::Bulk(bytes) => Reply::Bulk(bytes),
            Self::Array(parts) => Reply::Array(parts.into_iter().map(Self::into_reply).collect()),
        }
    }
}

/// The result of a command.
pub(crate) type Outcome = Result<Answer, ServerError>;
