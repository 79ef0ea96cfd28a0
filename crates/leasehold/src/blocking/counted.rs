//! Semaphores and the count-down latch, for threads.

use super::{Guard, Lock, mirrors, park_on};
use crate::error::Error;
use crate::kind::{Counted, Counter, Permit};
use crate::kinds::{HeldPermit, PermitCounts};
use crate::{LatchWait, PermitId};

/// A [`BareSemaphore`](crate::BareSemaphore) for threads.
pub type BareSemaphore = Lock<Counter>;

/// A [`Semaphore`](crate::Semaphore) for threads.
pub type Semaphore = Lock<Permit>;

/// A [`CountDownLatch`](crate::CountDownLatch) for threads.
#[derive(Clone, Debug)]
pub struct CountDownLatch(crate::CountDownLatch);

mirrors!(CountDownLatch = crate::CountDownLatch);

impl<K: Counted> Lock<K> {
    /// Takes so many permits if they are there.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire_many`](crate::Lock::try_acquire_many).
    #[track_caller]
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard<K>>, Error> {
        Ok(park_on(self.as_async().try_acquire_many(permits))?.map(Guard::from))
    }

    /// Adds permits, or takes some away for good; returns how many are available then.
    ///
    /// # Errors
    ///
    /// As [`Lock::add_permits`](crate::Lock::add_permits).
    #[track_caller]
    pub fn add_permits(&self, permits: i32) -> Result<i64, Error> {
        park_on(self.as_async().add_permits(permits))
    }
}

impl Lock<Counter> {
    /// Sets the number of permits where none was ever set, and says whether it did.
    ///
    /// # Errors
    ///
    /// As [`BareSemaphore::try_set_permits`](crate::BareSemaphore::try_set_permits).
    #[track_caller]
    pub fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        park_on(self.as_async().try_set_permits(permits))
    }

    /// How many permits are available.
    ///
    /// # Errors
    ///
    /// As [`BareSemaphore::available_permits`](crate::BareSemaphore::available_permits).
    #[track_caller]
    pub fn available_permits(&self) -> Result<i64, Error> {
        park_on(self.as_async().available_permits())
    }

    /// Gives permits back that no guard of this client has.
    ///
    /// # Errors
    ///
    /// As [`BareSemaphore::release_permits`](crate::BareSemaphore::release_permits).
    #[track_caller]
    pub fn release_permits(&self, permits: u32) -> Result<i64, Error> {
        park_on(self.as_async().release_permits(permits))
    }

    /// Takes all permits that are available, and says how many these were.
    ///
    /// # Errors
    ///
    /// As [`BareSemaphore::drain_permits`](crate::BareSemaphore::drain_permits).
    #[track_caller]
    pub fn drain_permits(&self) -> Result<u32, Error> {
        park_on(self.as_async().drain_permits())
    }
}

impl Lock<Permit> {
    /// Sets the number of permits where none was ever set, and says whether it did.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::try_set_permits`](crate::Semaphore::try_set_permits).
    #[track_caller]
    pub fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        park_on(self.as_async().try_set_permits(permits))
    }

    /// How many permits are available.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::available_permits`](crate::Semaphore::available_permits).
    #[track_caller]
    pub fn available_permits(&self) -> Result<i64, Error> {
        park_on(self.as_async().available_permits())
    }

    /// Sets the capacity, and returns how many permits are available then.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::resize`](crate::Semaphore::resize).
    #[track_caller]
    pub fn resize(&self, permits: u32) -> Result<i64, Error> {
        park_on(self.as_async().resize(permits))
    }

    /// How many permits are held.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::held_permits`](crate::Semaphore::held_permits).
    #[track_caller]
    pub fn held_permits(&self) -> Result<u64, Error> {
        park_on(self.as_async().held_permits())
    }

    /// The permits of the semaphore, each held one with its lease.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::inspect`](crate::Semaphore::inspect).
    #[track_caller]
    pub fn inspect(&self) -> Result<Option<PermitCounts>, Error> {
        park_on(self.as_async().inspect())
    }

    /// The lease of one permit.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::lease_of`](crate::Semaphore::lease_of).
    #[track_caller]
    pub fn lease_of(&self, id: PermitId) -> Result<Option<HeldPermit>, Error> {
        park_on(self.as_async().lease_of(id))
    }

    /// Gives permits back by their ids, also those of other holders.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::release_ids`](crate::Semaphore::release_ids).
    #[track_caller]
    pub fn release_ids(&self, ids: &[PermitId]) -> Result<Vec<bool>, Error> {
        park_on(self.as_async().release_ids(ids))
    }
}

impl CountDownLatch {
    /// The name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Sets the count of a latch that is open, and says whether it did.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::try_set_count`](crate::CountDownLatch::try_set_count).
    #[track_caller]
    pub fn try_set_count(&self, count: u32) -> Result<bool, Error> {
        park_on(self.0.try_set_count(count))
    }

    /// Counts down by one, and returns the count that is left.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::count_down`](crate::CountDownLatch::count_down).
    #[track_caller]
    pub fn count_down(&self) -> Result<u32, Error> {
        park_on(self.0.count_down())
    }

    /// Counts down by so many at once, and returns the count that is left.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::count_down_by`](crate::CountDownLatch::count_down_by).
    #[track_caller]
    pub fn count_down_by(&self, count: u32) -> Result<u32, Error> {
        park_on(self.0.count_down_by(count))
    }

    /// The count that is left.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::count`](crate::CountDownLatch::count).
    #[track_caller]
    pub fn count(&self) -> Result<u32, Error> {
        park_on(self.0.count())
    }

    /// Removes the latch, which opens it, and says whether there was one.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::delete`](crate::CountDownLatch::delete).
    #[track_caller]
    pub fn delete(&self) -> Result<bool, Error> {
        park_on(self.0.delete())
    }

    /// Sleeps until the latch is open, as long as the client's default wait says.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::wait`](crate::CountDownLatch::wait).
    pub fn wait(&self) -> Result<(), Error> {
        self.wait_with(|wait| wait)
    }

    /// Sleeps until the latch is open, as described, such as `|wait| wait.wait(secs(5))`.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::wait`](crate::CountDownLatch::wait).
    #[track_caller]
    pub fn wait_with(&self, describe: impl FnOnce(LatchWait) -> LatchWait) -> Result<(), Error> {
        park_on(describe(self.0.wait()).into_future())
    }
}
