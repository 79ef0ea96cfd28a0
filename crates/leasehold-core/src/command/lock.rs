//! The commands of the reentrant lock: requests become calls, replies become outcomes.

use crate::call::Call;
use crate::name::LockName;
use crate::reply::{DecodeError, Reply};
use crate::script;
use bytes::Bytes;
use std::time::Duration;

/// What the server did with an acquire, one row each of the table in `lua/lock/acquire.lua`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a state machine must handle every outcome")]
pub enum Acquired {
    /// The hold has the count that was asked for: granted, or a copy of a command that was.
    Held {
        /// The lease left when the server answered.
        left: Duration,
        /// The server's time in milliseconds, where it was asked for.
        time: Option<u64>,
    },
    /// Another hold has the lock.
    Busy {
        /// The lease left of the holder; `None` where the key has no time to live.
        left: Option<Duration>,
        /// The server's time in milliseconds, where it was asked for.
        time: Option<u64>,
    },
    /// The stored count does not fit the one asked for: client and server disagree.
    Mismatch,
    /// The hold that was to be raised is not there.
    Lost,
    /// The first grant arrived after its time.
    TooLate {
        /// The server's time in milliseconds.
        time: Option<u64>,
    },
    /// The key is of another kind.
    Kind(String),
}

/// What the server did with a release, one row each of the table in `lua/lock/release.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a state machine must handle every outcome")]
pub enum Released {
    /// The hold has ended.
    Ended,
    /// The count is what was asked for, or lower.
    Lowered,
    /// The hold is not there: the lock is free, somebody else has it, or the key is of another kind.
    Gone,
}

/// What the server did with one lock of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a state machine must handle every outcome")]
pub enum Renewed {
    /// The hold is there.
    Held {
        /// Its count on the server.
        count: u32,
        /// The lease left when the server answered.
        left: Duration,
    },
    /// The hold is not there, or the key is of another kind.
    Gone,
    /// The server refused this key alone; a later renewal may succeed.
    Refused,
}

/// What the server did with a force release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Forced {
    /// The named hold has ended.
    Ended,
    /// Nobody holds the lock.
    Absent,
    /// Somebody else holds it.
    Other,
    /// The key is of another kind.
    Kind,
}

/// What an inspection found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Inspected {
    /// Nobody holds the lock.
    Free,
    /// Somebody holds it.
    Held {
        /// The field of the hold: `uuid:number`, or a JVM's `uuid:thread`.
        holder: String,
        /// The hold count.
        count: u32,
        /// The lease left; `None` where the key has no time to live.
        left: Option<Duration>,
    },
    /// The key is of another kind.
    Kind(String),
}

/// Asks for the count `count`, which only creates the lock when it is 1.
///
/// `not_after` is server time in milliseconds; `Some(0)` sets no limit and asks for the server's time.
pub fn acquire(lock: &LockName, hold: &Bytes, count: u32, lease: Duration, not_after: Option<u64>) -> Call {
    let limit = not_after.map_or_else(|| Bytes::from_static(b"-1"), decimal);
    let count = if count == 1 { Bytes::from_static(b"1") } else { decimal(count.into()) };
    Call::new(&script::ACQUIRE, vec![lock.key().clone()], vec![hold.clone(), count, millis(lease), limit])
}

/// Decodes the reply to [`acquire`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn acquired(reply: &Reply) -> Result<Acquired, DecodeError> {
    let parts = reply.array()?;
    let [code, second, rest @ ..] = parts else {
        return Err(DecodeError::new("an array of at least two", reply));
    };
    let time = || match rest.first().map(Reply::int).transpose()? {
        Some(time) => Ok(u64::try_from(time).ok().filter(|time| *time > 0)),
        None => Err(DecodeError::new("an array of three", reply)),
    };
    Ok(match code.int()? {
        1..=3 => Acquired::Held { left: left(second)?.unwrap_or_default(), time: time()? },
        0 => Acquired::Busy { left: left(second)?, time: time()? },
        -1 => Acquired::Mismatch,
        -2 => Acquired::Lost,
        -3 => Acquired::TooLate { time: time()? },
        -4 => Acquired::Kind(second.text()?.to_owned()),
        _ => return Err(DecodeError::new("a code of lock/acquire", reply)),
    })
}

/// Asks that `count` remain; 0 ends the hold. `publish` is the command that tells the waiters.
pub fn release(lock: &LockName, hold: &Bytes, count: u32, publish: &Bytes) -> Call {
    let count = if count == 0 { Bytes::from_static(b"0") } else { decimal(count.into()) };
    Call::new(
        &script::RELEASE,
        vec![lock.key().clone(), lock.channel().clone()],
        vec![hold.clone(), count, publish.clone()],
    )
}

/// Decodes the reply to [`release`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn released(reply: &Reply) -> Result<Released, DecodeError> {
    Ok(match reply.int()? {
        1 => Released::Ended,
        2..=4 => Released::Lowered,
        0 | -1 | -4 => Released::Gone,
        _ => return Err(DecodeError::new("a code of lock/release", reply)),
    })
}

