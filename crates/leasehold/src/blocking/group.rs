//! Locks over many, for threads.

use super::{mirrors, park_on};
use crate::Client;
use crate::error::Error;
use crate::group::{MultiAcquire, QuorumAcquire};
use crate::kind::{AllMembers, GroupRule, Majority};
use crate::loss::{HoldToken, Lost};
use std::time::Duration;

/// A [`MultiLock`](crate::MultiLock) for threads.
#[derive(Clone, Debug)]
pub struct MultiLock(crate::MultiLock);

/// A [`GroupGuard`](crate::group::GroupGuard) for threads. Dropping it waits for each release, as for a
/// [`Guard`](super::Guard).
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its locks at once"]
pub struct GroupGuard<R: GroupRule>(crate::group::GroupGuard<R>);

/// A [`MultiGuard`](crate::group::MultiGuard) for threads.
pub type MultiGuard = GroupGuard<AllMembers>;

/// A [`QuorumGuard`](crate::group::QuorumGuard) for threads.
pub type QuorumGuard = GroupGuard<Majority>;

/// A [`QuorumLock`](crate::QuorumLock) for threads.
#[derive(Clone, Debug)]
pub struct QuorumLock(crate::QuorumLock);

mirrors!(MultiLock = crate::MultiLock, QuorumLock = crate::QuorumLock);

impl<R: GroupRule> From<crate::group::GroupGuard<R>> for GroupGuard<R> {
    fn from(mut inner: crate::group::GroupGuard<R>) -> Self {
        inner.set_waits(true);
        Self(inner)
    }
}

impl MultiLock {
    /// The name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Acquires, waiting as long as the default wait says.
    ///
    /// # Errors
    ///
    /// As [`MultiLock::acquire`](crate::MultiLock::acquire).
    pub fn acquire(&self) -> Result<MultiGuard, Error> {
        self.acquire_with(|acquire| acquire)
    }

    /// Acquires as described.
    ///
    /// # Errors
    ///
    /// As [`MultiLock::acquire`](crate::MultiLock::acquire).
    #[track_caller]
    pub fn acquire_with(&self, describe: impl FnOnce(MultiAcquire) -> MultiAcquire) -> Result<MultiGuard, Error> {
        park_on(describe(self.0.acquire()).into_future()).map(GroupGuard::from)
    }

    /// Acquires if no other holder is in the way.
    ///
    /// # Errors
    ///
    /// As [`MultiLock::try_acquire`](crate::MultiLock::try_acquire).
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<MultiGuard>, Error> {
        Ok(park_on(self.0.try_acquire())?.map(GroupGuard::from))
    }
}

impl<R: GroupRule> GroupGuard<R> {
    /// The asynchronous guard, for its further methods.
    pub const fn as_async(&self) -> &crate::group::GroupGuard<R> {
        &self.0
    }

    /// Whether enough is certainly still held.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// How long enough is certainly held even if nothing renews it.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
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

    /// Releases everything, and says whether it was held up to that moment.
    ///
    /// # Errors
    ///
    /// As [`GroupGuard::release`](crate::group::GroupGuard::release).
    #[track_caller]
    pub fn release(self) -> Result<(), Error> {
        park_on(self.0.release())
    }
}

impl GroupGuard<Majority> {
    /// On how many servers the lock is held at this moment.
    pub fn servers(&self) -> usize {
        self.0.servers()
    }
}

impl QuorumLock {
    /// The lock of that name on these servers.
    pub fn new(clients: impl IntoIterator<Item = Client>, name: impl AsRef<str>) -> Self {
        crate::QuorumLock::new(clients, name).into()
    }

    /// The lock of that name over so many servers, of which `clients` are some or all.
    pub fn of(servers: usize, clients: impl IntoIterator<Item = Client>, name: impl AsRef<str>) -> Self {
        crate::QuorumLock::of(servers, clients, name).into()
    }

    /// How many servers must grant the lock.
    pub fn quorum(&self) -> usize {
        self.0.quorum()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Acquires, waiting as long as the default wait says.
    ///
    /// # Errors
    ///
    /// As [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    pub fn acquire(&self) -> Result<QuorumGuard, Error> {
        self.acquire_with(|acquire| acquire)
    }

    /// Acquires as described.
    ///
    /// # Errors
    ///
    /// As [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    #[track_caller]
    pub fn acquire_with(&self, describe: impl FnOnce(QuorumAcquire) -> QuorumAcquire) -> Result<QuorumGuard, Error> {
        park_on(describe(self.0.acquire()).into_future()).map(GroupGuard::from)
    }

    /// Acquires if no other holder is in the way.
    ///
    /// # Errors
    ///
    /// As [`QuorumLock::try_acquire`](crate::QuorumLock::try_acquire).
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<QuorumGuard>, Error> {
        Ok(park_on(self.0.try_acquire())?.map(GroupGuard::from))
    }
}
