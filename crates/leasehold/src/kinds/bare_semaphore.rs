//! The bare semaphore: a counter of permits without leases.

use crate::error::Error;
use crate::kind::Counter;
use crate::lock::Lock;
use crate::lock_spec::Outcome;
use crate::settings;
use leasehold_core::command::semaphore::{self as command, Inspected};

/// A counter of permits, which has neither their holders nor leases.
///
/// **When to use it:** to share a semaphore with JVM services that have it as Redisson's `RSemaphore`; or for permits
/// without a hold, such as tickets that are never returned. **When not:** nearly everywhere else. The server knows the
/// number of available permits, but not the holders of the others, so **the permits of a crashed process are gone**
/// until they are added again. A [`Semaphore`](crate::Semaphore) recovers such permits automatically.
///
/// A semaphore whose number was never set has no permits: [`try_set_permits`](Self::try_set_permits) comes first. Nor has one whose server
/// came back without its data: its waiters go on waiting until the number is set again, and the client warns of it once
/// ([`UNSET_TOTAL`](crate::telemetry::UNSET_TOTAL)). Give such a wait a limit ([`wait`](crate::Acquire::wait)). Permits that were taken
/// before and are given back afterwards come on top of what was set, because the server does not know who has any. A request for more
/// permits than there will ever be waits for ever, because the server does not know how many there are in all.
///
/// A guard gives its permits back once, when it is released or dropped. It has no lease, nothing renews it, and while its client lives
/// it never says that it is lost: the server could not tell. Only its release does, with [`Error::Lost`], where the semaphore is not there
/// any more, because it was deleted or evicted, or the server has lost its data: then nothing was given back. An owner does not re-enter
/// it: each acquire takes permits of its own.
///
/// **What it costs:** each acquire, and each other operation, leaves a key of about 160 bytes for ten minutes, to detect late
/// copies; the release writes to the key of its acquire. So 100 acquires a second keep 60 000 keys, 10 MB; 1 000 a
/// second 100 MB.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let seats = client.bare_semaphore("seats");
/// assert!(seats.try_set_permits(10).await?);
/// let guard = seats.acquire().permits(2).await?;
/// assert_eq!((guard.permits(), seats.available_permits().await?), (2, 8));
/// guard.release().await?;
/// assert_eq!(seats.available_permits().await?, 10);
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type BareSemaphore = Lock<Counter>;

impl BareSemaphore {
    /// Sets the number of permits where none was ever set, and says whether it did. A number that is there is left as it is, also
    /// where it is 0 because all permits are taken.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] where the name holds something else, [`Error::Invalid`] for more than `i32::MAX`, and
    /// [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] where the server gave no answer within
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after), for which the command is repeated. It is applied once, however
    /// often it is sent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the number was set.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        settings::check_number("number of permits", permits, 0)?;
        let set = |name: &_, operation: &[u8], publish: &_| command::set(name, permits, None, operation, publish);
        let outcome = self.spec().call_idempotent(set, command::set_done).await?;
        Ok(matches!(outcome, Outcome::Done(_)))
    }

    /// Gives permits back that no guard of this client has: those that [`drain_permits`](Self::drain_permits) took, or that a crashed
    /// process had. A JVM's `release` does the same. The server does not check that they were taken. Returns how many are available then.
    ///
    /// # Errors
    ///
    /// As [`BareSemaphore::add_permits`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits were given back.
    pub async fn release_permits(&self, permits: u32) -> Result<i64, Error> {
        settings::check_permits(permits)?;
        self.add_permits(i32::try_from(permits).unwrap_or(i32::MAX)).await
    }

    /// Takes all permits that are available, for no hold, and says how many these were.
    ///
    /// # Errors
    ///
    /// As [`BareSemaphore::try_set_permits`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits were taken.
    pub async fn drain_permits(&self) -> Result<u32, Error> {
        let drain = |name: &_, operation: &[u8], _: &_| command::drain(name, operation);
        match self.spec().call_idempotent(drain, command::drained).await? {
            Outcome::Done(drained) => Ok(u32::try_from(drained).unwrap_or_default()),
            Outcome::Refused(_) | Outcome::Overflow(_) => Ok(0),
        }
    }

    /// How many permits are available; 0 where there is no such semaphore, and negative where more were taken away than there were.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn available_permits(&self) -> Result<i64, Error> {
        let spec = self.spec();
        match spec.call_once(command::inspect(spec.checked_name()?), command::inspected).await? {
            Inspected::Absent => Ok(0),
            Inspected::Present { available, .. } => Ok(available),
            Inspected::Kind(kind) => Err(spec.conflict(kind)),
        }
    }
}
