//! The commands of the count-down latch.

use super::operation::{Done, MEMORY, braced_record_key};
use super::outcome::{Acquired, Released};
use super::protocol::{AcquireArgs, Keys, KindProtocol, ReleaseArgs, WaitPolicy, decimal, limit, millis};
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
        Call::new(&script::LATCH_ACQUIRE, vec![ask.name.to_key()], vec![limit(ask.not_after)])
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        Acquired::decode_one_of(reply, &[1, 0, -4])
    }

    /// A latch has no holder, so this is an inspection.
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
    Call::new(&script::LATCH_SET, keys_of_change(name, operation), args_of_change(name, count, publish))
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
    Call::new(&script::LATCH_COUNT_DOWN, keys_of_change(name, operation), args_of_change(name, count, publish))
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
    Call::new(&script::LATCH_INSPECT, vec![name.to_key()], [""; 0])
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
    let args = vec![millis(MEMORY), publish.clone(), channel(name)];
    Call::new(&script::LATCH_DELETE, keys_of_change(name, operation), args)
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

fn keys_of_change(name: &LockName, operation: &[u8]) -> Vec<Bytes> {
    vec![name.to_key(), braced_record_key(name, operation)]
}

fn args_of_change(name: &LockName, count: u32, publish: &Bytes) -> Vec<Bytes> {
    vec![decimal(count.into()), millis(MEMORY), publish.clone(), channel(name)]
}
