//! The bare semaphore: a counter of permits without leases.

use crate::client::settings;
use crate::error::Error;
use crate::kind::Counter;
use crate::lock::Lock;
use crate::lock::spec::Outcome;
use leasehold_core::command::semaphore::{self as command, Inspected};

/// A counter of permits without holders and leases.
///
/// **When to use it:** to share a semaphore with JVMs that use Redisson's `RSemaphore`, or for permits without a hold, such as tickets that nobody
/// returns. **When not:** nearly everywhere else. The server stores the number of available permits, but no holders. **The permits of a crashed
/// process are gone** until a caller adds them again. A [`Semaphore`](crate::Semaphore) recovers such permits automatically.
///
/// A new semaphore has no permits until [`try_set_permits`](Self::try_set_permits) sets them. If the server loses its data, waiters wait until a
/// caller sets the number again, and the client warns once ([`UNSET_TOTAL`](crate::telemetry::UNSET_TOTAL)). Limit such a
/// [`wait`](crate::Acquire::wait). Permits from before the loss that return afterwards add to the new number, because the server stores no holders.
/// For the same reason, a request for more permits than the semaphore will ever have waits without a limit.
///
/// A guard returns its permits once, when it is released or dropped. It has no lease and no renewals, and does not report a loss while its client
/// lives. Its release fails with [`Error::Lost`] if the semaphore no longer exists: after a deletion, an eviction or a loss of the server's data.
/// Such a release returns no permits. Owners do not re-enter it: each acquire takes new permits.
///
/// **What it costs:** each acquire and each other operation leaves a key of about 160 bytes for ten minutes, to detect late copies. The release
/// writes to the key of its acquire. 100 acquires a second keep 60 000 keys (10 MB), and 1 000 acquires a second 100 MB.
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
    /// Sets the number of permits if it was never set, and returns whether it did. An existing number does not change, even if no permit is
    /// available.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] if the name is in use by other data, [`Error::Invalid`] for more than `i32::MAX`, and [`Error::Unreachable`],
    /// [`Error::OutcomeUnknown`] or [`Error::Refused`] if the server gave no result within
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after). During that time the client retries; the server applies the change once.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the number may or may not be set.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        settings::check_number("number of permits", permits, 0)?;
        let set = |name: &_, operation: &[u8], publish: &_| command::set(name, permits, None, operation, publish);
        let outcome = self.spec().call_idempotent(set, command::set_done).await?;
        Ok(matches!(outcome, Outcome::Done(_)))
    }

    /// Returns permits that no guard of this client has: permits from [`drain_permits`](Self::drain_permits), or of a crashed process. A JVM's
    /// `release` does the same. The server does not check whether a caller holds these permits. Returns the number of available permits.
    ///
    /// # Errors
    ///
    /// The errors of [`BareSemaphore::add_permits`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the permits may or may not be returned.
    pub async fn release_permits(&self, permits: u32) -> Result<i64, Error> {
        settings::check_permits(permits)?;
        self.add_permits(i32::try_from(permits).unwrap_or(i32::MAX)).await
    }

    /// Takes all available permits without a hold, and returns their number.
    ///
    /// # Errors
    ///
    /// The errors of [`BareSemaphore::try_set_permits`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the permits may or may not be taken.
    pub async fn drain_permits(&self) -> Result<u32, Error> {
        let drain = |name: &_, operation: &[u8], _: &_| command::drain(name, operation);
        match self.spec().call_idempotent(drain, command::drained).await? {
            Outcome::Done(drained) => Ok(u32::try_from(drained).unwrap_or_default()),
            Outcome::Refused(_) | Outcome::Overflow(_) => Ok(0),
        }
    }

    /// Returns the number of available permits. It is 0 if the semaphore does not exist, and negative if more permits were removed than
    /// existed.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`](crate::Lock::inspect).
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
