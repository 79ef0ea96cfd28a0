//! The semaphore.

use crate::error::{Error, InvalidInput};
use crate::guard::Guard;
use crate::kind::Permit;
use crate::lock::Lock;
use crate::lock_spec::Outcome;
use crate::settings;
use leasehold_core::command::permits::{self as command, Given, Inspected, Leased, PermitId};
use std::time::Duration;

/// How many ids one command carries.
const IDS_IN_A_CALL: usize = command::MAX_AT_ONCE as usize;

/// A number of permits. Each held permit has an id and a lease.
///
/// **When to use it:** to limit concurrency across all processes: connections to a supplier, jobs on a machine. The
/// background renews the leases while the guard lives, and the permits of a crashed process return after one lease.
/// **When not:** for a limit of one, which is a lock.
///
/// A semaphore whose number was never set has no permits: [`try_set_permits`](Self::try_set_permits) comes first. Nor has one whose server
/// came back without its data: its waiters go on waiting until the number is set again, and the client warns of it once
/// ([`UNSET_TOTAL`](crate::telemetry::UNSET_TOTAL)). Give such a wait a limit ([`wait`](crate::Acquire::wait)). More permits than there are
/// in all are refused at once with [`Error::ExceedsCapacity`], unless there are none yet; and more than [`MAX_AT_ONCE`](Self::MAX_AT_ONCE)
/// with [`InvalidInput::TooManyPermits`](crate::InvalidInput::TooManyPermits). On the server it is Redisson's `RPermitExpirableSemaphore`,
/// by the server's clock.
///
/// A client that knows the id of a permit has it in hand, as JVMs do by `updateLeaseTime` and `release`: one that is cut short is free at
/// once, while its guard believes in it until its next renewal, a third of the lease later at the most, or until the end of a lease that is
/// not renewed; one that is prolonged stays taken, also when its guard is lost by its own lease, until that guard is released or dropped.
///
/// An owner does not re-enter it: each acquire takes permits of its own.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let supplier = client.semaphore("supplier");
/// supplier.try_set_permits(3).await?;
/// let guard = supplier.acquire().permits(2).wait(Duration::from_secs(5)).await?; // renewed until it is released
/// assert_eq!((guard.ids().len(), supplier.available_permits().await?), (2, 1));
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type Semaphore = Lock<Permit>;

/// A held permit, as the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct HeldPermit {
    /// Its id.
    pub id: PermitId,
    /// How long its lease still runs; `None` where it does not end, as a JVM may ask for.
    pub remaining: Option<Duration>,
}

/// The permits of a [`Semaphore`]. Available and held permits are together the capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PermitCounts {
    /// How many permits are available; negative where the capacity was lowered below what is held.
    pub available: i64,
    /// How many permits are held.
    pub held: u64,
    /// The held permits that expire first, at most a thousand.
    pub permits: Vec<HeldPermit>,
}

impl Semaphore {
    /// Maximum number of permits of one acquire: 1000. The script handles permits one by one and blocks the server for
    /// about 2 ms per 1000 permits, at the acquire, at each renewal and at the release. The capacity may be much
    /// greater.
    pub const MAX_AT_ONCE: u32 = command::MAX_AT_ONCE;

    /// Sets the capacity if it was never set, and returns whether it did. An existing number does not change, even if
    /// it is 0 because all permits are held.
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
    /// Dropping the future leaves it open whether the capacity was set.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        settings::check_number("number of permits", permits, 0)?;
        let set = |name: &_, operation: &[u8], publish: &_| command::set(name, permits, operation, publish);
        let outcome = self.spec().call_idempotent(set, command::set_done).await?;
        Ok(matches!(outcome, Outcome::Done(_)))
    }

    /// Sets the capacity, also while permits are held, and returns how many are available then: fewer than none, where more are held than
    /// there shall be, until enough have come back. No holder loses a permit by it.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::try_set_permits`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the capacity was set.
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

    /// How many permits are available, those whose lease has run out included; 0 where there is no such semaphore.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn available_permits(&self) -> Result<i64, Error> {
        Ok(self.inspect().await?.map_or(0, |counts| counts.available))
    }

    /// How many permits are held, by whomever.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn held_permits(&self) -> Result<u64, Error> {
        Ok(self.inspect().await?.map_or(0, |counts| counts.held))
    }

    /// The permits of the semaphore, each held one with its lease; `None` if there is no such semaphore. Nothing is changed.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
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

    /// The lease of one permit; `None` if it is free, or its lease has run out.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
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

    /// Gives permits back by their ids, **also those of other holders**, and says of each, in order, whether it is back: `false` if it was
    /// not held any more, or its lease had run out. One that has expired does not keep the others from going back.
    ///
    /// More than a thousand are sent in several commands, one after the other.
    ///
    /// A guard elsewhere that has such a permit is lost with the reason [`Removed`](crate::LossReason::Removed) at its next renewal; those
    /// of this client are told at once. The other permits of such a guard are back when its lease has run out.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect). If it took several commands, the permits of some may be back before an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the permits were given back.
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
    /// The ids of the permits, as many as are [held](Guard::permits). Written out, an id has 32 hexadecimal digits, as a JVM shows it.
    pub fn ids(&self) -> Vec<PermitId> {
        let hold = self.cell().key();
        PermitId::of_hold(&hold.field(), hold.permits).collect()
    }
}
