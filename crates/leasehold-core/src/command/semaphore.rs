//! The commands of the semaphore, a bare counter of permits.
//!
//! The counter does not know who took permits, so every command that would change something twice leaves a record; see
//! [`operation`](super::operation).

use super::code::{array_code, int_code};
use super::operation::{Done, MEMORY, record_key};
use super::outcome::{Acquired, Released};
use super::protocol::{
    AcquireArgs, HoldKey, Keys, KindProtocol, ReleaseArgs, Renewal, WaitPolicy, decimal, limit, millis,
};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script::{self, Script};
use bytes::Bytes;
use std::time::Duration;

/// The semaphore, on the wire.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it has no state")]
pub struct Semaphore;

/// The result of an inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Inspected {
    /// There is no such semaphore.
    Absent,
    /// There is one.
    Present {
        /// How many permits are available; negative where more were taken away than there were.
        available: i64,
        /// The time to live; `None` where it is without end.
        left: Option<Duration>,
    },
    /// The key is of another kind.
    Kind(String),
}

impl KindProtocol for Semaphore {
    fn word(&self) -> &'static str {
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
        let keys = vec![ask.name.to_key(), record_key(ask.name, &ask.hold.field())];
        let permits = decimal(ask.hold.permits.into());
        let args = vec![decimal(ask.count.into()), permits, limit(ask.not_after), millis(MEMORY)];
        Call::new(&script::SEMAPHORE_ACQUIRE, keys, args)
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        match array_code(reply, &[1, 2, 0, -2, -3, -4, -7], "a reply of semaphore/acquire")? {
            (-7, _) => Ok(Acquired::Withdrawn),
            _ => Acquired::decode(reply),
        }
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        let keys = vec![give.name.to_key(), record_key(give.name, &give.hold.field())];
        let args = vec![
            decimal(give.count.into()),
            decimal(give.hold.permits.into()),
            decimal(give.granted.into()),
            millis(MEMORY),
            give.settings.publish.clone(),
            channel(give.name),
        ];
        Call::new(&script::SEMAPHORE_RELEASE, keys, args)
    }

    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        Ok(match int_code(reply, &[1, 3, 0, -4, -8], "a reply of semaphore/release")? {
            1 => Released::Ended,
            3 => Released::Lowered,
            _ => Released::Gone,
        })
    }

    /// The permits of a bare semaphore have no lease.
    fn renewal(&self) -> Option<&'static Script> {
        None
    }

    fn renew(&self, _into: &mut Renewal, _name: &LockName, _keys: &Keys, _hold: &HoldKey, _lease: Duration) {}
}

/// The channel on which a semaphore announces its free permits. The leased semaphore has the same.
pub(super) fn channel(name: &LockName) -> Bytes {
    name.prefixed("redisson_sc")
}

/// Sets the number of permits where there is none yet. `operation` is an id that is used once.
pub fn set(name: &LockName, permits: u32, lifetime: Option<Duration>, operation: &[u8], publish: &Bytes) -> Call {
    let lifetime = lifetime.map_or_else(|| decimal(0), millis);
    let args = vec![decimal(permits.into()), lifetime, millis(MEMORY), publish.clone(), channel(name)];
    Call::new(&script::SEMAPHORE_SET, keys_of_change(name, operation), args)
}

/// Decodes the reply to [`set`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn set_done(reply: &Reply) -> Result<Done, DecodeError> {
    decode_done(reply, &[1, 2, 0, -4, -8], "a reply of semaphore/set")
}

/// Adds permits that belong to no hold, as a JVM's `release` does; negative takes some away for good. `operation` is an id that is
/// used once. `permits` must not be 0.
pub fn add(name: &LockName, permits: i32, operation: &[u8], publish: &Bytes) -> Call {
    let args = vec![Bytes::from(permits.to_string()), millis(MEMORY), publish.clone(), channel(name)];
    Call::new(&script::SEMAPHORE_ADD, keys_of_change(name, operation), args)
}

/// Decodes the reply to [`add`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn added(reply: &Reply) -> Result<Done, DecodeError> {
    decode_done(reply, &[1, 2, -4, -8], "a reply of semaphore/add")
}

/// Takes all available permits, for no hold. `operation` is an id that is used once.
pub fn drain(name: &LockName, operation: &[u8]) -> Call {
    Call::new(&script::SEMAPHORE_DRAIN, keys_of_change(name, operation), vec![millis(MEMORY)])
}

/// Decodes the reply to [`drain`]: the number is how many were taken.
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn drained(reply: &Reply) -> Result<Done, DecodeError> {
    decode_done(reply, &[1, 2, -4], "a reply of semaphore/drain")
}

/// Asks how many permits are available.
pub fn inspect(name: &LockName) -> Call {
    Call::new(&script::SEMAPHORE_INSPECT, vec![name.to_key()], [""; 0])
}

/// Decodes the reply to [`inspect`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn inspected(reply: &Reply) -> Result<Inspected, DecodeError> {
    const EXPECTED: &str = "a reply of semaphore/inspect";
    match array_code(reply, &[1, 0, -4], EXPECTED)? {
        (0, []) => Ok(Inspected::Absent),
        (1, [available, remaining]) => Ok(Inspected::Present { available: available.int()?, left: remaining.left()? }),
        (-4, [kind]) => Ok(Inspected::Kind(kind.text()?.to_owned())),
        _ => Err(DecodeError::new(EXPECTED, reply)),
    }
}

fn keys_of_change(name: &LockName, operation: &[u8]) -> Vec<Bytes> {
    vec![name.to_key(), record_key(name, operation)]
}

/// Decodes `{1, number}` done, `{2, number}` done before, `{0, number}` refused, `{-8, number}` overflow and `{-4, kind}`, as far
/// as a script answers with them.
pub(super) fn decode_done(reply: &Reply, codes: &[i64], expected: &'static str) -> Result<Done, DecodeError> {
    let (code, rest) = array_code(reply, codes, expected)?;
    let [second] = rest else { return Err(DecodeError::new(expected, reply)) };
    if code == -4 {
        return Ok(Done::Kind(second.text()?.to_owned()));
    }
    let number = second.int()?;
    Ok(match code {
        1 => Done::Done { number, copy: false },
        2 => Done::Done { number, copy: true },
        0 => Done::Refused { number },
        _ => Done::Overflow { number },
    })
}
