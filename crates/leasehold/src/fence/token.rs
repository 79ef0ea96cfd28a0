//! The fencing token.

use crate::error::InvalidInput;
use std::fmt;

/// The number of a grant of a fenced lock: greater than that of every grant before it.
///
/// It is compared, kept, and bound as a parameter. It is below 2^53, so every integer of a database takes it, a `BIGINT` as well as the
/// `NUMBER` of JSON: drivers such as `sqlx` and `tokio-postgres`, which know no unsigned numbers, bind [`FencingToken::as_i64`].
///
/// # Examples
///
/// ```
/// use leasehold::fence::FencingToken;
///
/// let shown = FencingToken::try_from(1_764_000_000_000_000_i64)?;
/// let registered = FencingToken::try_from(1_764_000_000_000_001_u64)?;
/// assert!(shown < registered, "a stale one");
/// assert_eq!(shown.as_i64().to_string(), shown.to_string());
/// # Ok::<(), leasehold::InvalidInput>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// No token is greater: 2^53 - 1.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// A token as the lock's server told it.
    pub(crate) const fn told(token: u64) -> Self {
        Self(token)
    }

    /// As a signed number, for SQL.
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }

    /// As an unsigned number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.as_i64()
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.as_u64()
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = InvalidInput;

    /// A token that was kept elsewhere. A number from 2^53 is none.
    fn try_from(token: u64) -> Result<Self, InvalidInput> {
        Self::try_from(i64::try_from(token).unwrap_or(i64::MAX))
    }
}

impl TryFrom<i64> for FencingToken {
    type Error = InvalidInput;

    /// A token that was kept elsewhere. A number below 0, or from 2^53, is none.
    fn try_from(given: i64) -> Result<Self, InvalidInput> {
        let most = Self::MAX.as_i64();
        match u64::try_from(given) {
            Ok(token) if given <= most => Ok(Self(token)),
            _ => Err(InvalidInput::Number { what: "fencing token", given, least: 0, most }),
        }
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_number_below_two_to_the_fifty_third() {
        assert_eq!(FencingToken::try_from(FencingToken::MAX.as_u64()), Ok(FencingToken::MAX));
        assert_eq!(FencingToken::try_from(7_i64).map(u64::from), Ok(7));
        for refused in [1 << 53, u64::MAX] {
            assert!(FencingToken::try_from(refused).is_err(), "{refused}");
        }
        assert!(FencingToken::try_from(-1_i64).is_err());
    }
}
