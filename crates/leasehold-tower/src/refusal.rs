//! The responses to refused requests.

use http::{HeaderValue, Response, StatusCode, header};
use leasehold::{Error, LossReason};
use std::fmt;

/// The reason why the layer refused a request. [`Http`] and [`Grpc`] insert it into the extensions of the response, for
/// logs and outer layers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The request has no key, and [`LockLayer::require_key`](crate::LockLayer::require_key) is set.
    NoKey,
    /// The key is not a valid lock name.
    InvalidKey(Error),
    /// Other holders held the lock for the whole wait.
    Busy {
        /// The name of the lock.
        lock: String,
    },
    /// The lock was lost while the handler ran. The handler may have completed some work.
    Lost {
        /// The name of the lock.
        lock: String,
        /// The reason of the loss.
        reason: LossReason,
    },
    /// The acquire failed, and a retry may succeed: the server is unreachable, for example.
    Unavailable(Error),
    /// The acquire failed, and a retry fails until an operator or a developer intervenes.
    Failed(Error),
}

impl Refusal {
    /// Converts the error of an acquire.
    pub(crate) fn of(error: Error) -> Self {
        match (error.http_status(), error) {
            (_, Error::WaitElapsed { lock, .. }) => Self::Busy { lock },
            (400, error) => Self::InvalidKey(error),
            // The background rolls back the acquire.
            (503, error) => Self::Unavailable(error),
            (_, error) => Self::Failed(error),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("the request has no key for its lock"),
            Self::Busy { lock } => write!(f, "another request has the lock {lock:?}"),
            Self::Lost { lock, reason } => {
                write!(f, "the lock {lock:?} was lost while the request was served: {reason}")
            }
            Self::InvalidKey(error) | Self::Unavailable(error) | Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InvalidKey(error) | Self::Unavailable(error) | Self::Failed(error) => error.source(),
            _ => None,
        }
    }
}

/// Builds the response to a refused request. Implemented by [`Http`], [`Grpc`], and functions from a [`Refusal`] to a
/// response.
pub trait Refuse<B> {
    /// Builds the response.
    fn refuse(&self, refusal: Refusal) -> Response<B>;
}

impl<B, F: Fn(Refusal) -> Response<B>> Refuse<B> for F {
    fn refuse(&self, refusal: Refusal) -> Response<B> {
        self(refusal)
    }
}

/// Responds with a status and an empty body, like [`Error::http_status`]: 400 for a missing or invalid key, 423 for a busy lock, 503 if a retry may
/// succeed, otherwise 500. The response contains no lock name and no error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http {
    busy: StatusCode,
}

impl Http {
    /// Creates the responses with 423 (Locked) for a busy lock.
    pub const fn new() -> Self {
        Self { busy: StatusCode::LOCKED }
    }

    /// Sets the status for a busy lock, such as 409 (Conflict) or 429 (Too Many Requests). Default: 423.
    ///
    /// ```
    /// use http::StatusCode;
    /// use leasehold_tower::{Http, LockLayer, header};
    ///
    /// # let client = leasehold::Client::embedded();
    /// let layer = LockLayer::new(header(&client, "idempotency-key", "orders:")).refuse_with(Http::new().busy(StatusCode::CONFLICT));
    /// ```
    #[must_use]
    pub const fn busy(mut self, status: StatusCode) -> Self {
        self.busy = status;
        self
    }

    /// Returns the status of the response.
    pub const fn status(&self, refusal: &Refusal) -> StatusCode {
        match refusal {
            Refusal::NoKey | Refusal::InvalidKey(_) => StatusCode::BAD_REQUEST,
            Refusal::Busy { .. } => self.busy,
            Refusal::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Lost { .. } | Refusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Default> Refuse<B> for Http {
    fn refuse(&self, refusal: Refusal) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = self.status(&refusal);
        response.extensions_mut().insert(refusal);
        response
    }
}

/// Responds as gRPC does, for services of tonic: with the HTTP status 200 and a code in the header `grpc-status`. The code is `ABORTED` (10) for a
/// busy lock, `INVALID_ARGUMENT` (3) for a missing or invalid key, `UNAVAILABLE` (14) if a retry may succeed, otherwise `INTERNAL` (13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grpc;

impl Grpc {
    /// Creates the responses with these codes.
    pub const fn new() -> Self {
        Self
    }

    /// Returns the code of the response.
    pub const fn code(&self, refusal: &Refusal) -> u8 {
        match refusal {
            Refusal::NoKey | Refusal::InvalidKey(_) => 3,
            Refusal::Busy { .. } => 10,
            Refusal::Unavailable(_) => 14,
            Refusal::Lost { .. } | Refusal::Failed(_) => 13,
        }
    }
}

impl<B: Default> Refuse<B> for Grpc {
    fn refuse(&self, refusal: Refusal) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from(u16::from(self.code(&refusal))));
        response.extensions_mut().insert(refusal);
        response
    }
}
