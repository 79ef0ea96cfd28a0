//! The commands of the semaphore, a bare counter of permits.
//!
//! The counter does not know its holders, so every command that is not idempotent leaves a record; see
//! [`operation`](super::operation).

use super::operation::{Done, MEMORY, record_key};
use super::outcome::{Acquired, Released};
use super::protocol::{AcquireArgs, Keys, KindProtocol, ReleaseArgs, WaitPolicy};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script::{self, Script};
use bytes::Bytes;
use std::time::Duration;

/// The semaphore, on the wire.
#[derive(Debug)]
pub(super) struct Semaphore;

impl KindProtocol for Semaphore {
    fn kind_name(&self) -> &'static str {
        "bare semaphore"
    }

    fn wait_policy(&self) -> WaitPolicy {
        WaitPolicy::Shared
    }

    fn reenters(&self) -> bool {
        false
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        Keys { keys: Box::new([name.to_key()]), channel: Some(channel(name)) }
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        let call = change(&script::SEMAPHORE_ACQUIRE, ask.name, &ask.hold.field());
        call.number(ask.count).number(ask.hold.permits).limit(ask.not_after).millis(MEMORY)
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        Acquired::decode_one_of(reply, &[1, 2, 0, -2, -3, -4, -7])
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        change(&script::SEMAPHORE_RELEASE, give.name, &give.hold.field())
            .number(give.count)
            .number(give.hold.permits)
            .number(give.granted)
            .millis(MEMORY)
            .arg(&give.settings.publish)
            .arg(channel(give.name))
    }

    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        Released::decode_one_of(reply, &[1, 3, 0, -4, -8])
    }

    /// Permits of a bare semaphore have no lease.
    fn renewal(&self) -> Option<&'static Script> {
        None
    }
}

/// The channel that announces available permits. The leased semaphore shares this channel.
pub(super) fn channel(name: &LockName) -> Bytes {
    name.prefixed("redisson_sc")
}

/// Sets the number of permits unless a client has set it before. `operation` is a unique id.
pub fn set(name: &LockName, permits: u32, lifetime: Option<Duration>, operation: &[u8], publish: &Bytes) -> Call {
    let call = change(&script::SEMAPHORE_SET, name, operation).number(permits).millis(lifetime.unwrap_or_default());
    call.millis(MEMORY).arg(publish).arg(channel(name))
}

/// Decodes the reply to [`set`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn set_done(reply: &Reply) -> Result<Done, DecodeError> {
    Done::decode(reply, &[1, 2, 0, -8], "a reply of semaphore/set")
}

/// Adds permits outside any hold, as a JVM's `release` does. A negative number removes permits permanently. `operation`
/// is a unique id. `permits` must not be 0.
pub fn add(name: &LockName, permits: i32, operation: &[u8], publish: &Bytes) -> Call {
    let call = change(&script::SEMAPHORE_ADD, name, operation).arg(permits.to_string());
    call.millis(MEMORY).arg(publish).arg(channel(name))
}

/// Decodes the reply to [`add`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn added(reply: &Reply) -> Result<Done, DecodeError> {
    Done::decode(reply, &[1, 2, -8], "a reply of semaphore/add")
}

/// Removes all available permits, outside any hold. `operation` is a unique id.
pub fn drain(name: &LockName, operation: &[u8]) -> Call {
    change(&script::SEMAPHORE_DRAIN, name, operation).millis(MEMORY)
}

/// Decodes the reply to [`drain`]: the number of removed permits.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn drained(reply: &Reply) -> Result<Done, DecodeError> {
    Done::decode(reply, &[1, 2], "a reply of semaphore/drain")
}

/// Reads the number of available permits.
pub fn inspect(name: &LockName) -> Call {
    Call::of(&script::SEMAPHORE_INSPECT).key(name.key())
}

/// Decodes the reply to [`inspect`]; `None` if the semaphore is missing. The number of available permits is negative if more were
/// removed than existed. The time to live is `None` without expiry.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<Option<(i64, Option<Duration>)>, DecodeError> {
    match reply.coded()? {
        (0, []) => Ok(None),
        (1, [available, left]) => Ok(Some((available.int()?, left.left()?))),
        _ => Err(DecodeError::new("a reply of semaphore/inspect", reply)),
    }
}

/// A call of a script that leaves a record of the operation with this id.
fn change(script: &'static Script, name: &LockName, id: &[u8]) -> Call {
    Call::of(script).key(name.key()).key(record_key(name, id))
}
