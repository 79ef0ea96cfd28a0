//! The commands of the fenced store: values on the server, and registers for values elsewhere.
//!
//! A register stores the greatest presented fencing token and its owner. Present the token at the first read and at
//! every write. With checks only at writes, an old holder can still write between a newer holder's read and write. The
//! newer holder then overwrites that update.

use crate::call::Call;
use crate::name::LockName;
use crate::reply::{DecodeError, Reply};
use crate::script;
use bytes::Bytes;
use std::time::Duration;

/// A claim to a register.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a caller must decide on every field")]
pub struct Claim<'a> {
    /// The fencing token, from 1 to 2^53.
    pub token: u64,
    /// The hold with this token.
    pub owner: &'a Bytes,
    /// The lifetime of the register; `None` without expiry. An expired register admits stale tokens again.
    pub keep: Option<Duration>,
}

/// The register's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Fenced<T> {
    /// The token is registered.
    Admitted(T),
    /// A greater token is registered: a later holder exists.
    Stale {
        /// The registered token.
        registered: u64,
    },
    /// Another owner registered the token: the server lost a write, and issued the token twice.
    Twice {
        /// The token.
        registered: u64,
    },
}

/// The result of an admitted write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Written {
    /// The value is written.
    Now,
    /// The hold has already performed this write, or a later write.
    Before,
}

/// The key of the register of a value: `leasehold:1:fence:{key}`.
pub fn fence_key(data: &LockName) -> Bytes {
    data.prefixed("leasehold:1:fence")
}

/// Reads a value.
pub fn read(data: &LockName, claim: &Claim<'_>) -> Call {
    claim.shown(Call::of(&script::STORE_READ).key(data.key()).key(fence_key(data)))
}

/// Decodes the reply to [`read`]; `Admitted(None)` means that the value is missing.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn read_done(reply: &Reply) -> Result<Fenced<Option<Bytes>>, DecodeError> {
    decode(reply, "a reply of store/read", |admitted| match admitted {
        (1, [Reply::Bulk(value)]) => Some(Some(value.clone())),
        (2, []) => Some(None),
        _ => None,
    })
}

/// Writes a value. `number` is the number of the write within its hold, ascending from 1. `lifetime` is the lifetime of
/// the value, `None` without expiry.
pub fn write(data: &LockName, claim: &Claim<'_>, number: u64, value: Bytes, lifetime: Option<Duration>) -> Call {
    let call = claim.shown(Call::of(&script::STORE_WRITE).key(data.key()).key(fence_key(data)));
    call.number(number).arg(value).millis(lifetime.unwrap_or_default())
}

/// Decodes the reply to [`write()`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn written(reply: &Reply) -> Result<Fenced<Written>, DecodeError> {
    decode(reply, "a reply of store/write", |admitted| match admitted {
        (1, []) => Some(Written::Now),
        (2, []) => Some(Written::Before),
        _ => None,
    })
}

/// Registers a token for a value outside the store, such as keys that the caller writes directly.
pub fn check(data: &LockName, claim: &Claim<'_>) -> Call {
    claim.shown(Call::of(&script::STORE_CHECK).key(fence_key(data)))
}

/// Decodes the reply to [`check`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn checked(reply: &Reply) -> Result<Fenced<()>, DecodeError> {
    decode(reply, "a reply of store/check", |admitted| matches!(admitted, (1, [])).then_some(()))
}

impl Claim<'_> {
    fn shown(&self, call: Call) -> Call {
        call.number(self.token).arg(self.owner).millis(self.keep.unwrap_or_default())
    }
}

/// Decodes a register's decision. `admitted` decodes the reply of an admission.
fn decode<T>(
    reply: &Reply,
    expected: &'static str,
    admitted: impl FnOnce((i64, &[Reply])) -> Option<T>,
) -> Result<Fenced<T>, DecodeError> {
    match reply.coded()? {
        (0, [registered]) => Ok(Fenced::Stale { registered: registered.natural()? }),
        (-1, [registered]) => Ok(Fenced::Twice { registered: registered.natural()? }),
        other => admitted(other).map(Fenced::Admitted).ok_or_else(|| DecodeError::new(expected, reply)),
    }
}
