//! The error of work under a lock.

use crate::error::Error;
use leasehold_core::error::LossReason;
use std::fmt;

/// Why work under [`Lock::with`](crate::Lock::with) or [`Acquire::with`](crate::Acquire::with) has no plain result.
///
/// It converts into [`enum@Error`], so that `?` and one mapping of errors serve both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithError<T> {
    /// The lock was not acquired, and the work did not begin.
    NotAcquired(Error),
    /// The lock was lost. `value` is what the work returned, if it had come to its end; otherwise the work was stopped.
    Lost {
        /// The lock.
        lock: String,
        /// Why.
        reason: LossReason,
        /// The result of the work.
        value: Option<T>,
    },
    /// The work came to its end under the lock, and then the release failed.
    NotReleased {
        /// The reason, in words.
        error: Error,
        /// The result of the work.
        value: T,
    },
}

impl<T> WithError<T> {
    /// The result of work that came to its end, unless the release after it tells otherwise.
    pub(crate) fn unless_released(value: T, release: Result<(), Error>) -> Result<T, Self> {
        match release {
            Ok(()) => Ok(value),
            Err(Error::Lost { lock, reason }) => Err(Self::Lost { lock, reason, value: Some(value) }),
            Err(error) => Err(Self::NotReleased { error, value }),
        }
    }

    /// The error, as every other operation of a lock says it.
    pub fn error(&self) -> Error {
        match self {
            Self::NotAcquired(error) | Self::NotReleased { error, .. } => error.clone(),
            Self::Lost { lock, reason, .. } => Error::Lost { lock: lock.clone(), reason: *reason },
        }
    }

    /// The error, as every other operation of a lock says it; the result of the work is dropped.
    pub fn into_error(self) -> Error {
        match self {
            Self::NotAcquired(error) | Self::NotReleased { error, .. } => error,
            Self::Lost { lock, reason, .. } => Error::Lost { lock, reason },
        }
    }

    /// The result of the work, if it came to its end.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::NotAcquired(_) => None,
            Self::Lost { value, .. } => value,
            Self::NotReleased { value, .. } => Some(value),
        }
    }
}

impl<T> From<WithError<T>> for Error {
    fn from(error: WithError<T>) -> Self {
        error.into_error()
    }
}

impl<T> fmt::Display for WithError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcquired(error) => error.fmt(f),
            Self::Lost { lock, reason, value: None } => {
                write!(f, "the lock {lock:?} was lost and the work was stopped: {reason}")
            }
            Self::Lost { lock, reason, value: Some(_) } => {
                write!(f, "the lock {lock:?} was lost before the work came to its end: {reason}")
            }
            Self::NotReleased { error, .. } => write!(f, "the work came to its end, and then: {error}"),
        }
    }
}

impl<T: fmt::Debug> std::error::Error for WithError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotAcquired(error) => std::error::Error::source(error),
            Self::NotReleased { error, .. } => Some(error),
            Self::Lost { .. } => None,
        }
    }
}
