//! The commands of the count-down latch.

use super::operation::{Done, MEMORY, braced_record_key};
use super::outcome::{Acquired, Released};
use super::protocol::{AcquireArgs, Keys, KindProtocol, ReleaseArgs, WaitPolicy};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script::{self, Script};
use bytes::Bytes;

/// The count-down latch, on the wire.
#[derive(Debug)]
pub(super) struct Latch;

impl KindProtocol for Latch {
    fn kind_name(&self) -> &'static str {
        "count-down latch"
    }

    fn wait_policy(&self) -> WaitPolicy {
        WaitPolicy::Broadcast
    }

    fn reenters(&self) -> bool {
        false
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        Keys { keys: Box::new([name.to_key()]), channel: Some(channel(name)) }
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        Call::of(&script::LATCH_ACQUIRE).key(ask.name.key()).limit(ask.not_after)
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        Acquired::decode_one_of(reply, &[1, 0, -4])
    }

    /// A latch has no holder, so an acquire only inspects the latch.
    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        inspect(give.name)
    }

    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        inspected(reply).map(|_| Released::Ended)
    }

    /// A latch has no holder and no lease.
    fn renewal(&self) -> Option<&'static Script> {
        None
    }
}

/// Sets the count of an open latch. `operation` is a unique id; `count` is at least 1.
pub fn set(name: &LockName, count: u32, operation: &[u8], publish: &Bytes) -> Call {
    remembered(change(&script::LATCH_SET, name, operation).number(count), name, publish)
}

/// Decodes the reply to [`set`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn set_done(reply: &Reply) -> Result<Done, DecodeError> {
    Done::decode(reply, &[1, 2, 0], "a reply of latch/set")
}

/// Counts down, and opens the latch at zero. `operation` is a unique id; `count` is at least 1.
pub fn count_down(name: &LockName, count: u32, operation: &[u8], publish: &Bytes) -> Call {
    remembered(change(&script::LATCH_COUNT_DOWN, name, operation).number(count), name, publish)
}

/// Decodes the reply to [`count_down`]: the number is the remaining count. `Refused` means already open.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn counted_down(reply: &Reply) -> Result<Done, DecodeError> {
    Done::decode(reply, &[1, 2, 0], "a reply of latch/count_down")
}

/// Reads the count.
pub fn inspect(name: &LockName) -> Call {
    Call::of(&script::LATCH_INSPECT).key(name.key())
}

/// Decodes the reply to [`inspect`]: the count, which is 0 for an open latch.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<i64, DecodeError> {
    match reply.coded()? {
        (0, []) => Ok(0),
        (1, [left]) => left.int(),
        _ => Err(DecodeError::new("a reply of latch/inspect", reply)),
    }
}

/// Deletes the latch, which opens it for all waiters. `operation` is a unique id.
pub fn delete(name: &LockName, operation: &[u8], publish: &Bytes) -> Call {
    remembered(change(&script::LATCH_DELETE, name, operation), name, publish)
}

/// Decodes the reply to [`delete`]: whether this command or an earlier copy deleted the latch.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn deleted(reply: &Reply) -> Result<bool, DecodeError> {
    match reply.code(&[1, 2, 0, -4], "a reply of latch/delete")? {
        -4 => Err(DecodeError::OtherKind("key of another kind".to_owned())),
        code => Ok(code != 0),
    }
}

fn channel(name: &LockName) -> Bytes {
    name.braced("redisson_countdownlatch__channel__")
}

fn change(script: &'static Script, name: &LockName, operation: &[u8]) -> Call {
    Call::of(script).key(name.key()).key(braced_record_key(name, operation))
}

fn remembered(call: Call, name: &LockName, publish: &Bytes) -> Call {
    call.millis(MEMORY).arg(publish).arg(channel(name))
}
