//! The semaphore.

use crate::client::settings;
use crate::error::{Error, InvalidInput};
use crate::kind::Permit;
use crate::lock::Lock;
use crate::lock::guard::Guard;
use crate::lock::spec::Outcome;
use leasehold_core::command::permits::{self as command, Given, Inspected, Leased, PermitId};
use std::time::Duration;

/// The maximum number of ids in one command.
const IDS_IN_A_CALL: usize = command::MAX_AT_ONCE as usize;

/// A semaphore whose permits have ids and leases.
///
/// **When to use it:** to limit concurrency across all processes: connections to a supplier, jobs on a machine. The background renews the
/// leases while the guard lives, and the permits of a crashed process return after one lease. **When not:** for a limit of one: use a lock.
///
/// A new semaphore has no permits until [`try_set_permits`](Self::try_set_permits) sets them. If the server loses its data, waiters wait until a
/// caller sets the number again, and the client warns once ([`UNSET_TOTAL`](crate::telemetry::UNSET_TOTAL)). Limit such a
/// [`wait`](crate::Acquire::wait). A request for more permits than the capacity fails at once with [`Error::ExceedsCapacity`], unless the capacity is
/// not set yet. A request for more than [`MAX_AT_ONCE`](Self::MAX_AT_ONCE) fails with
/// [`InvalidInput::TooManyPermits`](crate::InvalidInput::TooManyPermits). On the server it is Redisson's `RPermitExpirableSemaphore`, with leases by
/// the server's clock.
///
/// Any client that knows the id of a permit controls it, like JVMs with `updateLeaseTime` and `release`. A permit with a shortened lease may expire
/// while its guard is held. The guard detects the change at its next renewal (after at most a third of the lease), or at the end of a fixed lease. A
/// permit with a prolonged lease stays held until its guard is released or dropped, even after the guard is lost.
///
/// Owners do not re-enter a semaphore: each acquire takes new permits.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let supplier = client.semaphore("supplier");
/// supplier.try_set_permits(3).await?;
/// let guard = supplier.acquire().permits(2).wait(Duration::from_secs(5)).await?; // renewed until the release
/// assert_eq!((guard.ids().len(), supplier.available_permits().await?), (2, 1));
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type Semaphore = Lock<Permit>;

/// A held permit, as seen by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct HeldPermit {
    /// The id of the permit.
    pub id: PermitId,
    /// The remaining lease, or `None` for a permit without a lease, which a JVM can request.
    pub remaining: Option<Duration>,
}

/// The permits of a [`Semaphore`]. Available and held permits add up to the capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PermitCounts {
    /// The number of available permits, which is negative if the capacity was lowered below the number of held permits.
    pub available: i64,
    /// The number of held permits.
    pub held: u64,
    /// The held permits with the earliest expiry, at most 1000.
    pub permits: Vec<HeldPermit>,
}

impl Semaphore {
    /// Maximum number of permits of one acquire: 1000. The script handles permits one by one. Each acquire, renewal and release blocks the server for
    /// about 2 ms per 1000 permits. The capacity may be much greater.
    pub const MAX_AT_ONCE: u32 = command::MAX_AT_ONCE;

    /// Sets the capacity if it was never set, and returns whether it did. An existing capacity does not change, even if no permit is
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
    /// After a drop of the future the capacity may or may not be set.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        settings::check_number("number of permits", permits, 0)?;
        let set = |name: &_, operation: &[u8], publish: &_| command::set(name, permits, operation, publish);
        let outcome = self.spec().call_idempotent(set, command::set_done).await?;
        Ok(matches!(outcome, Outcome::Done(_)))
    }

    /// Sets the capacity, even while permits are held, and returns the number of available permits. It is negative while more permits are held
    /// than the new capacity. No holder loses a permit.
    ///
    /// # Errors
    ///
    /// The errors of [`Semaphore::try_set_permits`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the capacity may or may not be set.
    pub async fn resize(&self, permits: u32) -> Result<i64, Error> {
        settings::check_number("number of permits", permits, 0)?;
        let resize = |name: &_, operation: &[u8], publish: &_| command::resize(name, permits, operation, publish);
        match self.spec().call_idempotent(resize, command::resized).await? {
            Outcome::Done(available) | Outcome::Refused(available) => Ok(available),
            Outcome::Overflow(available) => Err(Error::Invalid(InvalidInput::Number {
                what: "number of permits",
                given: available,
                least: 0,
                most: i32::MAX.into(),
            })),
        }
    }

    /// Returns the number of available permits, including expired permits, or 0 if the semaphore does not exist.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn available_permits(&self) -> Result<i64, Error> {
        Ok(self.inspect().await?.map_or(0, |counts| counts.available))
    }

    /// Returns the number of held permits of all holders.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn held_permits(&self) -> Result<u64, Error> {
        Ok(self.inspect().await?.map_or(0, |counts| counts.held))
    }

    /// Returns the permits of the semaphore with their leases, or `None` if it does not exist. This changes nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<Option<PermitCounts>, Error> {
        let spec = self.spec();
        match spec.call_once(command::inspect(spec.checked_name()?), command::inspected).await? {
            Inspected::Absent => Ok(None),
            Inspected::Present { available, held, permits } => {
                let permits =
                    permits.into_iter().map(|held| HeldPermit { id: held.id, remaining: held.left }).collect();
                Ok(Some(PermitCounts { available, held, permits }))
            }
            Inspected::Kind(kind) => Err(spec.conflict(kind)),
        }
    }

    /// Returns the lease of one permit, or `None` if it is free or has expired.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn lease_of(&self, id: PermitId) -> Result<Option<HeldPermit>, Error> {
        let spec = self.spec();
        match spec.call_once(command::lease(spec.checked_name()?, id), command::leased).await? {
            Leased::Gone => Ok(None),
            Leased::Held { left } => Ok(Some(HeldPermit { id, remaining: left })),
            Leased::Kind(kind) => Err(spec.conflict(kind)),
        }
    }

    /// Releases permits by their ids, **including permits of other holders**. Returns for each id, in order, whether it was released: `false` if the
    /// permit was not held or has expired. An expired permit does not prevent the release of other permits.
    ///
    /// The client sends more than 1000 ids in several commands, in sequence.
    ///
    /// Another client's guard with such a permit is lost with the reason [`Removed`](crate::LossReason::Removed) at its next renewal; guards of
    /// this client are lost at once. The other permits of such a guard return at the end of its lease.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`](crate::Lock::inspect). With several commands, some permits may be released before an error.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the permits may or may not be released.
    pub async fn release_ids(&self, ids: &[PermitId]) -> Result<Vec<bool>, Error> {
        let spec = self.spec();
        let name = spec.checked_name()?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut back = Vec::with_capacity(ids.len());
        for ids in ids.chunks(IDS_IN_A_CALL) {
            let call = command::give(name, ids.iter().copied(), &spec.publish());
            match spec.call_once(call, command::given).await? {
                Given::Each(given) => {
                    spec.handle().with(|session, now| session.look_again(now, self.name()));
                    back.extend(given);
                }
                Given::Kind(kind) => return Err(spec.conflict(kind)),
            }
        }
        Ok(back)
    }
}

impl Guard<Permit> {
    /// Returns the ids of all [held](Guard::permits) permits. The text of an id has 32 hexadecimal digits, as on a JVM.
    pub fn ids(&self) -> Vec<PermitId> {
        let hold = self.cell().key();
        PermitId::of_hold(&hold.field(), hold.permits).collect()
    }
}
