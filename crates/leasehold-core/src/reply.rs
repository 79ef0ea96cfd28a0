//! The reply of a server to a call.

use crate::link::ServerError;
use bytes::Bytes;
use std::time::Duration;
use thiserror::Error;

/// A reply of a server. It keeps only the type information that a client needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reply {
    /// Null, in any of its three forms.
    Nil,
    /// An integer, or a boolean as 0 or 1.
    Int(i64),
    /// A simple, bulk or verbatim string, a floating-point number or a big number.
    Bulk(Bytes),
    /// An error reply.
    Error(ServerError),
    /// An array or a set; or the keys and values of a map, in the order of the wire.
    Array(Vec<Self>),
}

impl Reply {
    /// The integer. Accepts decimal text, because the values of a hash are text.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for another type.
    pub fn int(&self) -> Result<i64, DecodeError> {
        match self {
            Self::Int(value) => Ok(*value),
            Self::Bulk(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| DecodeError::new("an integer", self)),
            _ => Err(DecodeError::new("an integer", self)),
        }
    }

    /// The error reply, if this is one.
    pub const fn error(&self) -> Option<&ServerError> {
        match self {
            Self::Error(error) => Some(error),
            _ => None,
        }
    }

    /// The reply, unless it is an error reply.
    ///
    /// # Errors
    ///
    /// The error reply.
    pub fn into_result(self) -> Result<Self, ServerError> {
        match self {
            Self::Error(error) => Err(error),
            other => Ok(other),
        }
    }

    /// The duration in milliseconds; `None` if negative: the key is missing or has no time to live.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for another type.
    pub(crate) fn left(&self) -> Result<Option<Duration>, DecodeError> {
        Ok(u64::try_from(self.int()?).ok().map(Duration::from_millis))
    }

    /// The text.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for another type, or invalid UTF-8.
    pub fn text(&self) -> Result<&str, DecodeError> {
        match self {
            Self::Bulk(text) => std::str::from_utf8(text).map_err(|_| DecodeError::new("text", self)),
            _ => Err(DecodeError::new("text", self)),
        }
    }

    /// The number, if it is not negative.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for another type, or a negative number.
    pub(crate) fn natural<T: TryFrom<i64>>(&self) -> Result<T, DecodeError> {
        T::try_from(self.int()?).map_err(|_| DecodeError::new("a number in its range", self))
    }

    /// The code of an integer, one of `codes`.
    pub(crate) fn code(&self, codes: &[i64], expected: &'static str) -> Result<i64, DecodeError> {
        self.int().ok().filter(|code| codes.contains(code)).ok_or_else(|| DecodeError::new(expected, self))
    }

    /// The code at the start of an array, and the other elements. `{-4, kind}` is [`DecodeError::OtherKind`].
    pub(crate) fn coded(&self) -> Result<(i64, &[Self]), DecodeError> {
        let [code, rest @ ..] = self.array()? else { return Err(DecodeError::new("an array with a code", self)) };
        match (code.int()?, rest) {
            (-4, [kind]) => Err(DecodeError::OtherKind(kind.text()?.to_owned())),
            (code, rest) => Ok((code, rest)),
        }
    }

    /// The elements of the array.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for another type.
    pub fn array(&self) -> Result<&[Self], DecodeError> {
        match self {
            Self::Array(parts) => Ok(parts),
            _ => Err(DecodeError::new("an array", self)),
        }
    }
}

/// The error of a reply without the expected value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle both")]
pub enum DecodeError {
    /// The reply does not match the script's contract: another program replied, or versions do not match.
    #[error("the server's reply is not {expected}, as the script's contract promises, but {found}")]
    Unexpected {
        /// The reply of the contract.
        expected: &'static str,
        /// The beginning of the reply.
        found: String,
    },
    /// The key is of another kind.
    #[error("the name holds a {0}")]
    OtherKind(String),
}

impl DecodeError {
    /// The contract requires `expected`, but the reply is `found`.
    pub fn new(expected: &'static str, found: &Reply) -> Self {
        let mut found = format!("{found:?}");
        // Cutting a character would panic.
        let end = (0..=found.len().min(120)).rev().find(|end| found.is_char_boundary(*end));
        found.truncate(end.unwrap_or_default());
        Self::Unexpected { expected, found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reply_is_cut() {
        let reply = Reply::Array(vec![Reply::Nil; 100]);
        assert!(DecodeError::new("text", &reply).to_string().len() < 220);
        assert!(DecodeError::new("text", &Reply::Nil).to_string().ends_with("but Nil"));
    }
}
