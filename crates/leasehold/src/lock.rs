//! A lock of any kind.

pub(crate) mod acquire;
pub(crate) mod attempt;
pub(crate) mod fair_settings;
pub(crate) mod guard;
pub(crate) mod loss;
pub(crate) mod owner;
pub(crate) mod spec;
pub(crate) mod ticket;

use crate::error::{Error, WithError};
use crate::kind::{LockKind, Reentrant, SupportsFallback};
use crate::lock::acquire::Acquire;
use crate::lock::guard::Guard;
use crate::lock::spec::LockSpec;
use leasehold_core::session::{Fallback, Patience};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A lock: at most one owner holds it at a time, across all processes that use its server.
///
/// By default the lock is reentrant; `K` selects another [kind](crate::kind). [`FairLock`](crate::FairLock), [`FencedLock`](crate::FencedLock),
/// [`SpinLock`](crate::SpinLock), [`SimpleLock`](crate::SimpleLock), [`ReadLock`](crate::ReadLock) and [`WriteLock`](crate::WriteLock) are
/// aliases of this type with the same methods. [`BareSemaphore`](crate::BareSemaphore) and [`Semaphore`](crate::Semaphore) are aliases, too; their
/// acquires take permits.
///
/// **When to use it:** for work of unknown length that must not run twice at once. The background renews the lease while the guard lives,
/// and the guard reports a loss. **When not:** if waiters must be served in order ([`FairLock`](crate::FairLock)), or if a stale
/// write must be impossible rather than unlikely ([`FencedLock`](crate::FencedLock)). No lease can stop a holder that was paused for
/// longer than the lease. See [docs/safety.md](https://github.com/leasehold/leasehold/blob/main/docs/safety.md).
///
/// A `Lock` is cheap to create and to clone, does no I/O, and holds nothing until an acquire. On the server it is Redisson's `RLock`: a
/// hash of hold counts under the lock's name.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let stock = client.lock("stock:1001");
/// let guard = stock.acquire().await?;
/// assert!(stock.try_acquire().await?.is_none(), "other owners are excluded");
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub struct Lock<K: LockKind = Reentrant> {
    spec: LockSpec,
    kind: PhantomData<K>,
}

impl<K: LockKind> Lock<K> {
    pub(crate) const fn of(spec: LockSpec) -> Self {
        Self { spec, kind: PhantomData }
    }

    /// Acquires the lock, and waits while other owners hold it. The client renews the lease until the release, unless
    /// [`Acquire::lease`] fixes it.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::WaitElapsed`], [`Error::KeyConflict`], [`Error::Unreachable`], [`Error::OutcomeUnknown`],
    /// [`Error::Refused`] and [`Error::ShutDown`]; [`Error::Lost`] if the owner's hold was lost and its guards still exist; and
    /// [`Error::Invalid`] before anything is sent.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`].
    pub fn acquire(&self) -> Acquire<K> {
        Acquire::new(self.spec.clone())
    }

    /// Acquires the lock if it is free. Returns `None` if another owner holds it, or if a task of this client waits for it.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::acquire`] except [`Error::WaitElapsed`]. During a known outage the try fails at once; before the outage is known, after
    /// at most twice the command timeout. [`Error::OutcomeUnknown`] also if the lock was busy and the client cannot roll back a trace of this try,
    /// such as a place in a queue. The trace may delay the next acquire until its lease ends.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard<K>>, Error> {
        self.acquire().run(Some(Patience::Try)).await
    }

    /// Acquires the lock, runs `work` and releases the lock. The caller can neither forget the release nor overlook a loss.
    ///
    /// `work` receives the guard. Once the lock is lost, `work` is not polled again. [`Acquire::with`] adds a wait, a lease or an owner.
    ///
    /// # Errors
    ///
    /// [`WithError`] distinguishes three cases: the lock was not acquired, the lock was lost, or the release failed. It contains the result of `work`
    /// if `work` had finished.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// # let stock = client.lock("stock:1001");
    /// let left = stock.with(async |held| 100 - held.hold_count()).await?;
    /// assert_eq!(left, 99);
    /// # Ok::<(), leasehold::WithError<u32>>(()) }).unwrap();
    /// ```
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&Guard<K>) -> T) -> Result<T, WithError<T>> {
        self.acquire().with(work).await
    }

    /// Returns the name without the client's prefix.
    pub fn name(&self) -> &str {
        self.spec.name()
    }

    /// Counts this lock's metrics under `class`, such as `orders`. Use few classes: a client never drops the series of a
    /// class. Do not derive a class from lock names, which are unbounded. Default: `default`.
    #[must_use]
    pub fn class(self, class: impl AsRef<str>) -> Self {
        Self::of(self.spec.with_class(class.as_ref()))
    }

    pub(crate) const fn spec(&self) -> &LockSpec {
        &self.spec
    }

    /// Returns the lock as a member of a group: without a fallback, and without lingering.
    pub(crate) fn as_member(&self) -> Self {
        Self::of(self.spec.with(|options| {
            options.linger = None;
            options.fallback = Some(Fallback::Fail);
        }))
    }
}

