//! The builder of an acquire.

mod keep_busy;
pub(crate) mod wait;
mod watch;

use crate::client::settings;
use crate::error::{Error, InvalidInput, WithError};
use crate::inspect::seen;
use crate::kind::{Counted, Leased, LockKind, Owned, Polled, Reentrant, Simple};
use crate::lock::attempt;
use crate::lock::guard::Guard;
use crate::lock::owner::Owner;
use crate::lock::spec::LockSpec;
use leasehold_core::backoff::Backoff;
use leasehold_core::call::Replicas;
use leasehold_core::error::AcquireError;
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::{AcquireRequest, Fallback, LingerTime, OuterOwners, Patience};
use std::future::{IntoFuture, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use wait::Wait;
use watch::Watch;

/// A builder for an acquire. Awaiting it acquires the lock.
///
/// The builder converts into a future: implicitly in `lock.acquire().await`, and explicitly in
/// `tokio::spawn(lock.acquire().into_future())`. Before edition 2024 the explicit form needs `use std::future::IntoFuture`.
///
/// # Cancel safety
///
/// Dropping the future at any point leaves nothing behind. The client gives up its place in the queue and settles a command in flight. The
/// background releases a granted lock as soon as the server is reachable. A future that is neither polled nor dropped keeps its place and
/// a subscription, and delays other waiters only briefly.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let stock = client.lock("stock:1001");
/// let guard = stock.acquire().wait(Duration::from_secs(5)).max_hold(Duration::from_secs(120)).await?;
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "an acquire does nothing until it is awaited"]
pub struct Acquire<K: LockKind = Reentrant> {
    spec: LockSpec,
    wait: Option<Wait>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    owner: Option<Owner>,
    reenter: Option<HoldNumber>,
    beside: Option<HoldNumber>,
    renewed: bool,
    permits: u32,
    backoff: Option<Arc<Backoff>>,
    replicas: Option<Replicas>,
    keep_busy_for: Option<Duration>,
    kind: PhantomData<K>,
}

impl<K: LockKind> Acquire<K> {
    pub(crate) fn new(spec: LockSpec) -> Self {
        Self {
            spec,
            wait: None,
            lease: None,
            max_hold: None,
            owner: None,
            reenter: None,
            beside: None,
            renewed: false,
            permits: 1,
            backoff: None,
            replicas: None,
            keep_busy_for: None,
            kind: PhantomData,
        }
    }

