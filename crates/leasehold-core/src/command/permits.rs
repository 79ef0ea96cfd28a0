//! The commands of the leased semaphore. Its permits have ids and leases.

mod id;

pub use id::{ID_BYTES, InvalidPermitId, PermitId};

use super::operation::{Done, MEMORY, record_key};
use super::outcome::{Acquired, Released};
use super::protocol::{AcquireArgs, HoldKey, Keys, KindProtocol, ReleaseArgs, Renewal, WaitPolicy, millis};
use super::semaphore::channel;
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script::{self, Script};
use bytes::Bytes;
use std::time::Duration;

/// Adds or permanently removes capacity. Both semaphores share this command and the counter of available permits.
pub use super::semaphore::{add, added};

/// Maximum number of permits in one call. The server handles each permit separately, and serves no other client
/// meanwhile: 2 ms for a thousand permits, five seconds for a million.
pub const MAX_AT_ONCE: u32 = 1_000;

/// The leased semaphore, on the wire.
#[derive(Debug)]
pub(super) struct Permits;

/// A held permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is what the script answers")]
pub struct HeldPermit {
    /// The id.
    pub id: PermitId,
    /// The remaining lease; `None` without expiry.
    pub left: Option<Duration>,
}

/// The permits of a semaphore. Available plus held permits equal the capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is what the script answers")]
pub struct Counts {
    /// Number of available permits; negative if the capacity was set below the number of held permits.
    pub available: i64,
    /// Number of held permits.
    pub held: u64,
    /// The permits that expire first, at most a thousand.
    pub permits: Vec<HeldPermit>,
}

impl KindProtocol for Permits {
    fn kind_name(&self) -> &'static str {
        "semaphore"
    }

    fn wait_policy(&self) -> WaitPolicy {
        WaitPolicy::Shared
    }

    fn reenters(&self) -> bool {
        false
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        Keys { keys: Box::new([name.to_key(), deadlines(name)]), channel: Some(channel(name)) }
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        Call::of(&script::PERMITS_ACQUIRE)
            .with_keys(&*ask.keys.keys)
            .arg(ids(ask.hold))
            .number(ask.count)
            .millis(ask.lease)
            .limit(ask.not_after)
            .arg(&ask.settings.publish)
            .arg(channel(ask.name))
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        Ok(match Acquired::decode_one_of(reply, &[1, 2, 0, -2, -3, -4, -6])? {
            // The fourth number of a grant is not a token here.
            Acquired::Held { left, time, token, .. } => Acquired::Held { left, time, token: None, in_all: token },
            other => other,
        })
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        let call = Call::of(&script::PERMITS_RELEASE).with_keys(&*give.keys.keys).arg(ids(give.hold));
        call.number(give.count).arg(&give.settings.publish).arg(channel(give.name))
    }

    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        Released::decode_one_of(reply, &[1, 3, 0, -1, -4])
    }

    /// A client that knows a permit's id may set its deadline, as a JVM does.
    fn may_be_prolonged(&self) -> bool {
        true
    }

    fn renewal(&self) -> Option<&'static Script> {
        Some(&script::PERMITS_RENEW)
    }

    fn renew(&self, into: &mut Renewal, name: &LockName, _keys: &Keys, hold: &HoldKey, lease: Duration) {
        into.keys.push(deadlines(name));
        into.args.extend([ids(hold), millis(lease)]);
    }
}

/// Returns permits by their ids, including those of other holders. A copy returns `false` for each id.
pub fn give(name: &LockName, ids: impl IntoIterator<Item = PermitId>, publish: &Bytes) -> Call {
    let call = Call::of(&script::PERMITS_GIVE).key(name.key()).key(deadlines(name));
    call.arg(PermitId::blob(ids)).arg(publish).arg(channel(name))
}

/// Decodes the reply to [`give`]: for each id, in order, whether the permit was returned. `false` for a missing or expired
/// permit.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn given(reply: &Reply) -> Result<Vec<bool>, DecodeError> {
    match reply.coded()? {
        (1, each) => each.iter().map(|given| Ok(given.int()? == 1)).collect(),
        _ => Err(DecodeError::new("a reply of permits/give", reply)),
    }
}

/// Sets the capacity unless a client has set it before. `operation` is a unique id.
pub fn set(name: &LockName, capacity: u32, operation: &[u8], publish: &Bytes) -> Call {
    change(&script::PERMITS_SET, name, capacity, operation, publish)
}

/// Decodes the reply to [`set`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn set_done(reply: &Reply) -> Result<Done, DecodeError> {
    Done::decode(reply, &[1, 2, 0, -8], "a reply of permits/set")
}

/// Sets the capacity, even while permits are held. `operation` is a unique id.
pub fn resize(name: &LockName, capacity: u32, operation: &[u8], publish: &Bytes) -> Call {
    change(&script::PERMITS_RESIZE, name, capacity, operation, publish)
}

/// Decodes the reply to [`resize`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn resized(reply: &Reply) -> Result<Done, DecodeError> {
    Done::decode(reply, &[1, 2, -8], "a reply of permits/resize")
}

/// Reads the numbers of available and held permits.
pub fn inspect(name: &LockName) -> Call {
    Call::of(&script::PERMITS_INSPECT).key(name.key()).key(deadlines(name))
}

/// Decodes the reply to [`inspect`]; `None` if the semaphore is missing.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<Option<Counts>, DecodeError> {
    const EXPECTED: &str = "a reply of permits/inspect";
    match reply.coded()? {
        (0, []) => Ok(None),
        (1, [available, held, permits @ ..]) => {
            let permits = permits.chunks(2).map(|pair| match pair {
                [Reply::Bulk(id), left] => {
                    let id = PermitId::from_bytes(id).ok_or_else(|| DecodeError::new("an id of a permit", reply))?;
                    Ok(HeldPermit { id, left: left.left()? })
                }
                _ => Err(DecodeError::new(EXPECTED, reply)),
            });
            let permits = permits.collect::<Result<_, _>>()?;
            Ok(Some(Counts { available: available.int()?, held: held.natural()?, permits }))
        }
        _ => Err(DecodeError::new(EXPECTED, reply)),
    }
}

/// Reads the remaining lease of a permit.
pub fn lease(name: &LockName, id: PermitId) -> Call {
    Call::of(&script::PERMITS_LEASE).key(deadlines(name)).arg(id.as_bytes())
}

/// Decodes the reply to [`lease`] of the permit `id`; `None` if the permit is not held, or has expired.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn leased(reply: &Reply, id: PermitId) -> Result<Option<HeldPermit>, DecodeError> {
    match reply.coded()? {
        (0, []) => Ok(None),
        (1, [left]) => Ok(Some(HeldPermit { id, left: left.left()? })),
        _ => Err(DecodeError::new("a reply of permits/lease", reply)),
    }
}

fn deadlines(name: &LockName) -> Bytes {
    name.suffixed("timeout")
}

fn ids(hold: &HoldKey) -> Bytes {
    PermitId::blob(PermitId::of_hold(&hold.field(), hold.permits))
}

fn change(script: &'static Script, name: &LockName, capacity: u32, operation: &[u8], publish: &Bytes) -> Call {
    let call = Call::of(script).key(name.key()).key(deadlines(name)).key(record_key(name, operation));
    call.number(capacity).millis(MEMORY).arg(publish).arg(channel(name))
}
