//! Both kinds of semaphores.

use crate::client::settings;
use crate::error::{Error, InvalidInput};
use crate::kind::{Counted, Counter, Permit};
use crate::lock::Lock;
use crate::lock::guard::Guard;
use crate::lock::spec::LockSpec;
use leasehold_core::command::operation::Done;
use leasehold_core::command::permits::{self, PermitId};
use leasehold_core::command::{Kind, semaphore};
use leasehold_core::session::Patience;
use std::time::Duration;

/// A semaphore whose permits have ids and leases.
///
/// **When to use it:** to limit concurrency across all processes: connections to a supplier, jobs on a machine. The background renews the
/// leases while the guard lives, and the permits of a crashed process return after one lease. **When not:** for a limit of one: use a lock.
///
/// A new semaphore has no permits until [`try_set_permits`](Self::try_set_permits) sets them. If the server loses its data, waiters wait until a
/// caller sets the number again, and the client warns once ([`UNSET_TOTAL`](crate::telemetry::UNSET_TOTAL)). Limit the
/// [`wait`](crate::Acquire::wait) of these waiters. A request for more permits than the capacity fails at once with [`Error::ExceedsCapacity`], unless the capacity is
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

impl HeldPermit {
    fn of(seen: permits::HeldPermit) -> Self {
        Self { id: seen.id, remaining: seen.left }
    }
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

/// A counter of permits without holders and leases.
///
/// **When to use it:** to share a semaphore with JVMs that use Redisson's `RSemaphore`, or for permits without a hold, such as tickets that are never
/// returned. **When not:** nearly everywhere else. The server stores the number of available permits, but no holders. **The permits of a crashed
/// process are gone** until a caller adds them again. A [`Semaphore`](crate::Semaphore) recovers such permits automatically.
///
/// A new semaphore has no permits until [`try_set_permits`](Self::try_set_permits) sets them. If the server loses its data, waiters wait until a
/// caller sets the number again, and the client warns once ([`UNSET_TOTAL`](crate::telemetry::UNSET_TOTAL)). Limit the
/// [`wait`](crate::Acquire::wait) of these waiters. Permits from before the loss that return afterwards add to the new number, because the server stores no holders.
/// The server therefore cannot refuse a request for more permits than the semaphore will ever have, which waits without a limit.
///
/// A guard returns its permits once, when it is released or dropped. It has no lease and no renewals, and does not report a loss while its client
/// lives. Its release fails with [`Error::Lost`] if the semaphore no longer exists: after a deletion, an eviction or a loss of the server's data.
/// Such a release returns no permits. Owners do not re-enter it: each acquire takes new permits.
///
/// **Memory:** each acquire and each other operation leaves a key of about 160 bytes for ten minutes, to detect late copies. The release
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

impl<K: Counted> Lock<K> {
    /// Sets the number of permits (the capacity of a [`Semaphore`]) if it was never set, and returns `true`. Otherwise the number does not
    /// change, even if no permit is available.
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
        let has_ids = self.spec().kind() == Kind::Permits;
        let set = |name: &_, operation: &[u8], publish: &_| {
            if has_ids {
                permits::set(name, permits, operation, publish)
            } else {
                semaphore::set(name, permits, None, operation, publish)
            }
        };
        let set_done = if has_ids { permits::set_done } else { semaphore::set_done };
        Ok(matches!(self.spec().call_idempotent(set, set_done).await?, Done::Done { .. }))
    }

    /// Acquires this many permits if all of them are available. See [`Acquire::permits`](crate::Acquire::permits) for a wait.
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
        let add = |name: &_, operation: &[u8], publish: &_| semaphore::add(name, permits, operation, publish);
        match self.spec().call_idempotent(add, semaphore::added).await? {
            Done::Done { number: available, .. } | Done::Refused { number: available } => Ok(available),
            Done::Overflow { number: available } => Err(Error::Invalid(InvalidInput::Number {
                what: "number of permits after the change",
                given: available.saturating_add(permits.into()),
                least: i32::MIN.into(),
                most: i32::MAX.into(),
            })),
        }
    }

    /// Returns the number of available permits, including expired permits. It is 0 if the semaphore does not exist, and negative if more permits
    /// were removed than existed.
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
        if spec.kind() == Kind::Permits {
            return Ok(counts(spec).await?.map_or(0, |counts| counts.available));
        }
        let found = spec.call_once(semaphore::inspect(spec.checked_name()?), semaphore::inspected).await?;
        Ok(found.map_or(0, |(available, _)| available))
    }
}

impl BareSemaphore {
    /// Returns permits that no guard of this client has: permits from [`drain_permits`](Self::drain_permits), or of a crashed process. A JVM's
    /// `release` has this effect, too. The server does not check whether a caller holds these permits. Returns the number of available permits.
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

    /// Removes all available permits, without a hold, and returns their number.
    ///
    /// # Errors
    ///
    /// The errors of [`BareSemaphore::try_set_permits`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the permits may or may not be taken.
    pub async fn drain_permits(&self) -> Result<u32, Error> {
        let drain = |name: &_, operation: &[u8], _: &_| semaphore::drain(name, operation);
        match self.spec().call_idempotent(drain, semaphore::drained).await? {
            Done::Done { number: drained, .. } => Ok(u32::try_from(drained).unwrap_or_default()),
            Done::Refused { .. } | Done::Overflow { .. } => Ok(0),
        }
    }
}

impl Semaphore {
    /// Maximum number of permits of one acquire: 1000. The script handles permits one by one. Each acquire, renewal and release blocks the server for
    /// about 2 ms per 1000 permits. The capacity may be much greater.
    pub const MAX_AT_ONCE: u32 = permits::MAX_AT_ONCE;

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
        let resize = |name: &_, operation: &[u8], publish: &_| permits::resize(name, permits, operation, publish);
        match self.spec().call_idempotent(resize, permits::resized).await? {
            Done::Done { number: available, .. } | Done::Refused { number: available } => Ok(available),
            Done::Overflow { number: available } => Err(Error::Invalid(InvalidInput::Number {
                what: "number of permits",
                given: available,
                least: 0,
                most: i32::MAX.into(),
            })),
        }
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
        counts(self.spec()).await
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
        let call = permits::lease(spec.checked_name()?, id);
        Ok(spec.call_once(call, |reply| permits::leased(reply, id)).await?.map(HeldPermit::of))
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
        for ids in ids.chunks(permits::MAX_AT_ONCE as usize) {
            let call = permits::give(name, ids.iter().copied(), &spec.publish());
            back.extend(spec.call_once(call, permits::given).await?);
            spec.handle().with(|session, now| session.look_again(now, self.name()));
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

async fn counts(spec: &LockSpec) -> Result<Option<PermitCounts>, Error> {
    let counts = spec.call_once(permits::inspect(spec.checked_name()?), permits::inspected).await?;
    Ok(counts.map(|counts| PermitCounts {
        available: counts.available,
        held: counts.held,
        permits: counts.permits.into_iter().map(HeldPermit::of).collect(),
    }))
}