    /// Limits the wait while other owners hold the lock. At the end of the wait the client makes one last attempt, and returns
    /// [`Error::WaitElapsed`] if it fails. `Duration::MAX` waits without a limit. Default: the client's
    /// [`default_wait`](crate::ClientBuilder::default_wait), or no limit.
    ///
    /// The last attempt takes up to one [`command_timeout`](crate::ClientBuilder::command_timeout), and the rollback of a failed attempt up to
    /// another one. Before it returns the error, the client gives up its place in the queue of a fair lock, or its mark as a preferred writer. They
    /// would block the next try. If the server does not confirm that in time, the error is [`Error::OutcomeUnknown`]. Looking up the holder for the
    /// error takes up to one more command timeout.
    ///
    /// During a known outage the acquire also waits for the server: for its whole wait, but at most for
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after). Without its own wait, an acquire fails as soon as the outage has
    /// lasted for `unreachable_after`.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(Wait::For(wait));
        self
    }

    /// Limits the wait to the time before `deadline`, such as the deadline of the request that needs the lock. Otherwise like
    /// [`wait`](Self::wait): a deadline in the past makes one attempt. The deadline is an instant of tokio's clock; a
    /// [`std::time::Instant`] converts into it.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// use std::time::{Duration, Instant};
    ///
    /// // Both locks within 5 s.
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// let stock = client.lock("stock:1001").acquire().wait_until(deadline).await?;
    /// let order = client.lock("order:7").acquire().wait_until(deadline).await?;
    /// # order.release().await?;
    /// # stock.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn wait_until(mut self, deadline: impl Into<tokio::time::Instant>) -> Self {
        self.wait = Some(Wait::Until(deadline.into()));
        self
    }

    /// Acquires the lock, runs `work` and releases the lock. The caller can neither forget the release nor overlook a loss.
    ///
    /// `work` receives the guard. Once the lock is lost, `work` is not polled again.
    ///
    /// # Errors
    ///
    /// [`WithError`] distinguishes three cases: the lock was not acquired, the lock was lost, or the release failed. It contains the result of `work`
    /// if `work` had finished. `?` converts it into [`Error`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let stock = client.lock("stock:1001");
    /// let left = stock.acquire().wait(Duration::from_secs(5)).with(async |_held| 100 - 1).await?;
    /// assert_eq!(left, 99);
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn with<T>(self, work: impl AsyncFnOnce(&Guard<K>) -> T) -> Result<T, WithError<T>> {
        let guard = self.into_future().await.map_err(WithError::NotAcquired)?;
        match guard.guarded(work(&guard)).await {
            Ok(value) => WithError::unless_released(value, guard.release().await),
            Err(lost) => {
                let lock = guard.lock().name().to_owned();
                drop(guard);
                Err(WithError::Lost { lock, reason: lost.reason(), value: None })
            }
        }
    }

    /// Copies the lease, the limit and the owner of another builder.
    pub(crate) fn set_all(&mut self, lease: Option<Duration>, max_hold: Option<Duration>, owner: Option<&Owner>) {
        self.lease = lease;
        self.max_hold = max_hold;
        self.owner = owner.cloned();
    }

    /// Copies the wait of another builder.
    pub(crate) const fn waits_as(&mut self, wait: Option<Wait>) {
        self.wait = wait;
    }

    /// Acquires one half of a read-write lock while `hold` holds the other half.
    pub(crate) const fn standing_beside(mut self, hold: HoldNumber) -> Self {
        self.beside = Some(hold);
        self
    }

    /// Sets a lease that is renewed.
    pub(crate) const fn renewed_for(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self.renewed = true;
        self
    }

    /// Re-enters `hold`.
    pub(crate) const fn entering(mut self, hold: HoldNumber) -> Self {
        self.reenter = Some(hold);
        self
    }

    /// Acquires the lock. Returns `None` if a try finds it busy.
    pub(crate) async fn run(&self, patience: Option<Patience>) -> Result<Option<Guard<K>>, Error> {
        let mut watch = Watch::new(&self.spec);
        let begun = self.spec.handle().clock.now_in_process();
        let wish = self.wish(patience)?;
        watch.begin();
        let mut acquiring = attempt::request(self.spec.handle(), wish);
        // Entering the span here avoids a wrapper future, which would contain a second copy of this one.
        let result = poll_fn(|cx| watch.span().in_scope(|| Pin::new(&mut acquiring).poll(cx))).await;
        let waited = self.spec.handle().clock.now_in_process().since(begun);
        match watch.end(waited, result) {
            Ok(Some(granted)) => {
                let guard = Guard::new(self.spec.clone(), granted);
                self.keep_busy_for.into_iter().for_each(|least| guard.keep_busy(least));
                Ok(Some(guard))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(Error::from_acquire(self.spec.name(), waited, error).of_kind(self.spec.kind_word())),
        }
    }

    /// Returns whether an enclosing scope holds the lock under another owner.
    fn waits_for_itself(&self) -> bool {
        let (handle, name) = (self.spec.handle(), self.spec.checked_name());
        let scopes = Owner::scopes(handle);
        !scopes.is_empty() && name.is_ok_and(|name| handle.with(|session, _| session.is_held_by(name, &scopes)))
    }

    /// Validates the request and builds it.
    fn wish(&self, patience: Option<Patience>) -> Result<Box<AcquireRequest>, Error> {
        let handle = self.spec.handle();
        handle.check_process()?;
        let options = self.spec.options();
        let fixed = self.lease.or(options.lease);
        if let Some(lease) = fixed {
            settings::check_lease(lease)?;
        }
        if let Some(most) = self.max_hold {
            settings::check_max_hold(most)?;
        }
        let owner = match &self.owner {
            Some(owner) => Some(owner.id_for(handle).ok_or(InvalidInput::ForeignOwner)?),
            None => Owner::current(handle),
        };
        let patience = patience.unwrap_or_else(|| Patience::Until(handle.end_of_wait(self.wait)));
        settings::check_asked(self.spec.kind(), self.permits)?;
        let (lease, renewed) = if self.spec.kind().has_lease() {
            (fixed.unwrap_or(handle.settings.lease), fixed.is_none() || self.renewed)
        } else {
            (settings::NO_LEASE, false)
        };
        let mut wish = Box::new(AcquireRequest::new(
            self.spec.checked_name()?.clone(),
            self.spec.kind(),
            Duration::from_millis(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
        ));
        wish.class = self.spec.metrics().name.clone();
        wish.owner = owner.or(options.owner);
        let outer: Vec<_> = Owner::scopes(handle).into_iter().filter(|outer| Some(*outer) != wish.owner).collect();
        wish.outer = (!outer.is_empty()).then(|| Box::new(OuterOwners(outer)));
        wish.reenter = self.reenter;
        wish.beside = self.beside;
        wish.renewed = renewed;
        wish.max_hold = self.max_hold;
        wish.patience = patience;
        wish.waits_out_outage = self.wait.is_some();
        wish.permits = self.permits;
        if let Some(replicas) = self.replicas {
            wish.replicas = Some(settings::acknowledgements(replicas, lease, handle.settings.fsync)?);
        }
        wish.field.clone_from(&options.field);
        wish.prefer_writers = options.prefer_writers;
        wish.fallback = self.spec.fallback();
        if let Some(linger) = options.linger.filter(|_| renewed) {
            settings::check_linger(linger, lease)?;
            wish.linger = LingerTime::new(linger);
        }
        if wish.fallback != Fallback::Fail && wish.replicas.is_some() {
            return Err(InvalidInput::Contradiction("a lock with a fallback cannot be durable".to_owned()).into());
        }
        if let Some(least) = self.keep_busy_for {
            settings::check_keep_busy(least)?;
            if wish.fallback != Fallback::Fail {
                let why = "a lock with a fallback cannot stay busy after its release".to_owned();
                return Err(InvalidInput::Contradiction(why).into());
            }
        }
        wish.backoff.clone_from(&self.backoff);
        Ok(wish)
    }
}

impl<K: Owned> Acquire<K> {
    /// Acquires the lock as `owner`, which re-enters a lock that it holds. Default: the owner of the scope in which the future is first polled, or a
    /// new owner.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }
}

impl<K: Counted> Acquire<K> {
    /// Acquires this many permits at once: all of them, or none. Default: 1.
    ///
    /// A [`BareSemaphore`](crate::BareSemaphore) only counts permits, and accepts 1 to `i32::MAX`. A [`Semaphore`](crate::Semaphore) accepts
    /// 1 to [`MAX_AT_ONCE`](crate::Semaphore::MAX_AT_ONCE), because the server processes each permit in each acquire and renewal. More
    /// permits fail with [`InvalidInput::TooManyPermits`](crate::InvalidInput::TooManyPermits).
    pub const fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }
}

