//! The fencing token.

use crate::error::InvalidInput;
use std::fmt;

/// The fencing token of a grant, which is greater than the tokens of all earlier grants.
///
/// A token can be compared, stored, and bound as a parameter. It is below 2^53 and fits every integer of a database, such as a `BIGINT`, and
/// the numbers of JSON. Drivers without unsigned numbers, such as `sqlx` and `tokio-postgres`, bind [`FencingToken::as_i64`].
///
/// # Examples
///
/// ```
/// use leasehold::fence::FencingToken;
///
/// let shown = FencingToken::try_from(1_764_000_000_000_000_i64)?;
/// let registered = FencingToken::try_from(1_764_000_000_000_001_u64)?;
/// assert!(shown < registered, "a stale token");
/// assert_eq!(shown.as_i64().to_string(), shown.to_string());
/// # Ok::<(), leasehold::InvalidInput>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The greatest token, 2^53 - 1.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Creates a token from the reply of the lock's server.
    pub(crate) const fn told(token: u64) -> Self {
        Self(token)
    }

    /// Returns the token as a signed number, for SQL.
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }

    /// Returns the token as an unsigned number.
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

    /// Converts a stored number. Fails for 2^53 and above.
    fn try_from(token: u64) -> Result<Self, InvalidInput> {
        Self::try_from(i64::try_from(token).unwrap_or(i64::MAX))
    }
}

impl TryFrom<i64> for FencingToken {
    type Error = InvalidInput;

    /// Converts a stored number. Fails below 0, and for 2^53 and above.
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
