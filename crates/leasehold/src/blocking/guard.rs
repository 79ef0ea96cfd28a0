//! Guards, for threads.

use super::park_on;
use crate::HolderId;
use crate::PermitId;
use crate::error::Error;
use crate::fence::FencingToken;
use crate::kind::{Any, Counted, Fencing, LockKind, Owned, Permit, Read, Reentrant, Write};
use crate::loss::{HoldToken, Lost};
use std::fmt;
use std::time::Duration;

/// A [`Guard`](crate::Guard) for threads. Dropping it waits up to 250 ms for the release, because the process may end
/// with this thread. In the context of a runtime, or during an outage, the background releases the lock and the drop
/// does not wait.
#[must_use = "a guard that is dropped releases its lock at once"]
#[clippy::has_significant_drop]
pub struct Guard<K: LockKind = Reentrant>(crate::Guard<K>);

impl<K: LockKind> From<crate::Guard<K>> for Guard<K> {
    fn from(mut inner: crate::Guard<K>) -> Self {
        inner.set_waits(true);
        Self(inner)
    }
}

impl<K: LockKind> Guard<K> {
    /// The asynchronous guard, for its further methods.
    pub const fn as_async(&self) -> &crate::Guard<K> {
        &self.0
    }

    /// Whether the lock is certainly still held.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// How long the lock is certainly held even if nothing renews it.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// How often the lock is held by this guard's owner.
    pub fn hold_count(&self) -> u32 {
        self.0.hold_count()
    }

    /// How long the lock has been held, from its first grant.
    pub fn held_for(&self) -> Duration {
        self.0.held_for()
    }

    /// The holder's name on the server. See [`Guard::holder_id`](crate::Guard::holder_id).
    pub fn holder_id(&self) -> HolderId {
        self.0.holder_id()
    }

    /// Sleeps until the lock is lost, and returns the reason.
    #[track_caller]
    pub fn lost(&self) -> Lost {
        park_on(self.0.lost())
    }

    /// A token that is cancelled when the lock ends.
    pub fn cancellation_token(&self) -> HoldToken {
        self.0.cancellation_token()
    }

    /// Releases the lock, and says whether it was held up to that moment.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`](crate::Guard::release).
    #[track_caller]
    pub fn release(self) -> Result<(), Error> {
        park_on(self.0.release())
    }

    /// Gives the guard up without a release.
    pub fn detach(self) {
        self.0.detach();
    }

    /// The asynchronous guard of the same hold.
    pub fn into_async(mut self) -> crate::Guard<K> {
        self.0.set_waits(false);
        self.0
    }
}

impl<K: Owned> Guard<K> {
    /// Whether the lock was granted without the server and does not exclude other processes. See
    /// [`Guard::is_degraded`](crate::Guard::is_degraded).
    pub fn is_degraded(&self) -> bool {
        self.0.is_degraded()
    }

    /// Takes the lock once more, as the same owner.
    ///
    /// # Errors
    ///
    /// As [`Guard::reenter`](crate::Guard::reenter).
    #[track_caller]
    pub fn reenter(&self) -> Result<Self, Error> {
        park_on(self.0.reenter()).map(Self::from)
    }
}

impl<K: Fencing> Guard<K> {
    /// The fencing token of this hold. See [`Guard::fencing_token`](crate::Guard::fencing_token).
    pub fn fencing_token(&self) -> FencingToken {
        self.0.fencing_token()
    }
}

impl Guard<Any> {
    /// The fencing token of this hold, where its kind gives one.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.0.fencing_token()
    }
}

impl<K: Counted> Guard<K> {
    /// How many permits are held.
    pub fn permits(&self) -> u32 {
        self.0.permits()
    }
}

impl Guard<Permit> {
    /// The ids of the permits.
    pub fn ids(&self) -> Vec<PermitId> {
        self.0.ids()
    }
}

impl Guard<Write> {
    /// Takes the read half too. See [`Guard::read`](crate::Guard::read).
    ///
    /// # Errors
    ///
    /// As [`Guard::read`](crate::Guard::read).
    #[track_caller]
    pub fn read(&self) -> Result<Guard<Read>, Error> {
        park_on(self.0.read()).map(Guard::from)
    }

    /// Becomes a reader without letting another writer in between. See [`Guard::downgrade`](crate::Guard::downgrade).
    ///
    /// # Errors
    ///
    /// As [`Guard::downgrade`](crate::Guard::downgrade).
    #[track_caller]
    pub fn downgrade(self) -> Result<Guard<Read>, Error> {
        park_on(self.0.downgrade()).map(Guard::from)
    }
}

impl<K: LockKind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
