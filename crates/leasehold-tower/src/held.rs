//! The lock of a request, for its handler and its response.

use leasehold::fence::FencingToken;
use leasehold::kind::Any;
use leasehold::{Guard, HoldToken, HolderId, LossReason};

/// The lock of a request, in the extensions of the request. An axum handler extracts it with `Extension<HeldLock>`.
///
/// This is not a guard: the layer releases the lock, and a clone does not extend the hold.
#[derive(Clone, Debug)]
pub struct HeldLock {
    name: String,
    holder_id: HolderId,
    fencing_token: Option<FencingToken>,
    end: HoldToken,
}

impl HeldLock {
    pub(crate) fn of(guard: &Guard<Any>) -> Self {
        Self {
            name: guard.lock().name().to_owned(),
            holder_id: guard.holder_id(),
            fencing_token: guard.fencing_token(),
            end: guard.cancellation_token(),
        }
    }

    /// Returns the name of the lock, without the prefix of the client.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the holder's id on the server. A store that checks fencing tokens registers the id beside the token.
    pub const fn holder_id(&self) -> &HolderId {
        &self.holder_id
    }

    /// Returns the fencing token, if the kind of the lock has tokens.
    pub const fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
    }

    /// Returns `true` if the lock is certainly held, by the local clock.
    pub fn is_held(&self) -> bool {
        !self.end.is_cancelled()
    }

    /// Returns `true` if a [fallback](leasehold::Lock::fallback) granted the lock without the server. Such a lock does not exclude requests in other
    /// processes. A handler that needs exclusion returns 503.
    pub fn is_degraded(&self) -> bool {
        self.end.is_degraded()
    }

    /// Returns a token that is cancelled when the lock is lost or released, for work in other tasks.
    pub const fn cancellation_token(&self) -> &HoldToken {
        &self.end
    }
}

/// Marks a response whose request lost its lock, with [`OnLoss::Mark`]. The layer inserts it into the extensions of the
/// response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostLock {
    name: String,
    reason: LossReason,
}

impl LostLock {
    pub(crate) const fn new(name: String, reason: LossReason) -> Self {
        Self { name, reason }
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the reason of the loss.
    pub const fn reason(&self) -> LossReason {
        self.reason
    }
}

/// The behaviour of a request that loses its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLoss {
    /// The layer drops the inner future and responds with [`Refusal::Lost`](crate::Refusal::Lost). It also responds so
    /// if the release detects the loss after the handler returns, because another holder may have worked at the same
    /// time.
    #[default]
    Stop,
    /// The inner future runs to completion, and its response contains a [`LostLock`]. The handler detects the loss with
    /// its [`HeldLock`].
    ///
    /// Use it for work that must not stop halfway and whose store rejects stale fencing tokens.
    Mark,
}
