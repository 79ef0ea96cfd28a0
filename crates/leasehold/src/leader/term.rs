//! A term: the period in which a candidate leads.

use super::handle::Shared;
use crate::fence::FencingToken;
use crate::kind::Fenced;
use crate::lock::guard::Guard;
use crate::lock::loss::HoldToken;
use std::sync::Arc;
use std::time::Duration;

/// The period in which one candidate leads, from the grant of the lock to its loss or release. [`Leader::run`](crate::leader::Leader::run) passes
/// it to the work.
#[derive(Debug)]
pub struct Term {
    pub(super) guard: Guard<Fenced>,
    pub(super) shared: Arc<Shared>,
}

impl Term {
    /// Returns the fencing token of the term, which is greater than the tokens of all earlier terms. A store that checks it refuses late writes of
    /// an earlier leader: see [`fence`](crate::fence).
    pub fn fencing_token(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// Returns `true` if this candidate still leads, by its local clock. Check this before an action that cannot be undone.
    pub fn is_leading(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the time for which this candidate certainly leads without another renewal, or zero once the leadership is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Returns `true` once a resignation was requested. From then on the work has its [`grace`](crate::leader::Leader::grace) to finish.
    pub fn is_resigned(&self) -> bool {
        self.shared.resign.is_cancelled()
    }

    /// Completes when [`LeaderHandle::resign`](crate::leader::LeaderHandle::resign) or [`Client::shutdown`](crate::Client::shutdown) asks the
    /// candidate to resign. From then on the work has its [`grace`](crate::leader::Leader::grace) to finish.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn resigned(&self) {
        self.shared.resign.cancelled().await;
    }

    /// Returns a token for work that runs elsewhere, which is cancelled at the end of the term. See
    /// [`Guard::cancellation_token`](crate::Guard::cancellation_token).
    pub fn cancellation_token(&self) -> HoldToken {
        self.guard.cancellation_token()
    }

    /// Returns the guard of the leader's lock, for example for a [`FencedValue`](crate::fence::FencedValue).
    pub const fn guard(&self) -> &Guard<Fenced> {
        &self.guard
    }
}
