//! The results of calls, common to all kinds.

use crate::reply::{DecodeError, Reply};
use std::time::Duration;

/// The result of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a state machine must handle every outcome")]
pub enum Acquired {
    /// The hold has the requested count: it was granted now, or by an earlier copy.
    Held {
        /// The remaining lease at the time of the reply.
        left: Duration,
        /// The server's time in milliseconds, if requested.
        time: Option<u64>,
        /// The fencing token of the grant, if the kind has tokens.
        token: Option<u64>,
        /// Number of permits held by all clients, if the kind counts them.
        in_all: Option<u64>,
    },
    /// Another hold has the lock. The server stores nothing about the request.
    Busy {
        /// The holder's remaining lease; `None` if the key has no time to live.
        left: Option<Duration>,
        /// The server's time in milliseconds, if requested.
        time: Option<u64>,
    },
    /// The semaphore is missing: its permits were never set, or a client deleted it. The server stores nothing about
    /// the request.
    Unset {
        /// The server's time in milliseconds, if requested.
        time: Option<u64>,
    },
    /// The lock is busy, and the server stores a queue place or a mark for the hold. A request that gives up must
    /// release the hold as after a grant.
    Placed {
        /// The holder's remaining lease; `None` if the lock is free at this moment.
        left: Option<Duration>,
        /// The server's time in milliseconds, if requested.
        time: Option<u64>,
        /// The hold lost an earlier place and is now at the tail.
        moved: bool,
        /// The hold is the head of the queue.
        head: bool,
        /// JVMs are queued or hold the lock.
        foreign: bool,
    },
    /// The stored count does not fit the requested count: client and server disagree.
    Mismatch,
    /// The hold to be raised is missing.
    Lost,
    /// The first grant arrived after `not_after`.
    TooLate {
        /// The server's time in milliseconds.
        time: Option<u64>,
    },
    /// The hold gave up its place and cannot queue again.
    Withdrawn,
    /// The owner requests the write half of a read-write lock but holds the read half.
    UpgradeNotSupported,
    /// The key holds another kind of object.
    Kind(String),
    /// The request exceeds the capacity.
    ExceedsCapacity {
        /// The capacity.
        capacity: i64,
    },
}

impl Acquired {
    /// The server's time in milliseconds, if the reply contains a time.
    pub const fn time(&self) -> Option<u64> {
        match self {
            Self::Held { time, .. }
            | Self::Busy { time, .. }
            | Self::Unset { time }
            | Self::Placed { time, .. }
            | Self::TooLate { time } => *time,
            Self::Mismatch
            | Self::Lost
            | Self::Withdrawn
            | Self::UpgradeNotSupported
            | Self::Kind(_)
            | Self::ExceedsCapacity { .. } => None,
        }
    }
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a state machine must handle every outcome")]
pub enum Released {
    /// The hold has ended.
    Ended,
    /// The hold has ended. These connections received the notice.
    EndedBefore(Listeners),
    /// The count is as requested, or lower.
    Lowered,
    /// The hold is missing: the lock is free, another holder has it, or the key holds another kind of object.
    Gone,
}

/// The connections that listened when a hold ended, including the client's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a state machine must handle every outcome")]
pub enum Listeners {
    /// No connection.
    None,
    /// One connection.
    One,
    /// Several connections.
    Several,
}

/// The result of a renewal for one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a state machine must handle every outcome")]
pub enum Renewed {
    /// The hold is renewed.
    Held {
        /// The count on the server.
        count: u32,
        /// The remaining lease at the time of the reply.
        left: Duration,
    },
    /// The hold is missing, or the key holds another kind of object.
    Gone,
    /// The server refused this key; a later renewal may succeed.
    Refused,
}

impl Acquired {
    /// Decodes the replies that most kinds share: `{code, left, time}`, `{code, left, time, token}`,
    /// `{4, left, time, moved, head, foreign}` and `{-4, kind}`.
    ///
    /// # Errors
    ///
    /// The reply has another form.
    pub fn decode(reply: &Reply) -> Result<Self, DecodeError> {
        Self::decode_one_of(reply, &[1, 2, 3, 0, 4, -1, -2, -3, -4])
    }

