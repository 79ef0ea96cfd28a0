//! The commands of a ticket, which moves a hold to another process.

use super::protocol::HoldKey;
use super::{Kind, fair, fenced};
use crate::call::Call;
use crate::name::LockName;
use crate::reply::{DecodeError, Reply};
use crate::script;
use bytes::Bytes;
use std::time::Duration;

/// The result of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Offered {
    /// The server has the secret.
    Offered {
        /// The remaining lease.
        left: Duration,
        /// The server's time of the offer in microseconds, which completes the secret.
        time: u64,
    },
    /// The hold count is not 1.
    Count(u32),
    /// The hold is missing.
    Gone,
    /// The key holds another kind of object.
    Kind(String),
}

/// The result of an adoption.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Adopted {
    /// The caller has the lock, with the hold that it named.
    Adopted {
        /// The remaining lease.
        left: Duration,
        /// The fencing token, if the kind has tokens.
        token: Option<u64>,
    },
    /// The hold was adopted before, or the ticket has expired.
    Spent,
    /// The offered hold is missing.
    Gone,
    /// A key holds another kind of object.
    Kind(String),
}

/// Stores the secret of a hold's ticket.
pub fn offer(name: &LockName, hold: &HoldKey, secret: &[u8], lease: Duration) -> Call {
    Call::of(&script::TICKET_OFFER).key(name.key()).key(key(name)).hold(hold).arg(secret).millis(lease)
}

/// Replaces the hold of the field `offered` with `hold`. The secret of the ticket authorizes the adoption.
pub fn adopt(name: &LockName, kind: Kind, hold: &HoldKey, offered: &[u8], secret: &[u8], lease: Duration) -> Call {
    let marks = matches!(kind, Kind::Fair | Kind::FencedFair).then(|| fair::marks_key(name));
    let token = has_tokens(kind).then(|| fenced::token_key(name));
    let keys = Call::of(&script::TICKET_ADOPT).key(name.key()).key(key(name));
    let keys = [marks, token].iter().fold(keys, |keys, key| keys.key(key.as_deref().unwrap_or_else(|| name.key())));
    keys.hold(hold).arg(offered).arg(secret).millis(lease)
}

const fn has_tokens(kind: Kind) -> bool {
    matches!(kind, Kind::Fenced | Kind::FencedFair)
}

/// The key of a lock's ticket.
fn key(name: &LockName) -> Bytes {
    name.prefixed("leasehold:1:ticket")
}

/// The secret of a ticket, complete with the server's time of the offer.
pub fn secret_at(secret: &[u8], time: u64) -> Bytes {
    Bytes::from([secret, b":", time.to_string().as_bytes()].concat())
}

/// Decodes the reply to [`offer`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn offered(reply: &Reply) -> Result<Offered, DecodeError> {
    let number = |part: &Reply| u64::try_from(part.int()?).map_err(|_| DecodeError::new("a number", part));
    match reply.array()? {
        [code, left, time] if code.int()? == 1 => {
            Ok(Offered::Offered { left: Duration::from_millis(number(left)?), time: number(time)? })
        }
        [code, stored] if code.int()? == 0 => {
            Ok(Offered::Count(u32::try_from(number(stored)?).map_err(|_| DecodeError::new("a hold count", stored))?))
        }
        [code, _] if code.int()? == -1 => Ok(Offered::Gone),
        [code, kind] if code.int()? == -4 => Ok(Offered::Kind(kind.text()?.to_owned())),
        _ => Err(DecodeError::new("a reply of ticket/offer", reply)),
    }
}

/// Decodes the reply to [`adopt`] of a lock of this kind.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn adopted(kind: Kind, reply: &Reply) -> Result<Adopted, DecodeError> {
    match reply.array()? {
        [code, left, token] if matches!(code.int()?, 1 | 2) => {
            let left = left.left()?.ok_or_else(|| DecodeError::new("a lease", left))?;
            let issued = u64::try_from(token.int()?).ok().filter(|token| (*token > 0) == has_tokens(kind));
            let issued = issued.ok_or_else(|| DecodeError::new("a fencing token, or 0 without one", token))?;
            Ok(Adopted::Adopted { left, token: Some(issued).filter(|token| *token > 0) })
        }
        [code, _] if code.int()? == 0 => Ok(Adopted::Spent),
        [code, _] if code.int()? == -1 => Ok(Adopted::Gone),
        [code, kind] if code.int()? == -4 => Ok(Adopted::Kind(kind.text()?.to_owned())),
        _ => Err(DecodeError::new("a reply of ticket/adopt", reply)),
    }
}
