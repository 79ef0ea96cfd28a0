//! A term: the time in which a candidate leads.

use super::handle::Shared;
use crate::error::Error;
use crate::fence::FencingToken;
use crate::guard::Guard;
use crate::kind::Fenced;
use crate::loss::HoldToken;
use std::sync::Arc;
use std::time::Duration;

/// The time in which one candidate leads, from the grant of the lock to its loss or release. [`Leader::run`](crate::leader::Leader::run) gives it to the work.
#[derive(Debug)]
pub struct Term {
    guard: Guard<Fenced>,
    shared: Arc<Shared>,
}

impl Term {
    pub(super) const fn new(guard: Guard<Fenced>, shared: Arc<Shared>) -> Self {
        Self { guard, shared }
    }

    /// The number of the term, which is greater than that of every term before. A store that checks it refuses what an earlier leader
    /// writes too late: see [`fence`](crate::fence).
    pub fn fencing_token(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// Whether this candidate still leads, by its own clock. Ask this before what cannot be undone.
    pub fn is_leading(&self) -> bool {
        self.guard.is_held()
    }

    /// For how long this candidate leads for certain without another renewal; zero once the leadership is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Whether the candidate is to resign: the work has the time of the [`grace`](crate::leader::Leader::grace) from then on to come to an end.
    pub fn is_resigned(&self) -> bool {
        self.shared.is_resigned()
    }

    /// Completes when [`LeaderHandle::resign`](crate::leader::LeaderHandle::resign) or
    /// [`Client::shutdown`](crate::Client::shutdown) asks the candidate to resign. From then on the work has its
    /// [`grace`](crate::leader::Leader::grace) to finish.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn resigned(&self) {
        self.shared.resigned().await;
    }

    /// A token for work that runs elsewhere: it is cancelled when the term is over. See [`Guard::cancellation_token`](crate::Guard::cancellation_token).
    pub fn cancellation_token(&self) -> HoldToken {
        self.guard.cancellation_token()
    }

    /// The guard of the leader's lock, such as for a [`FencedValue`](crate::fence::FencedValue).
    pub const fn guard(&self) -> &Guard<Fenced> {
        &self.guard
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        self.guard.release().await
    }
}