impl<K: Leased> Acquire<K> {
    /// Sets a fixed lease, which the client does not renew. The lock is lost when the lease ends. The lease is truncated to milliseconds.
    ///
    /// A re-entry never shortens the current lease. Default: the client's lease, renewed until the guard's end.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Limits how long the lock is held. After this time the lock is lost with the reason `MaxHold`, and the client stops renewing its lease. So a
    /// forgotten guard cannot keep the lock. The time starts with the first grant; a re-entry does not change it.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }
}

impl<K: Owned> Acquire<K> {
    /// Grants the lock only after the replicas have acknowledged it, so that a failover to one of these replicas keeps the lock.
    ///
    /// If too few replicas acknowledge the grant, the client rolls it back and returns [`Error::NotReplicated`], regardless of the wait. Re-entries
    /// and renewals have the same condition. A renewal with too few acknowledgements does not extend the deadline, and the client retries until the
    /// lease ends. Releases do not wait. `within` is truncated to milliseconds and may be up to a quarter of the lease. It adds to the command
    /// timeout, even if the lock is busy.
    ///
    /// A lock with a [`fallback`](crate::Lock::fallback) cannot be durable. A durable re-entry fails with [`Error::NotReplicated`] if the owner's
    /// hold was granted without the server, even after the server has confirmed it. Such a re-entry writes nothing that a replica could acknowledge.
    ///
    /// With [`ClientBuilder::fsync`](crate::ClientBuilder::fsync), the acknowledgements are of disks, and the primary's disk is required, too:
    /// then `at_least` may be 0.
    ///
    /// With [`ClientBuilder::fsync`](crate::ClientBuilder::fsync), the acknowledgements are of disks, and the primary's disk is required, too:
    /// then `at_least` may be 0.
    ///
    /// This narrows the window in which a failover loses the lock, but does not close it: `WAIT` is not a consensus
    /// protocol, and a failover may promote a replica without the acknowledged write. See
    /// [docs/safety.md](https://github.com/leasehold/leasehold/blob/main/docs/safety.md).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let server = leasehold::embedded::EmbeddedServer::new();
    /// # server.set_replicas(2);
    /// # let client = leasehold::Client::builder().embedded(&server).unwrap();
    /// use leasehold::Replicas;
    ///
    /// let replicas = Replicas { at_least: 1, within: Duration::from_millis(200) };
    /// let guard = client.lock("ledger").acquire().durable(replicas).await?;
    /// assert!(guard.acknowledged() >= Some(1));
    /// guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub const fn durable(mut self, replicas: Replicas) -> Self {
        self.replicas = Some(replicas);
        self
    }
}

