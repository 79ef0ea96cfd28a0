//! The common part of both kinds of semaphores.

use crate::error::{Error, InvalidInput};
use crate::kind::Counted;
use crate::lock::Lock;
use crate::lock::guard::Guard;
use crate::lock::spec::Outcome;
use leasehold_core::command::semaphore as command;
use leasehold_core::session::Patience;

impl<K: Counted> Lock<K> {
    /// Acquires this many permits if they are available: all of them, or none. See [`Acquire::permits`](crate::Acquire::permits) for a wait.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::try_acquire`]; [`Error::ExceedsCapacity`] if a [`Semaphore`](crate::Semaphore) has fewer permits in total; and
    /// [`Error::Invalid`] for an invalid number.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`](crate::Acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard<K>>, Error> {
        self.acquire().permits(permits).run(Some(Patience::Try)).await
    }

    /// Adds permits without a hold. A negative number removes permits, even more than are available. Returns the number of available permits, which
    /// may be negative.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] if the name is in use by other data; [`Error::Invalid`] for 0, and if the sum exceeds 32 bits; and
    /// [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] if the server gave no result within
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after). During that time the client retries; the server applies the change once.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the permits may or may not be added.
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