impl<K: SupportsFallback> Lock<K> {
    /// Sets what an acquire does after the server was unreachable for `unreachable_after`. Default: the client's
    /// [`fallback`](crate::ClientBuilder::fallback), which is [`Fallback::Fail`] by default.
    ///
    /// **When to use it:** [`Fallback::Local`] if exclusion within this process is better than an outage, and a second holder in another process
    /// only duplicates work. [`Fallback::PassThrough`] if the lock only avoids duplicate work. **When not:** if two concurrent holders do harm. Fenced and fair
    /// locks, durable acquires and semaphores do not support a fallback. A group ([`MultiLock`](crate::MultiLock),
    /// [`QuorumLock`](crate::QuorumLock)), a leader and [`Client::once`](crate::Client::once) ignore the fallback, and fail while a required server is
    /// unreachable.
    ///
    /// [`Guard::is_degraded`] reports whether a guard was granted without the server.
    #[must_use]
    pub fn fallback(&self, fallback: Fallback) -> Self {
        Self::of(self.spec.with(|options| options.fallback = Some(fallback)))
    }
}

impl Lock {
    /// Keeps the lock on the server for up to `longest` after the last guard's release, which saves the next acquire of this client its
    /// command. Default: the client releases the lock at once.
    ///
    /// **When to use it:** if one process acquires a lock repeatedly with short pauses, and other processes seldom need it.
    /// [`DEFAULT_LINGER`](crate::DEFAULT_LINGER) is 50 ms. **When not:** if JVMs often need the lock, or if acquires are more than two
    /// seconds apart. The first hold starts a subscription; only later holds linger.
    ///
    /// A leasehold client that finds the lock busy publishes a request, whether its own locks linger or not. The lingering client receives the
    /// request and releases the lock at once, or with its guard's release. For the next second its holds of this lock do not linger. A JVM sends no
    /// request. It waits for up to `longest` after the release, or up to ten times as long if this client keeps reacquiring the lock. A `try_acquire` of
    /// another client also publishes the request, but finds the lock busy although no guard exists.
    ///
    /// [`Guard::release`] returns `Ok` at once. Each guard has its own [`held_for`](Guard::held_for) and its own loss. It inherits the
    /// [`holder_id`](Guard::holder_id) of the previous guard, which ends with `~`. Lingering requires:
    ///
    /// - a reachable server and a subscription to requests;
    /// - two acquires that renew the same lease;
    /// - a hold with only one guard, and without [`max_hold`](crate::Acquire::max_hold), [`durable`](crate::Acquire::durable) or
    ///   [`Fallback::Local`].
    ///
    /// A shutdown, the client's end and a force release end the lingering. If the process ends without a shutdown or a drop of the client,
    /// the lock stays busy for one lease. Members of a [`MultiLock`](crate::MultiLock) do not linger. See
    /// [docs/safety.md](https://github.com/leasehold/leasehold/blob/main/docs/safety.md).
    ///
    /// # Errors
    ///
    /// An acquire fails with [`Error::Invalid`] if `longest` is less than a millisecond or more than a third of the lease.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let stock = client.lock("stock:1001").linger(leasehold::DEFAULT_LINGER);
    /// for _ in 0..1_000 {
    ///     let guard = stock.acquire().await?;
    ///     guard.release().await?;
    /// }
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn linger(&self, longest: Duration) -> Self {
        Self::of(self.spec.with(|options| options.linger = Some(longest)))
    }
}

impl<K: LockKind> Clone for Lock<K> {
    fn clone(&self) -> Self {
        Self::of(self.spec.clone())
    }
}

impl<K: LockKind> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("kind", &self.spec.kind_word())
            .field("name", &self.spec.name())
            .field("class", &self.spec.metrics().name)
            .finish_non_exhaustive()
    }
}
