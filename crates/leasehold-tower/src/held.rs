//! The lock of a request, as its handler and its answer show it.

use leasehold::fence::FencingToken;
use leasehold::kind::Any;
use leasehold::{Guard, HoldToken, HolderId, LossReason};

/// The lock under which a request is served. It is an extension of the request: with axum, a handler takes `Extension<HeldLock>`.
///
/// It is a view and not a guard: the layer releases the lock, and no copy of this keeps it.
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

    /// The name of the lock, as the program gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The holder's name on the server. A store that checks fencing tokens registers it beside the token.
    pub const fn holder_id(&self) -> &HolderId {
        &self.holder_id
    }

    /// The fencing token, where the lock is of a kind that gives one.
    pub const fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
    }

    /// Whether the lock is certainly still held. This reads the clock.
    pub fn is_held(&self) -> bool {
        !self.end.is_cancelled()
    }

    /// Whether a [fallback](leasehold::Lock::fallback) granted the lock without the server: it does not exclude
    /// requests in other processes. A handler that needs exclusion returns 503.
    pub fn is_degraded(&self) -> bool {
        self.end.is_degraded()
    }

    /// A token that is cancelled when the lock is lost or released, for work that the handler has given to other tasks.
    pub const fn cancellation_token(&self) -> &HoldToken {
        &self.end
    }
}

/// The mark of an answer whose request lost its lock, with [`OnLoss::Mark`]. It is an extension of the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostLock {
    name: String,
    reason: LossReason,
}

impl LostLock {
    pub(crate) const fn new(name: String, reason: LossReason) -> Self {
        Self { name, reason }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why it was lost.
    pub const fn reason(&self) -> LossReason {
        self.reason
    }
}

/// The fate of a request that loses its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLoss {
    /// The inner service is dropped and polled no more, and the answer is a [`Refusal::Lost`](crate::Refusal::Lost). It has this answer too if
    /// the loss shows only at the release, after the work has ended: others may have worked at the same time.
    #[default]
    Stop,
    /// The inner service runs to its end, and its response has a [`LostLock`]. The handler sees the loss by [`HeldLock`].
    ///
    /// It is for work that must not be cut off in its middle, and whose store refuses a stale write by its fencing token.
    Mark,
}
