//! The error of work under a lock.

use crate::error::Error;
use leasehold_core::error::LossReason;
use std::fmt;

/// The error of work under [`Lock::with`](crate::Lock::with) or [`Acquire::with`](crate::Acquire::with).
///
/// `?` converts it into [`enum@Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithError<T> {
    /// The lock was not acquired, and the work did not start.
    NotAcquired(Error),
    /// The lock was lost. `value` is the result of the work if it had finished; otherwise the work was stopped.
    Lost {
        /// The lock.
        lock: String,
        /// The reason of the loss.
        reason: LossReason,
        /// The result of the work.
        value: Option<T>,
    },
    /// The work finished under the lock, but the release failed.
    NotReleased {
        /// The error of the release.
        error: Error,
        /// The result of the work.
        value: T,
    },
}

impl<T> WithError<T> {
    /// Returns the result of finished work, or the error of the release after it.
    pub(crate) fn unless_released(value: T, release: Result<(), Error>) -> Result<T, Self> {
        match release {
            Ok(()) => Ok(value),
            Err(Error::Lost { lock, reason }) => Err(Self::Lost { lock, reason, value: Some(value) }),
            Err(error) => Err(Self::NotReleased { error, value }),
        }
    }

    /// Returns the error without the result of the work.
    pub fn error(&self) -> Error {
        match self {
            Self::NotAcquired(error) | Self::NotReleased { error, .. } => error.clone(),
            Self::Lost { lock, reason, .. } => Error::Lost { lock: lock.clone(), reason: *reason },
        }
    }

    /// Converts into the result of finished work.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::NotAcquired(_) => None,
            Self::Lost { value, .. } => value,
            Self::NotReleased { value, .. } => Some(value),
        }
    }
}

impl<T> From<WithError<T>> for Error {
    /// Drops the result of the work.
    fn from(error: WithError<T>) -> Self {
        match error {
            WithError::NotAcquired(error) | WithError::NotReleased { error, .. } => error,
            WithError::Lost { lock, reason, .. } => Self::Lost { lock, reason },
        }
    }
}

impl<T> fmt::Display for WithError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcquired(error) => error.fmt(f),
            Self::Lost { lock, reason, value: None } => {
                write!(f, "the lock {lock:?} was lost, and the work was stopped: {reason}")
            }
            Self::Lost { lock, reason, value: Some(_) } => {
                write!(f, "the lock {lock:?} was lost before the work finished: {reason}")
            }
            Self::NotReleased { error, .. } => write!(f, "the work finished, but the release failed: {error}"),
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
