//! A lock of any kind: its name and its operations.

use crate::acquire::Acquire;
use crate::error::{Error, WithError};
use crate::guard::Guard;
use crate::kind::{LockKind, Reentrant, SupportsFallback};
use crate::lock_spec::LockSpec;
use leasehold_core::session::{Fallback, Patience};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A lock: at most one owner holds it at a time, across all processes that use its server.
///
/// This is the reentrant lock, unless `K` names another [kind](crate::kind): [`FairLock`](crate::FairLock),
/// [`FencedLock`](crate::FencedLock), [`SpinLock`](crate::SpinLock), [`SimpleLock`](crate::SimpleLock), and the halves
/// [`ReadLock`](crate::ReadLock) and [`WriteLock`](crate::WriteLock) are of this type, and have the same methods.
/// [`BareSemaphore`](crate::BareSemaphore) and [`Semaphore`](crate::Semaphore) are also of this type: an acquire takes a permit.
///
/// **When to use it:** for work of unknown length that must not run twice at once: the background renews the lease
/// until the guard's end, and the guard reports a lost lock. **When not:** if the server must serve waiters in order
/// ([`FairLock`](crate::FairLock)), or if a stale write must be impossible rather than unlikely
/// ([`FencedLock`](crate::FencedLock)): no lease can stop a holder that was paused for longer than the lease. See
/// [docs/safety.md](https://github.com/leasehold/leasehold/blob/main/docs/safety.md).
///
/// A `Lock` is cheap to create and to clone, does no I/O, and holds nothing until an acquire. On the server it is
/// Redisson's `RLock`: a hash of hold counts under the lock's name.
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

    /// Acquires the lock, and waits for it while others hold it. The lease is renewed until the release, unless [`Acquire::lease`] says
    /// otherwise.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::WaitElapsed`], [`Error::KeyConflict`], [`Error::Unreachable`], [`Error::OutcomeUnknown`],
    /// [`Error::Refused`], [`Error::Lost`] where the owner's hold was lost and guards of it still exist, [`Error::ShutDown`], and
    /// [`Error::Invalid`] before anything is sent.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`].
    pub fn acquire(&self) -> Acquire<K> {
        Acquire::new(self.spec.clone())
    }

    /// Acquires the lock if it is free; `None` if another holder has it, or a task of this client waits for it.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`], but never [`Error::WaitElapsed`]. During a known outage the try fails at once; before the
    /// outage is known, after at most twice the command timeout. [`Error::OutcomeUnknown`] is also returned if the lock
    /// was busy and the client cannot roll back a trace of this try on the server, such as a place in a queue. The
    /// trace may delay the next acquire until its lease ends.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard<K>>, Error> {
        self.acquire().run(Some(Patience::Try)).await
    }

    /// Acquires, runs `work` under the lock, and releases: a caller can neither forget the release nor overlook a loss.
    ///
    /// `work` gets the guard. Once the lock is lost, `work` is not polled again. [`Acquire::with`] does the same with a wait, a lease or an owner.
    ///
    /// # Errors
    ///
    /// [`WithError`] distinguishes three cases: the lock was not acquired; it was lost (with the result of the work, if
    /// the work had ended); or the release failed (with the result of the work).
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

    /// The name as the caller gave it, without the client's prefix.
    pub fn name(&self) -> &str {
        self.spec.name()
    }

    /// Counts this lock's metrics under `class`, such as `orders`. Use few classes: a client keeps the series of each
    /// class for its whole life, and lock names are unbounded. A class may come from a configuration.
    ///
    /// Default: `default`.
    #[must_use]
    pub fn class(self, class: impl AsRef<str>) -> Self {
        Self::of(self.spec.with_class(class.as_ref()))
    }

    pub(crate) const fn spec(&self) -> &LockSpec {
        &self.spec
    }
}

impl<K: LockKind> Lock<K> {
    /// Returns the lock as a member of a group: only its server grants it, and a release reaches the server at once.
    pub(crate) fn as_member(&self) -> Self {
        if self.spec.options().linger.is_none() && self.spec.fallback() == Fallback::Fail {
            return self.clone();
        }
        Self::of(self.spec.with_options(|options| {
            options.linger = None;
            options.fallback = Some(Fallback::Fail);
        }))
    }
}

impl<K: SupportsFallback> Lock<K> {
    /// Sets the behaviour of an acquire once the server has been out of reach for `unreachable_after`. Default: the client's
    /// [`fallback`](crate::ClientBuilder::fallback), which is [`Fallback::Fail`] by default.
    ///
    /// **When to use it:** [`Fallback::Local`] where exclusion within this one process is better than a stop, and a second holder in
    /// another process does no more than double work. [`Fallback::PassThrough`] where the lock only saves work.
    /// **When not:** wherever two holders do harm. Fenced and fair locks, durable acquires and semaphores do not
    /// support it. A group ([`MultiLock`](crate::MultiLock), [`QuorumLock`](crate::QuorumLock)), a leader and
    /// [`Client::once`](crate::Client::once) ignore it and fail while a server that they need is unreachable.
    ///
    /// [`Guard::is_degraded`] tells whether a guard was granted without the server.
    #[must_use]
    pub fn fallback(&self, fallback: Fallback) -> Self {
        Self::of(self.spec.with_options(|options| options.fallback = Some(fallback)))
    }
}

impl Lock {
    /// Lets the lock linger: after the last guard's release the client keeps it on the server for up to `longest`, and the next acquire of
    /// this client costs no command. Default: the lock is released at once.
    ///
    /// **When to use it:** where one process takes the same lock again and again with short pauses, and others seldom want it.
    /// [`DEFAULT_LINGER`](crate::DEFAULT_LINGER) is 50 ms. **When not:** where JVMs want the lock often, or where
    /// acquires are more than two seconds apart: the first hold starts a subscription, and only later holds linger.
    ///
    /// A client of this library that finds the lock busy publishes a request, whether its own locks linger or not. The
    /// lingering client receives the request and releases the lock at once, or with its guard's release. For the next
    /// second its holds of this lock do not linger. A JVM sends no request: it waits for up to `longest` after the
    /// release, or up to ten times as long if the client keeps reacquiring the lock. A try of another client also
    /// publishes the request, but finds the lock busy although no guard exists.
    ///
    /// [`Guard::release`] is `Ok` at once. Each guard counts its own [`held_for`](Guard::held_for) and has its own loss;
    /// [`holder_id`](Guard::holder_id) is that of the guard before, with a `~` at its end. A lock lingers only while
    /// the client is subscribed to requests and the server is reachable. Both acquires must renew the same lease, and
    /// the hold must have had only one guard, no [`max_hold`](crate::Acquire::max_hold), no
    /// [`durable`](crate::Acquire::durable) and no [`Fallback::Local`]. A shutdown, the client's end, and a force
    /// release end it; if the process ends without the first two, the lock stays busy for one lease. Members of a
    /// [`MultiLock`](crate::MultiLock) do not linger. See
    /// [docs/safety.md](https://github.com/leasehold/leasehold/blob/main/docs/safety.md).
    ///
    /// # Errors
    ///
    /// An acquire fails with [`Error::Invalid`] where `longest` is less than a millisecond, or more than a third of the lease.
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
        Self::of(self.spec.with_options(|options| options.linger = Some(longest)))
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
