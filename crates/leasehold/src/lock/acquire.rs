//! The builder of an acquire.

use crate::client::settings::{self, MAX_LEASE, MIN_LEASE};
use crate::error::{Error, InvalidInput, WithError};
use crate::inspect::seen;
use crate::kind::{Counted, Keepable, Leased, LockKind, Owned, Polled, Reentrant, Simple};
use crate::kinds::read_write::MARK;
use crate::lock::attempt;
use crate::lock::guard::Guard;
use crate::lock::owner::Owner;
use crate::lock::spec::LockSpec;
use crate::telemetry::{self, event};
use leasehold_core::backoff::Backoff;
use leasehold_core::call::Replicas;
use leasehold_core::command::Kind;
use leasehold_core::command::permits::MAX_AT_ONCE;
use leasehold_core::error::AcquireError;
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::{AcquireRequest, Fallback, Granted, LingerTime, OuterOwners, Patience};
use std::future::{IntoFuture, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

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
    pub(crate) wait: Option<Wait>,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) owner: Option<Owner>,
    /// The hold to re-enter.
    pub(crate) reenter: Option<HoldNumber>,
    /// The hold of the other half of a read-write lock.
    pub(crate) beside: Option<HoldNumber>,
    /// Whether the client renews a lease that the program sets.
    pub(crate) renewed: bool,
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
    /// a second command timeout. The rollback also removes the place in the queue of a fair lock, or the mark of a preferred writer, which
    /// would block the next try. If the server does not confirm the rollback in time, the error is [`Error::OutcomeUnknown`]. Looking up the
    /// holder for the error takes up to a third command timeout.
    ///
    /// During a known outage the acquire also waits for the server: for its whole wait, but at most for
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after). Without its own wait, an acquire fails as soon as the outage has
    /// lasted for `unreachable_after`.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(Wait::For(wait));
        self
    }

    /// Limits the wait to the time before `deadline`, such as the deadline of the request that needs the lock. Like
    /// [`wait`](Self::wait), a deadline in the past makes one attempt. The deadline is an instant of tokio's clock; a
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
    pub fn wait_until(mut self, deadline: impl Into<Instant>) -> Self {
        self.wait = Some(Wait::Until(deadline.into()));
        self
    }

    /// Acquires the lock, runs `work` and releases the lock, like [`Lock::with`](crate::Lock::with).
    ///
    /// # Errors
    ///
    /// [`WithError`]; `?` converts it into [`Error`].
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

    /// Acquires the lock. Returns `None` if a try finds it busy.
    pub(crate) async fn run(&self, patience: Option<Patience>) -> Result<Option<Guard<K>>, Error> {
        let begun = self.spec.handle().clock.now_in_process();
        let wish = self.wish(patience)?;
        let watch = Watch::new(&self.spec);
        let mut acquiring = attempt::acquire(self.spec.handle(), wish);
        // Entering the span here avoids a wrapper future, which would double the size of this future.
        let result = poll_fn(|cx| watch.span.in_scope(|| Pin::new(&mut acquiring).poll(cx))).await;
        let waited = self.spec.handle().clock.now_in_process().since(begun);
        watch.end(waited, &result);
        match result {
            Ok(Some(granted)) => {
                let guard = Guard::new(self.spec.clone(), granted);
                self.keep_busy_for.into_iter().for_each(|least| guard.keep_busy(least));
                Ok(Some(guard))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(Error::from_acquire(self.spec.name(), self.spec.kind_word(), waited, error)),
        }
    }

    /// Acquires the lock, and waits while it is busy.
    pub(crate) async fn wait_for(&self) -> Result<Guard<K>, Error> {
        // Only a try returns `None`.
        let (name, kind) = (self.spec.name(), self.spec.kind_word());
        let elapsed = || Error::from_acquire(name, kind, Duration::ZERO, AcquireError::WaitElapsed);
        self.run(None).await?.ok_or_else(elapsed)
    }

    /// Returns whether an enclosing scope holds the lock under another owner.
    fn waits_for_itself(&self) -> bool {
        let (handle, name) = (self.spec.handle(), self.spec.checked_name());
        let scopes = Owner::scopes(handle);
        !scopes.is_empty() && name.is_ok_and(|name| handle.with(|session, _| session.is_held_by(name, &scopes)))
    }

    /// Validates the request and builds it.
    fn wish(&self, patience: Option<Patience>) -> Result<Box<AcquireRequest>, Error> {
        let (handle, kind, options) = (self.spec.handle(), self.spec.kind(), self.spec.options());
        handle.check_process()?;
        let fixed = self.lease.or(options.lease);
        fixed.map_or(Ok(()), settings::check_lease)?;
        if let Some(most) = self.max_hold {
            settings::within("longest hold", most, MIN_LEASE, MAX_LEASE)?;
        }
        let scopes = Owner::scopes(handle);
        let owner = match &self.owner {
            Some(owner) => Some(owner.id_for(handle).ok_or(InvalidInput::ForeignOwner)?),
            None => scopes.first().copied().or_else(|| options.holder.as_ref().map(|holder| holder.1)),
        };
        let patience = patience.unwrap_or_else(|| Patience::Until(handle.end_of_wait(self.wait)));
        if kind == Kind::Permits && self.permits > MAX_AT_ONCE {
            return Err(InvalidInput::TooManyPermits { given: self.permits, most: MAX_AT_ONCE }.into());
        }
        settings::check_permits(self.permits)?;
        let (lease, renewed) = if kind.protocol().renewal().is_some() {
            (fixed.unwrap_or(handle.settings.session.lease), fixed.is_none() || self.renewed)
        } else {
            (settings::NO_LEASE, false)
        };
        let mut wish =
            Box::new(AcquireRequest::new(self.spec.checked_name()?.clone(), kind, settings::whole_millis(lease)));
        wish.class = self.spec.metrics().name.clone();
        let outer: Vec<_> = scopes.into_iter().filter(|outer| Some(*outer) != owner).collect();
        wish.outer = (!outer.is_empty()).then(|| Box::new(OuterOwners(outer)));
        wish.owner = owner;
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
        wish.field = options.holder.as_ref().map(|holder| Box::new(holder.0.clone()));
        wish.prefer_writers = options.prefer_writers.then_some(MARK);
        wish.fallback = self.spec.fallback();
        let millisecond = Duration::from_millis(1);
        if let Some(linger) = options.linger.filter(|_| renewed) {
            // The lease must not need a renewal while the lock lingers.
            settings::within("time for which the lock lingers", linger, millisecond, lease / 3)?;
            wish.linger = LingerTime::new(linger);
        }
        let falls_back = wish.fallback != Fallback::Fail;
        if falls_back && wish.replicas.is_some() {
            return Err(InvalidInput::Contradiction("a lock with a fallback cannot be durable".to_owned()).into());
        }
        if let Some(least) = self.keep_busy_for {
            settings::within("least time for which the lock stays busy", least, millisecond, MAX_LEASE)?;
            if falls_back {
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

    /// Limits how long the lock is held. After this time the lock is lost with the reason `MaxHold`, and the client stops renewing its lease. A
    /// forgotten guard therefore cannot block the lock. The time starts with the first grant; a re-entry does not change it.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }
}

impl<K: Owned> Acquire<K> {
    /// Grants the lock only after replicas have acknowledged it. A failover to one of these replicas keeps the lock.
    ///
    /// If too few replicas acknowledge the grant, the client rolls it back and returns [`Error::NotReplicated`], regardless of the wait. Re-entries
    /// and renewals also need the acknowledgements. A renewal with too few acknowledgements does not extend the deadline, and the client retries until the
    /// lease ends. Releases do not wait. `within` is truncated to milliseconds and may be up to a quarter of the lease. It adds to the command
    /// timeout, even if the lock is busy.
    ///
    /// A lock with a [`fallback`](crate::Lock::fallback) cannot be durable. A durable re-entry fails with [`Error::NotReplicated`] if the owner's
    /// hold was granted without the server, even after the server has confirmed it: the re-entry writes nothing that a replica could acknowledge.
    ///
    /// With [`ClientBuilder::fsync`](crate::ClientBuilder::fsync), disks must acknowledge the grant, including the primary's disk;
    /// `at_least` may then be 0.
    ///
    /// Durability narrows the window in which a failover loses the lock, but does not close it: `WAIT` is not a consensus
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

impl<K: Keepable> Acquire<K> {
    /// Keeps the lock busy for at least this long after the grant. If the guard is released or dropped earlier, the lock stays on the
    /// server for the rest of the time, without a holder and without renewals. The client need not stay alive.
    ///
    /// **When to use it:** for a short job that several processes start at about the same time. No process starts it again before the time is over.
    /// `ShedLock` calls this `lockAtLeastFor`. [`Client::once`](crate::Client::once) builds on it, and also reports the process that ran the job.
    /// **When not:** for an exact rate limit, because the clocks of a process and the server differ.
    ///
    /// The time starts when the caller receives the guard, and is truncated to milliseconds. A re-entry can extend it. A lock that is lost or
    /// [detached](crate::Guard::detach), or whose process dies, is free at the end of its lease. While the lock stays busy, its holder on the server
    /// ends with `!` ([`Holder::is_kept`](crate::inspect::Holder::is_kept)). It is also busy for its former owner. A force release frees it.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::Invalid`] for a time of less than a millisecond or more than
    /// [`MAX_LEASE`], and for a lock with a [`fallback`](crate::Lock::fallback), which cannot exclude other processes.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let report = client.lock("report");
    /// let guard = report.acquire().keep_busy_for(Duration::from_secs(300)).await?;
    /// guard.release().await?; // the job was short
    /// assert!(report.try_acquire().await?.is_none(), "the lock stays busy for five minutes");
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub const fn keep_busy_for(mut self, least: Duration) -> Self {
        self.keep_busy_for = Some(least);
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
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            match self.wait_for().await {
                Err(Error::WaitElapsed { lock, kind, waited, .. }) => {
                    let waits_for_itself = self.waits_for_itself();
                    // Boxed to keep the future small: this path is rare.
                    let holder = Box::pin(seen::holder(&self.spec)).await;
                    Err(Error::WaitElapsed { lock, kind, waited, holder, waits_for_itself })
                }
                result => result,
            }
        })
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

/// The limit of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Measured from the first poll.
    For(Duration),
    /// An instant of tokio's clock, regardless of the client's clock.
    Until(Instant),
}

impl Wait {
    /// Returns the remaining wait at the first poll.
    pub(crate) fn left(self) -> Duration {
        match self {
            Self::For(wait) => wait,
            Self::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
        }
    }
}

/// Counts a running acquire, and records its outcome at its end or drop.
struct Watch<'a> {
    spec: &'a LockSpec,
    outcome: &'a telemetry::Outcome,
    span: telemetry::Span,
}

impl<'a> Watch<'a> {
    fn new(spec: &'a LockSpec) -> Self {
        spec.metrics().waiting.change(1.0);
        Self { spec, outcome: &spec.metrics().cancelled, span: telemetry::span_of_acquire(spec) }
    }

    fn end(mut self, waited: Duration, result: &Result<Option<Granted>, AcquireError>) {
        let class = self.spec.metrics();
        self.outcome = match result {
            Ok(Some(_)) => &class.acquired,
            Ok(None) => &class.busy,
            Err(AcquireError::WaitElapsed) => &class.wait_elapsed,
            Err(_) => &class.failed,
        };
        event!(
            debug,
            lock = self.spec.name(),
            kind = self.spec.kind_word(),
            outcome = self.outcome.word,
            waited_ms = telemetry::millis(waited),
            "an acquire ended"
        );
        self.span.record("waited_ms", telemetry::millis(waited));
        if let Ok(Some(granted)) = result {
            class.acquire_seconds.record(waited);
            class.held.change(1.0);
            if granted.handed_on {
                class.handed_on.add(1);
            }
            telemetry::record_hold(&self.span, &granted.cell);
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.spec.metrics().waiting.change(-1.0);
        self.outcome.count();
        self.span.record("outcome", self.outcome.word);
    }
}