    /// As [`Acquired::decode`], for a kind with these codes.
    pub(super) fn decode_one_of(reply: &Reply, codes: &[i64]) -> Result<Self, DecodeError> {
        let parts = reply.array()?;
        let [code, second, rest @ ..] = parts else {
            return Err(DecodeError::new("an array of at least two", reply));
        };
        let time = || match rest.first().map(Reply::int).transpose()? {
            Some(time) => Ok(u64::try_from(time).ok().filter(|time| *time > 0)),
            None => Err(DecodeError::new("an array of three", reply)),
        };
        Ok(match code.code(codes, "a code of the acquire")? {
            1..=3 => {
                let token = rest.get(1).map(Reply::int).transpose()?.and_then(|token| u64::try_from(token).ok());
                Self::Held { left: second.left()?.unwrap_or_default(), time: time()?, token, in_all: None }
            }
            0 if second.int()? == -2 => Self::Unset { time: time()? },
            0 => Self::Busy { left: second.left()?, time: time()? },
            4 => {
                let [_, moved, head, foreign] = rest else {
                    return Err(DecodeError::new("an array of six", reply));
                };
                Self::Placed {
                    left: second.left()?,
                    time: time()?,
                    moved: moved.int()? != 0,
                    head: head.int()? != 0,
                    foreign: foreign.int()? != 0,
                }
            }
            -1 => Self::Mismatch,
            -2 => Self::Lost,
            -3 => Self::TooLate { time: time()? },
            -4 => Self::Kind(second.text()?.to_owned()),
            -6 => Self::ExceedsCapacity { capacity: second.int()? },
            -7 => Self::Withdrawn,
            -8 => Self::UpgradeNotSupported,
            _ => return Err(DecodeError::new("a code of an acquire", reply)),
        })
    }
}

impl Released {
    /// Decodes the replies that most kinds share: one integer.
    ///
    /// # Errors
    ///
    /// The reply has another form.
    pub fn decode(reply: &Reply) -> Result<Self, DecodeError> {
        Self::decode_one_of(reply, &[1, 2, 3, 4, 0, -1, -4])
    }

    /// As [`Released::decode`], for a kind with these codes.
    pub(super) fn decode_one_of(reply: &Reply, codes: &[i64]) -> Result<Self, DecodeError> {
        Ok(match reply.code(codes, "a code of the release")? {
            1 => Self::Ended,
            2..=4 => Self::Lowered,
            _ => Self::Gone,
        })
    }
}

impl Renewed {
    /// Decodes the reply to a renewal of `holds` holds: two integers for each hold, in order.
    ///
    /// # Errors
    ///
    /// The reply does not match the script's contract.
    pub fn decode(reply: &Reply, holds: usize) -> Result<Vec<Self>, DecodeError> {
        let parts = reply.array()?;
        if parts.len() != 2 * holds {
            return Err(DecodeError::new("two integers for each hold", reply));
        }
        parts
            .chunks_exact(2)
            .map(|pair| {
                Ok(match pair[0].int()? {
                    0 | -4 => Self::Gone,
                    -5 => Self::Refused,
                    count => Self::Held {
                        count: u32::try_from(count).map_err(|_| DecodeError::new("a hold count", &pair[0]))?,
                        left: pair[1].left()?.unwrap_or_default(),
                    },
                })
            })
            .collect()
    }
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
            assert_eq!(
                Acquired::decode(&ints(&[code, 70, 0])),
                Ok(Acquired::Held { left, time: None, token: None, in_all: None })
            );
        }
        let token = Ok(Acquired::Held { left, time: Some(9), token: Some(12), in_all: None });
        assert_eq!(Acquired::decode(&ints(&[1, 70, 9, 12])), token);
        assert_eq!(Acquired::decode(&ints(&[0, -1, 9])), Ok(Acquired::Busy { left: None, time: Some(9) }));
        assert_eq!(Acquired::decode(&ints(&[0, -2, 0])), Ok(Acquired::Unset { time: None }));
        assert_eq!(Acquired::decode(&ints(&[-1, 3, 0])), Ok(Acquired::Mismatch));
        assert_eq!(Acquired::decode(&ints(&[-2, 0, 0])), Ok(Acquired::Lost));
        assert_eq!(Acquired::decode(&ints(&[-3, 0, 5])), Ok(Acquired::TooLate { time: Some(5) }));
        let placed = Acquired::Placed { left: None, time: Some(9), moved: false, head: true, foreign: false };
        assert_eq!(Acquired::decode(&ints(&[4, -1, 9, 0, 1, 0])), Ok(placed));
        let kind = Reply::Array(vec![Reply::Int(-4), Reply::Bulk("zset".into())]);
        assert_eq!(Acquired::decode(&kind), Ok(Acquired::Kind("zset".to_owned())));
    }

    #[test]
    fn what_no_script_answers_is_an_error_and_no_outcome() {
        for reply in [Reply::Nil, Reply::Bulk("PONG".into()), ints(&[]), ints(&[1]), ints(&[9, 0, 0]), ints(&[1, 70])] {
            assert!(Acquired::decode(&reply).is_err(), "{reply:?}");
            assert!(Released::decode(&reply).is_err(), "{reply:?}");
            assert!(Renewed::decode(&reply, 3).is_err(), "{reply:?}");
        }
    }

    #[test]
    fn a_renewal_answers_for_each_hold() {
        let held = Renewed::Held { count: 2, left: Duration::from_millis(30) };
        assert_eq!(
            Renewed::decode(&ints(&[2, 30, 0, 0, -4, 0, -5, 0]), 4),
            Ok(vec![held, Renewed::Gone, Renewed::Gone, Renewed::Refused])
        );
    }
}
