//! The semaphore, a bare counter.

use crate::acquire::Acquire;
use crate::error::{Error, InvalidInput, WithError};
use crate::guard::Guard;
use crate::kind::Counter;
use crate::lock::Lock;
use crate::settings;
use crate::target::{Outcome, Target};
use leasehold_core::command::semaphore::{self as command, Inspected};
use leasehold_core::session::Patience;
use std::fmt;

/// A number of permits that everybody takes from and gives back to.
///
/// **When to use it:** to share a semaphore with JVM services that have it as Redisson's `RSemaphore`; or for permits that no hold
/// stands behind, such as tickets that are handed out for good. **When not:** nearly everywhere else. The server knows how many permits
/// are left and not who has the others, so **what a process took that crashed is gone** until somebody adds it again. A
/// [`PermitSemaphore`](crate::PermitSemaphore) gets such permits back by itself.
///
/// A semaphore that nobody has set has no permits: [`try_set_permits`](Self::try_set_permits) comes first. Whoever asks for more
/// permits than there will ever be waits for ever, because nobody knows how many there are in all.
///
/// A guard gives its permits back once, when it is released or dropped. It has no lease, nothing renews it, and it is not lost while
/// its client lives: the server could not tell. An owner does not re-enter it: each acquire takes permits of its own.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let seats = client.semaphore("seats");
/// assert!(seats.try_set_permits(10).await?);
/// let guard = seats.acquire().permits(2).await?;
/// assert_eq!((guard.permits(), seats.available_permits().await?), (2, 8));
/// guard.release().await?;
/// assert_eq!(seats.available_permits().await?, 10);
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Semaphore(Lock<Counter>);

/// Permits of a [`Semaphore`] that are held.
pub type SemaphoreGuard = Guard<Counter>;

impl Semaphore {
    pub(crate) const fn new(target: Target) -> Self {
        Self(Lock::of(target))
    }

    /// The name as the caller gave it, without the client's prefix.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Counts this semaphore's metrics under `class`. See [`Lock::class`].
    #[must_use]
    pub fn class(self, class: &'static str) -> Self {
        Self(self.0.class(class))
    }

    /// Takes a permit, or as many as [`Acquire::permits`] says, waiting until there are enough.
    ///
    /// # Errors
    ///
    /// When awaited: as [`Lock::acquire`], and [`Error::Invalid`] where the number of permits cannot be used.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`]: what was taken is given back.
    pub fn acquire(&self) -> Acquire<Counter> {
        self.0.acquire()
    }

    /// Takes a permit if there is one; `None` otherwise, or where somebody in this client waits already.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<SemaphoreGuard>, Error> {
        self.0.try_acquire().await
    }

    /// Takes so many permits if they are there, all of them or none.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`], and [`Error::Invalid`] where the number cannot be used.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`].
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<SemaphoreGuard>, Error> {
        self.acquire().permits(permits).run(Some(Patience::Try)).await
    }

    /// Takes a permit, runs `work`, and gives the permit back.
    ///
    /// # Errors
    ///
    /// As [`Lock::with`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and gives the permit back in the background.
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&SemaphoreGuard) -> T) -> Result<T, WithError<T>> {
        self.0.with(work).await
    }

    /// Sets the number of permits where none was ever set, and says whether it did. A number that is there is left as it is, also
    /// where it is 0 because all permits are taken.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] where the name holds something else, [`Error::Invalid`] for more than `i32::MAX`, and
    /// [`Error::Unreachable`], [`Error::Indeterminate`] or [`Error::Refused`] where the server gave no answer within
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after), for which the command is repeated. It is applied once, however
    /// often it is sent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the number was set.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        settings::check_number("number of permits", permits, 0)?;
        let set = |name: &_, operation: &[u8], publish: &_| command::set(name, permits, None, operation, publish);
        let outcome = self.0.target().operate(set, command::set_done).await?;
        Ok(matches!(outcome, Outcome::Done(_)))
    }

    /// Adds permits that belong to no hold, or takes some away for good, also more than are available; returns how many are available
    /// then, which may be negative.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::try_set_permits`]; [`Error::Invalid`] for 0, and where the sum would leave the range of 32 bits.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits were added.
    pub async fn add_permits(&self, permits: i32) -> Result<i64, Error> {
        add(self.0.target(), permits).await
    }

    /// Gives permits back that no guard of this client has: those that [`drain_permits`](Self::drain_permits) took, or that a crashed
    /// process had. A JVM's `release` does the same. Nobody checks that they were taken. Returns how many are available then.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::add_permits`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits were given back.
    pub async fn release_permits(&self, permits: u32) -> Result<i64, Error> {
        settings::check_permits(permits)?;
        add(self.0.target(), i32::try_from(permits).unwrap_or(i32::MAX)).await
    }

    /// Takes all permits that are available, for no hold, and says how many these were.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::try_set_permits`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits were taken.
    pub async fn drain_permits(&self) -> Result<u32, Error> {
        let drain = |name: &_, operation: &[u8], _: &_| command::drain(name, operation);
        match self.0.target().operate(drain, command::drained).await? {
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
        let target = self.0.target();
        match target.ask(command::inspect(target.checked_name()?), command::inspected).await? {
            Inspected::Absent => Ok(0),
            Inspected::Present { available, .. } => Ok(available),
            Inspected::Kind(kind) => Err(target.conflict(kind)),
        }
    }
}

/// Adds permits to the counter that both semaphores have.
pub(super) async fn add(target: &Target, permits: i32) -> Result<i64, Error> {
    if permits == 0 {
        return Err(InvalidInput::NoPermits.into());
    }
    let add = |name: &_, operation: &[u8], publish: &_| command::add(name, permits, operation, publish);
    match target.operate(add, command::added).await? {
        Outcome::Done(available) | Outcome::Refused(available) => Ok(available),
        Outcome::Overflow(available) => Err(Error::Invalid(InvalidInput::Number {
            what: "number of permits after the change",
            given: available.saturating_add(permits.into()),
            least: i32::MIN.into(),
            most: i32::MAX.into(),
        })),
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("name", &self.name()).finish_non_exhaustive()
    }
}
