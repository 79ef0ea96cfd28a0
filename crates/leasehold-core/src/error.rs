//! Why something was refused or lost, in terms of the protocol.

use crate::link::ServerError;
use std::fmt;
use thiserror::Error;

/// Why a hold was lost: we held it, and can no longer prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// A lease that is not renewed ran out.
    LeaseExpired,
    /// The lease could not be renewed in time: the server was out of reach, or refused.
    NotRenewed,
    /// The server no longer has the hold: it was force-released, deleted or evicted, or the server lost its data.
    Removed,
    /// The server has another hold count than the one that was set.
    CountMismatch,
    /// It was granted while the server was out of reach, and when that was back, another holder had the lock.
    NotRestored,
    /// The longest time for which the lock was to be held has passed.
    MaxHold,
    /// The client was shut down.
    ShutDown,
}

impl LossReason {
    /// Every reason, for tables and tests.
    pub const ALL: [Self; 7] = [
        Self::LeaseExpired,
        Self::NotRenewed,
        Self::Removed,
        Self::CountMismatch,
        Self::NotRestored,
        Self::MaxHold,
        Self::ShutDown,
    ];

    /// One lower-case word, for metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LeaseExpired => "lease_expired",
            Self::NotRenewed => "not_renewed",
            Self::Removed => "removed",
            Self::CountMismatch => "count_mismatch",
            Self::NotRestored => "not_restored",
            Self::MaxHold => "max_hold",
            Self::ShutDown => "shut_down",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseExpired => "its lease ran out, and it was not to be renewed",
            Self::NotRenewed => "its lease could not be renewed in time",
            Self::Removed => "the server no longer has it: it was force-released, deleted or evicted, or data was lost",
            Self::CountMismatch => "the server has another hold count than the one that was set",
            Self::NotRestored => {
                "it was granted while the server was out of reach, and when that was back, somebody else held the lock"
            }
            Self::MaxHold => "it was held for as long as `max_hold` allows",
            Self::ShutDown => "the client was shut down",
        })
    }
}

/// How a hold ended, as its token tells.
///
/// A [`LossReason`] alone is not enough: the token of a hold is also cancelled by a release and by a detach, and the lock
/// is free only after the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldEnd {
    /// Its last guard was released or dropped.
    Released,
    /// Its last guard was detached: the lease runs out by itself.
    Detached,
    /// It was lost.
    Lost(LossReason),
}

impl fmt::Display for HoldEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lock was released"),
            Self::Detached => f.write_str("the lock was detached, and its lease runs out by itself"),
            Self::Lost(reason) => write!(f, "the lock was lost: {reason}"),
        }
    }
}

/// Why a lock was not acquired. That it is busy is no error, unless a wait ran out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "a user of the session must handle every outcome")]
pub enum AcquireError {
    /// The caller's wait ran out while others held the lock.
    #[error("the lock stayed busy for the whole wait")]
    WaitElapsed,
    /// The owner's earlier hold of this lock was lost, and guards of it still exist.
    #[error("this owner's hold of the lock was lost: {0}")]
    Lost(LossReason),
    /// The name holds something that is no such lock.
    #[error("the name holds a {0}")]
    KeyConflict(String),
    /// The server could not be reached, and certainly nothing was acquired.
    #[error("the server could not be reached: {0}")]
    Unreachable(String),
    /// It is not known whether the lock was acquired; it is being cleaned up.
    #[error("it is not known whether the lock was acquired: {0}")]
    OutcomeUnknown(String),
    /// The server refused.
    #[error("the server refused: {0}")]
    Refused(ServerError),
    /// The owner holds the read half of a read-write lock, and asks for its write half, which it would keep from itself.
    #[error("the owner holds the read half of the lock: release it before the write half is acquired")]
    UpgradeNotSupported,
    /// More was asked for than there is in all.
    #[error("more was asked for than the {capacity} that there are in all")]
    ExceedsCapacity {
        /// How much there is in all.
        capacity: i64,
    },
    /// The server granted the lock, and too few replicas acknowledged that in time. It has been taken back. Or the owner holds the lock
    /// without the server.
    #[error("{acknowledged} replicas acknowledged the lock, and {wanted} were wanted")]
    NotReplicated {
        /// How many acknowledged it.
        acknowledged: u32,
        /// How many were wanted.
        wanted: u32,
    },
    /// The client is shut down.
    #[error("the client is shut down")]
    Closed,
}

/// Why a release did not do what it says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "a user of the session must handle every outcome")]
pub enum ReleaseError {
    /// The hold was lost before it was released.
    #[error("the hold was lost before it was released: {0}")]
    Lost(LossReason),
    /// It is not known whether the hold was still there; the release is repeated in the background.
    #[error("it is not known whether the lock was released: {0}")]
    OutcomeUnknown(String),
    /// The server could not be reached; the release is repeated in the background.
    #[error("the server could not be reached: {0}")]
    Unreachable(String),
    /// The server refused to lower the hold count; the release is repeated in the background.
    #[error("the server refused: {0}")]
    Refused(String),
}
