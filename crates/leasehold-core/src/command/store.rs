//! The commands of the fenced store: values on the server itself, and registers for what is guarded elsewhere.
//!
//! A register keeps the greatest fencing token that was shown, and who showed it. It must be shown at the first read as well as at
//! every write: checked at writes alone, an older holder that has read before a newer one wrote still loses the newer write.

use super::code::array_code;
use super::protocol::{decimal, millis};
use crate::call::Call;
use crate::name::LockName;
use crate::reply::{DecodeError, Reply};
use crate::script;
use bytes::Bytes;
use std::time::Duration;

/// The claim that is shown to a register.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a caller must decide on every field")]
pub struct Claim<'a> {
    /// The fencing token, from 1 to 2^53.
    pub token: u64,
    /// The hold that it was granted to.
    pub owner: &'a Bytes,
    /// How long the register is kept; `None` is for ever. A register that goes away admits stale tokens again.
    pub keep: Option<Duration>,
}

/// The answer of the register.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Fenced<T> {
    /// The token is registered.
    Admitted(T),
    /// A greater token was registered: another holder came after this one.
    Stale {
        /// The greatest token that was shown.
        registered: u64,
    },
    /// The same token is registered for another owner: the server has lost a write, and granted twice.
    Twice {
        /// The token.
        registered: u64,
    },
    /// The value is not a string, or the register not a hash.
    Kind(String),
}

/// The result of a write that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Written {
    /// The value is written.
    Now,
    /// This write, or a later one of the same hold, was done before.
    Before,
}

/// The key of the register of a value: `leasehold:1:fence:{key}`.
pub fn fence_key(data: &LockName) -> Bytes {
    data.prefixed("leasehold:1:fence")
}

/// Reads a value.
pub fn read(data: &LockName, claim: &Claim<'_>) -> Call {
    Call::new(&script::STORE_READ, keys(data), claim.args())
}

/// Decodes the reply to [`read`]; nothing is admitted to nothing where there is no value.
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn read_done(reply: &Reply) -> Result<Fenced<Option<Bytes>>, DecodeError> {
    const EXPECTED: &str = "a reply of store/read";
    decode(reply, &[1, 2, 0, -1, -4], EXPECTED, |code, rest| match (code, rest) {
        (1, [Reply::Bulk(value)]) => Ok(Some(value.clone())),
        (2, []) => Ok(None),
        _ => Err(DecodeError::new(EXPECTED, reply)),
    })
}

/// Writes a value. `number` is the number of the write within its hold, from 1, growing; `lifetime` is how long the value stays,
/// `None` for ever.
pub fn write(data: &LockName, claim: &Claim<'_>, number: u64, value: Bytes, lifetime: Option<Duration>) -> Call {
    let mut args = claim.args();
    args.extend([decimal(number), value, optional(lifetime)]);
    Call::new(&script::STORE_WRITE, keys(data), args)
}

/// Decodes the reply to [`write()`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn written(reply: &Reply) -> Result<Fenced<Written>, DecodeError> {
    const EXPECTED: &str = "a reply of store/write";
    decode(reply, &[1, 2, 0, -1, -4], EXPECTED, |code, rest| match (code, rest) {
        (1, []) => Ok(Written::Now),
        (2, []) => Ok(Written::Before),
        _ => Err(DecodeError::new(EXPECTED, reply)),
    })
}

/// Registers a token for something that is guarded elsewhere, such as keys that the caller writes with commands of its own.
pub fn check(data: &LockName, claim: &Claim<'_>) -> Call {
    Call::new(&script::STORE_CHECK, vec![fence_key(data)], claim.args())
}

/// Decodes the reply to [`check`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn checked(reply: &Reply) -> Result<Fenced<()>, DecodeError> {
    const EXPECTED: &str = "a reply of store/check";
    decode(reply, &[1, 0, -1, -4], EXPECTED, |_, rest| match rest {
        [] => Ok(()),
        _ => Err(DecodeError::new(EXPECTED, reply)),
    })
}

impl Claim<'_> {
    fn args(&self) -> Vec<Bytes> {
        vec![decimal(self.token), self.owner.clone(), optional(self.keep)]
    }
}

fn keys(data: &LockName) -> Vec<Bytes> {
    vec![data.to_key(), fence_key(data)]
}

fn optional(duration: Option<Duration>) -> Bytes {
    duration.map_or_else(|| decimal(0), millis)
}

fn decode<T>(
    reply: &Reply,
    codes: &[i64],
    expected: &'static str,
    admitted: impl FnOnce(i64, &[Reply]) -> Result<T, DecodeError>,
) -> Result<Fenced<T>, DecodeError> {
    let (code, rest) = array_code(reply, codes, expected)?;
    let token = |reply: &Reply| u64::try_from(reply.int()?).map_err(|_| DecodeError::new("a fencing token", reply));
    match (code, rest) {
        (0, [registered]) => Ok(Fenced::Stale { registered: token(registered)? }),
        (-1, [registered]) => Ok(Fenced::Twice { registered: token(registered)? }),
        (-4, [kind]) => Ok(Fenced::Kind(kind.text()?.to_owned())),
        (0 | -1 | -4, _) => Err(DecodeError::new(expected, reply)),
        _ => admitted(code, rest).map(Fenced::Admitted),
    }
}
