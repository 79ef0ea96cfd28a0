//! Locks of every kind, for threads.

use super::{Guard, mirrors, park_on};
use crate::error::{Error, WithError};
use crate::inspect::{FairQueue, Holder, ReadWriteHolders};
use crate::kind::{Any, Fair, FencedFair, Inspectable, Leased, LockKind, Owned, Read, Reentrant, Simple, Write};
use std::time::Duration;

/// A [`Lock`](crate::Lock) for threads, of whatever kind.
pub struct Lock<K: LockKind = Reentrant>(crate::Lock<K>);

mirrors!(Lock<K: LockKind> = crate::Lock<K>, ReadWriteLock = crate::ReadWriteLock);

/// An [`AnyLock`](crate::AnyLock) for threads.
pub type AnyLock = Lock<Any>;

impl<K: Owned + Leased> Lock<K> {
    /// The same lock, as one whose kind the program learns at run time. See [`Lock::erase`](crate::Lock::erase).
    #[must_use]
    pub fn erase(&self) -> AnyLock {
        Lock(self.0.erase())
    }
}

impl<K: LockKind> Lock<K> {
    /// The name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Acquires the lock, waiting as long as the client's default wait says.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub fn acquire(&self) -> Result<Guard<K>, Error> {
        self.acquire_with(|acquire| acquire)
    }

    /// Acquires the lock as described, such as `|acquire| acquire.wait(secs(5)).owner(&owner)`.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    #[track_caller]
    pub fn acquire_with(
        &self,
        describe: impl FnOnce(crate::Acquire<K>) -> crate::Acquire<K>,
    ) -> Result<Guard<K>, Error> {
        park_on(describe(self.0.acquire()).into_future()).map(Guard::from)
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire).
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Guard<K>>, Error> {
        Ok(park_on(self.0.try_acquire())?.map(Guard::from))
    }

    /// Acquires, runs `work`, and releases. A thread cannot be stopped: `work` asks [`Guard::is_held`] where it matters.
    ///
    /// # Errors
    ///
    /// As [`Lock::with`](crate::Lock::with).
    pub fn with<T>(&self, work: impl FnOnce(&Guard<K>) -> T) -> Result<T, WithError<T>> {
        self.with_acquire(|acquire| acquire, work)
    }

    /// As [`Lock::with`], with the acquire described, such as `|acquire| acquire.wait(secs(5))`.
    ///
    /// # Errors
    ///
    /// As [`Acquire::with`](crate::Acquire::with).
    pub fn with_acquire<T>(
        &self,
        describe: impl FnOnce(crate::Acquire<K>) -> crate::Acquire<K>,
        work: impl FnOnce(&Guard<K>) -> T,
    ) -> Result<T, WithError<T>> {
        let guard = self.acquire_with(describe).map_err(WithError::NotAcquired)?;
        let value = work(&guard);
        WithError::unless_released(value, guard.release())
    }
}

impl Lock {
    /// Lets the lock linger after its release, for the next acquire of this client. See [`Lock::linger`](crate::Lock::linger).
    #[must_use]
    pub fn linger(&self, longest: Duration) -> Self {
        Self(self.0.linger(longest))
    }
}

impl<K: Owned> Lock<K> {
    /// Ends the hold that is called `id` on the server, also that of another client. See
    /// [`Lock::force_release_holder`](crate::Lock::force_release_holder).
    ///
    /// # Errors
    ///
    /// As [`Lock::force_release_holder`](crate::Lock::force_release_holder).
    #[track_caller]
    pub fn force_release_holder(&self, id: impl AsRef<str>) -> Result<bool, Error> {
        park_on(self.0.force_release_holder(id))
    }
}

impl<K: Inspectable> Lock<K> {
    /// The holder of the lock.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
    #[track_caller]
    pub fn inspect(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.inspect())
    }

    /// Ends whatever hold there is. See [`Lock::force_release`](crate::Lock::force_release).
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
    #[track_caller]
    pub fn force_release(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.force_release())
    }
}

impl Lock<Fair> {
    /// The holder of the lock and its waiters, in order.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn inspect(&self) -> Result<FairQueue, Error> {
        park_on(self.0.inspect())
    }

    /// Ends the present hold without asking its holder. See the asynchronous lock's.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn force_release(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.force_release())
    }
}

impl Lock<FencedFair> {
    /// The holder of the lock and its waiters, in order.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn inspect(&self) -> Result<FairQueue, Error> {
        park_on(self.0.inspect())
    }

    /// Ends the present hold without asking its holder. See the asynchronous lock's.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn force_release(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.force_release())
    }
}

impl Lock<Read> {
    /// The holders of the read half.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn inspect(&self) -> Result<Vec<Holder>, Error> {
        park_on(self.0.inspect())
    }

    /// Ends the present hold without asking its holder. See the asynchronous lock's.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn force_release(&self) -> Result<Vec<Holder>, Error> {
        park_on(self.0.force_release())
    }
}

impl Lock<Write> {
    /// The holder of the write half.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn inspect(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.inspect())
    }

    /// Ends the present hold without asking its holder. See the asynchronous lock's.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn force_release(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.force_release())
    }
}

impl Lock<Simple> {
    /// Under which id the lock is held.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn inspect(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.inspect())
    }

    /// Ends the present hold without asking its holder. See the asynchronous lock's.
    ///
    /// # Errors
    ///
    /// As the asynchronous lock's.
    #[track_caller]
    pub fn force_release(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.force_release())
    }

    /// Ends the hold of this lock's id, also where another process took it. See [`SimpleLock::release`](crate::Lock::release).
    ///
    /// # Errors
    ///
    /// As [`SimpleLock::release`](crate::Lock::release).
    #[track_caller]
    pub fn release(&self) -> Result<bool, Error> {
        park_on(self.0.release())
    }
}

/// A [`ReadWriteLock`](crate::ReadWriteLock) for threads.
#[derive(Clone, Debug)]
pub struct ReadWriteLock(crate::ReadWriteLock);

impl ReadWriteLock {
    /// The name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The half that many may hold.
    pub fn read(&self) -> Lock<Read> {
        self.0.read().into()
    }

    /// The half that one alone may hold.
    pub fn write(&self) -> Lock<Write> {
        self.0.write().into()
    }

    /// The holders of both halves.
    ///
    /// # Errors
    ///
    /// As [`ReadWriteLock::inspect`](crate::ReadWriteLock::inspect).
    #[track_caller]
    pub fn inspect(&self) -> Result<ReadWriteHolders, Error> {
        park_on(self.0.inspect())
    }
}

impl<K: LockKind> Clone for Lock<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: LockKind> std::fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
