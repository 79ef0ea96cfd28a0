//! The common part of both sorts of semaphores.

use crate::error::{Error, InvalidInput};
use crate::guard::Guard;
use crate::kind::Counted;
use crate::lock::Lock;
use crate::lock_spec::Outcome;
use leasehold_core::command::semaphore as command;
use leasehold_core::session::Patience;

impl<K: Counted> Lock<K> {
    /// Takes so many permits if they are there, all of them or none. See [`Acquire::permits`](crate::Acquire::permits) for a wait.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`]; [`Error::ExceedsCapacity`] from a [`Semaphore`](crate::Semaphore) that has not so many in all, and
    /// [`Error::Invalid`] where the number cannot be used.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`](crate::Acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard<K>>, Error> {
        self.acquire().permits(permits).run(Some(Patience::Try)).await
    }

    /// Adds permits that belong to no hold, or takes some away for good, also more than are available; returns how many are available
    /// then, which may be negative.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] where the name holds something else; [`Error::Invalid`] for 0, and where the sum would leave the range of
    /// 32 bits; and [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] where the server gave no answer within
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after), for which the command is repeated. It is applied once, however
    /// often it is sent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits were added.
    pub async fn add_permits(&self, permits: i32) -> Result<i64, Error> {
        if permits == 0 {
            return Err(InvalidInput::NoPermits.into());
        }
        let add = |name: &_, operation: &[u8], publish: &_| command::add(name, permits, operation, publish);
        match self.spec().call_idempotent(add, command::added).await? {
            Outcome::Done(available) | Outcome::Refused(available) => Ok(available),
            Outcome::Overflow(available) => Err(Error::Invalid(InvalidInput::Number {
                what: "number of permits after the change",
                given: available.saturating_add(permits.into()),
                least: i32::MIN.into(),
                most: i32::MAX.into(),
            })),
        }
    }
}