impl<K: Polled> Acquire<K> {
    /// Sets the pauses between attempts at a busy lock. Default: exponential with full jitter, from 2 ms to 128 ms.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(Arc::new(backoff));
        self
    }
}

impl Acquire<Simple> {
    /// Renews the lease until the guard's end, like other kinds.
    pub const fn renewed(mut self) -> Self {
        self.renewed = true;
        self
    }
}

impl<K: LockKind> IntoFuture for Acquire<K> {
    type Output = Result<Guard<K>, Error>;
    type IntoFuture = Acquiring<K>;

    fn into_future(self) -> Acquiring<K> {
        Acquiring(Box::pin(async move {
            let elapsed = || Error::from_acquire(self.spec.name(), Duration::ZERO, AcquireError::WaitElapsed);
            // Only a try returns `None`, and this acquire is not a try.
            match self.run(None).await.and_then(|guard| guard.ok_or_else(elapsed)) {
                Err(Error::WaitElapsed { lock, kind, waited, .. }) => {
                    let waits_for_itself = self.waits_for_itself();
                    // Boxed to keep the future small: this path is rare.
                    let holder = Box::pin(seen::holder(&self.spec)).await;
                    Err(Error::WaitElapsed { lock, kind, waited, holder, waits_for_itself })
                }
                result => result,
            }
        }))
    }
}

/// The future of an [`Acquire`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Acquiring<K: LockKind = Reentrant>(Pin<Box<dyn Future<Output = Result<Guard<K>, Error>> + Send>>);

impl<K: LockKind> Future for Acquiring<K> {
    type Output = Result<Guard<K>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<K: LockKind> std::fmt::Debug for Acquiring<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acquiring").finish_non_exhaustive()
    }
}

impl<K: LockKind> std::fmt::Debug for Acquire<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acquire")
            .field("lock", &self.spec.name())
            .field("wait", &self.wait)
            .field("lease", &self.lease)
            .field("max_hold", &self.max_hold)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}