/// Renews many holds, each `(key, hold, lease)`. On a cluster all keys must lie in one slot.
pub fn renew<'a>(holds: impl IntoIterator<Item = (&'a Bytes, &'a Bytes, Duration)>) -> Call {
    let mut keys = Vec::new();
    let mut args = Vec::new();
    for (key, hold, lease) in holds {
        keys.push(key.clone());
        args.push(hold.clone());
        args.push(millis(lease));
    }
    Call::new(&script::RENEW, keys, args)
}

/// Decodes the reply to [`renew`] of `locks` locks, in their order.
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn renewed(reply: &Reply, locks: usize) -> Result<Vec<Renewed>, DecodeError> {
    let parts = reply.array()?;
    if parts.len() != 2 * locks {
        return Err(DecodeError::new("two integers for each lock", reply));
    }
    parts
        .chunks_exact(2)
        .map(|pair| {
            Ok(match pair[0].int()? {
                0 | -4 => Renewed::Gone,
                -5 => Renewed::Refused,
                count => Renewed::Held {
                    count: u32::try_from(count).map_err(|_| DecodeError::new("a hold count", &pair[0]))?,
                    left: left(&pair[1])?.unwrap_or_default(),
                },
            })
        })
        .collect()
}

/// Ends the hold of `holder`.
pub fn force_release(lock: &LockName, holder: &str, publish: &Bytes) -> Call {
    Call::new(
        &script::FORCE_RELEASE,
        vec![lock.key().clone(), lock.channel().clone()],
        vec![Bytes::copy_from_slice(holder.as_bytes()), publish.clone()],
    )
}

/// Decodes the reply to [`force_release`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn forced(reply: &Reply) -> Result<Forced, DecodeError> {
    Ok(match reply.int()? {
        1 => Forced::Ended,
        0 => Forced::Absent,
        -1 => Forced::Other,
        -4 => Forced::Kind,
        _ => return Err(DecodeError::new("a code of lock/force_release", reply)),
    })
}

/// Asks who holds the lock.
pub fn inspect(lock: &LockName) -> Call {
    Call::new(&script::INSPECT, vec![lock.key().clone()], Vec::new())
}

/// Decodes the reply to [`inspect`].
///
/// # Errors
///
/// The reply is not what the script promises.
pub fn inspected(reply: &Reply) -> Result<Inspected, DecodeError> {
    match reply.array()? {
        [code] if code.int()? == 0 => Ok(Inspected::Free),
        [code, kind] if code.int()? == -4 => Ok(Inspected::Kind(kind.text()?.to_owned())),
        [code, remaining, holder, count, ..] if code.int()? == 1 => Ok(Inspected::Held {
            holder: holder.text()?.to_owned(),
            count: u32::try_from(count.int()?).map_err(|_| DecodeError::new("a hold count", count))?,
            left: left(remaining)?,
        }),
        _ => Err(DecodeError::new("a reply of lock/inspect", reply)),
    }
}

/// Milliseconds left; `None` where the key has no time to live, or is gone.
fn left(reply: &Reply) -> Result<Option<Duration>, DecodeError> {
    Ok(u64::try_from(reply.int()?).ok().map(Duration::from_millis))
}

fn millis(lease: Duration) -> Bytes {
    decimal(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX))
}

fn decimal(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(parts: &[i64]) -> Reply {
        Reply::Array(parts.iter().copied().map(Reply::Int).collect())
    }

    #[test]
    fn every_code_of_acquire_is_understood() {
        let left = Duration::from_millis(70);
        for code in [1, 2, 3] {
            assert_eq!(acquired(&ints(&[code, 70, 0])), Ok(Acquired::Held { left, time: None }));
        }
        assert_eq!(acquired(&ints(&[0, -1, 9])), Ok(Acquired::Busy { left: None, time: Some(9) }));
        assert_eq!(acquired(&ints(&[-1, 3, 0])), Ok(Acquired::Mismatch));
        assert_eq!(acquired(&ints(&[-2, 0, 0])), Ok(Acquired::Lost));
        assert_eq!(acquired(&ints(&[-3, 0, 5])), Ok(Acquired::TooLate { time: Some(5) }));
        let kind = Reply::Array(vec![Reply::Int(-4), Reply::Bulk("zset".into())]);
        assert_eq!(acquired(&kind), Ok(Acquired::Kind("zset".to_owned())));
    }

    #[test]
    fn what_no_script_answers_is_an_error_and_no_outcome() {
        for reply in [Reply::Nil, Reply::Bulk("PONG".into()), ints(&[]), ints(&[1]), ints(&[9, 0, 0]), ints(&[1, 70])] {
            assert!(acquired(&reply).is_err(), "{reply:?}");
            assert!(renewed(&reply, 3).is_err(), "{reply:?}");
            assert!(inspected(&reply).is_err(), "{reply:?}");
            assert!(released(&reply).is_err(), "{reply:?}");
            assert!(forced(&reply).is_err(), "{reply:?}");
        }
    }

    #[test]
    fn a_renewal_answers_for_each_lock() {
        let held = Renewed::Held { count: 2, left: Duration::from_millis(30) };
        assert_eq!(
            renewed(&ints(&[2, 30, 0, 0, -4, 0, -5, 0]), 4),
            Ok(vec![held, Renewed::Gone, Renewed::Gone, Renewed::Refused])
        );
    }
}
