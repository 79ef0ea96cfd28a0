//! Errors of the protocol: losses and refusals.

use crate::link::ServerError;
use std::fmt;
use thiserror::Error;

/// The reason for the loss of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// A fixed lease expired.
    LeaseExpired,
    /// No renewal succeeded in time: the server was unreachable or refused.
    NotRenewed,
    /// The server no longer has the hold: it was force-released, deleted or evicted, or the server lost its data.
    Removed,
    /// The server has a different hold count.
    CountMismatch,
    /// The hold was granted while the server was unreachable, and afterwards another holder had the lock.
    NotRestored,
    /// `max_hold` has passed.
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

    /// The reason as a lower-case word, for metrics and logs.
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
            Self::LeaseExpired => "its fixed lease expired",
            Self::NotRenewed => "no renewal succeeded in time",
            Self::Removed => {
                "the server no longer has it: it was force-released, deleted or evicted, or the server lost its data"
            }
            Self::CountMismatch => "the server has a different hold count",
            Self::NotRestored => {
                "it was granted while the server was unreachable, and afterwards another holder had the lock"
            }
            Self::MaxHold => "it reached its `max_hold`",
            Self::ShutDown => "the client was shut down",
        })
    }
}

/// The end of a hold, from its token.
///
/// A release and a detach also cancel the token of a hold, and only the release frees the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldEnd {
    /// The last guard was released or dropped.
    Released,
    /// The last guard was detached; the hold ends with its lease.
    Detached,
    /// The hold was lost.
    Lost(LossReason),
}

impl fmt::Display for HoldEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lock was released"),
            Self::Detached => f.write_str("the lock was detached, and ends with its lease"),
            Self::Lost(reason) => write!(f, "the lock was lost: {reason}"),
        }
    }
}

/// The error of a failed acquire. A busy lock is an error only if a wait has expired.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "a user of the session must handle every outcome")]
pub enum AcquireError {
    /// The lock stayed busy for the whole wait.
    #[error("the lock stayed busy for the whole wait")]
    WaitElapsed,
    /// The owner's earlier hold of this lock was lost, and guards of it still exist.
    #[error("this owner's hold of the lock was lost: {0}")]
    Lost(LossReason),
    /// The key holds another kind of object.
    #[error("the name holds a {0}")]
    KeyConflict(String),
    /// The server was unreachable, and nothing was acquired.
    #[error("the server could not be reached: {0}")]
    Unreachable(String),
    /// The outcome is unknown. The client cleans up in the background.
    #[error("the outcome of the acquire is unknown: {0}")]
    OutcomeUnknown(String),
    /// The server refused.
    #[error("the server refused: {0}")]
    Refused(ServerError),
    /// The owner requested the write half of a read-write lock but holds the read half. The request would deadlock.
    #[error("the owner holds the read half of the lock: release it before you acquire the write half")]
    UpgradeNotSupported,
    /// The request exceeds the capacity.
    #[error("the request exceeds the capacity of {capacity}")]
    ExceedsCapacity {
        /// The capacity.
        capacity: i64,
    },
    /// Too few replicas acknowledged the lock in time, and the client rolled it back. Or the client granted the owner's
    /// hold without the server.
    #[error("{acknowledged} replicas acknowledged the lock, but {wanted} are required")]
    NotReplicated {
        /// Number of replicas that acknowledged the lock.
        acknowledged: u32,
        /// Required number of replicas.
        wanted: u32,
    },
    /// The client is shut down.
    #[error("the client is shut down")]
    Closed,
}

/// The error of a hold that could not move to another process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a user of the session must handle every outcome")]
pub enum MoveError {
    /// The hold was lost before the offer.
    Lost(LossReason),
    /// The hold count is not 1, or about to change. The background releases the caller's guard.
    Shared(u32),
    /// The hold has a property that a ticket cannot carry. The background releases the hold.
    Bound(&'static str),
    /// The hold of the ticket was adopted before, or the ticket has expired.
    Spent,
    /// The key holds another kind of object.
    KeyConflict(String),
    /// The server was unreachable. The background releases the hold of an offer; an adoption changed nothing.
    Unreachable(String),
    /// The outcome is unknown. The background releases the hold.
    OutcomeUnknown(String),
    /// The server refused. The background releases the hold.
    Refused(ServerError),
    /// The client is shut down.
    Closed,
}

/// The error of a failed release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a user of the session must handle every outcome")]
pub enum ReleaseError {
    /// The hold was lost before its release.
    Lost(LossReason),
    /// The outcome is unknown. The client repeats the release in the background.
    OutcomeUnknown(String),
    /// The server was unreachable. The client repeats the release in the background.
    Unreachable(String),
    /// The server refused the release. The client repeats it in the background.
    Refused(String),
}
