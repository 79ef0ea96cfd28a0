//! The commands of a ticket, which moves a hold to another process.

use super::protocol::HoldKey;
use crate::call::Call;
use crate::name::LockName;
use crate::reply::{DecodeError, Reply};
use crate::script::{self, Script};
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
    /// The key is of another kind.
    Kind(String),
}

/// The result of an adoption.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Adopted {
    /// The caller has the hold.
    Adopted {
        /// The remaining lease.
        left: Duration,
    },
    /// The hold was adopted before, or the ticket has expired.
    Spent,
    /// The hold is missing.
    Gone,
    /// The key is of another kind.
    Kind(String),
}

/// Stores the secret of a hold's ticket.
pub fn offer(name: &LockName, hold: &HoldKey, secret: &[u8], lease: Duration) -> Call {
    call(&script::TICKET_OFFER, name, hold, secret, lease)
}

/// Adopts a hold by the secret of its ticket.
pub fn adopt(name: &LockName, hold: &HoldKey, secret: &[u8], lease: Duration) -> Call {
    call(&script::TICKET_ADOPT, name, hold, secret, lease)
}

fn call(script: &'static Script, name: &LockName, hold: &HoldKey, secret: &[u8], lease: Duration) -> Call {
    Call::of(script).key(name.key()).key(key(name)).hold(hold).arg(secret).millis(lease)
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

/// Decodes the reply to [`adopt`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn adopted(reply: &Reply) -> Result<Adopted, DecodeError> {
    match reply.array()? {
        [code, left] if code.int()? == 1 => match left.left()? {
            Some(left) => Ok(Adopted::Adopted { left }),
            None => Err(DecodeError::new("a lease", left)),
        },
        [code, _] if code.int()? == 0 => Ok(Adopted::Spent),
        [code, _] if code.int()? == -1 => Ok(Adopted::Gone),
        [code, kind] if code.int()? == -4 => Ok(Adopted::Kind(kind.text()?.to_owned())),
        _ => Err(DecodeError::new("a reply of ticket/adopt", reply)),
    }
}
