//! Acquiring: the builder that a caller sees.

use crate::attempt;
use crate::error::{Error, InvalidInput, WithError};
use crate::guard::Guard;
use crate::inspect::seen;
use crate::kind::{Counted, Durable, Leased, LockKind, Owned, Polled, Reentrant, Simple};
use crate::lock_spec::LockSpec;
use crate::owner::Owner;
use crate::settings;
use crate::telemetry;
use leasehold_core::backoff::Backoff;
use leasehold_core::call::Replicas;
use leasehold_core::error::AcquireError;
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::{AcquireRequest, Fallback, Patience};
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tracing::Instrument as _;

/// An acquire that is being described. Awaiting it acquires.
///
/// It is no future itself, but becomes one: `lock.acquire().await`, and where a function asks for a future,
/// `tokio::spawn(lock.acquire().into_future())`, which needs `use std::future::IntoFuture` before the edition of 2024.
///
/// # Cancel safety
///
/// Dropping the future at any point leaves nothing behind: a place in the line is given up, a command that is under way is settled, and a
/// lock that it took is released by the lifeline, as soon as the server can be reached. A future that is neither polled again nor dropped
/// keeps its place and a subscription, and delays other waiters by no more than a moment.
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
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire<K: LockKind = Reentrant> {
    spec: LockSpec,
    wait: Option<Duration>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    owner: Option<Owner>,
    reenter: Option<HoldNumber>,
    beside: Option<HoldNumber>,
    renewed: bool,
    permits: u32,
    backoff: Option<Arc<Backoff>>,
    replicas: Option<Replicas>,
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
            kind: PhantomData,
        }
    }

    /// Waits for at most this long while others hold the lock; then one last attempt is made, and
    /// [`Error::WaitElapsed`] is the answer. `Duration::MAX` waits as long as it takes.
    ///
    /// The last attempt takes up to one [`command_timeout`](crate::ClientBuilder::command_timeout). An attempt that fails and must be
    /// taken back takes up to another one. A place in the queue of a fair lock, and the mark of a writer that is preferred, are given up
    /// before the answer, so that they do not refuse the next try; where that cannot be known in time, the answer is
    /// [`Error::OutcomeUnknown`]. The look at the server that tells the holder in the error takes up to one
    /// command timeout more.
    ///
    /// Default: the client's [`default_wait`](crate::ClientBuilder::default_wait), or as long as it takes.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Acquires as described, runs `work` under the lock, and releases: the release cannot be forgotten, and a loss cannot be overlooked.
    ///
    /// `work` gets the guard, and is not polled again once the lock is lost.
    ///
    /// # Errors
    ///
    /// [`WithError`] tells apart that the lock was not acquired, that it was lost (with what the work returned, if it had come to its end), and that
    /// the release failed (with what the work returned). It converts into [`Error`] by `?`.
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

    /// Says at once what other builders were told.
    pub(crate) fn set_all(&mut self, lease: Option<Duration>, max_hold: Option<Duration>, owner: Option<&Owner>) {
        self.lease = lease;
        self.max_hold = max_hold;
        self.owner = owner.cloned();
    }

    /// Takes one half of a read-write lock beside a hold of the other half.
    pub(crate) const fn standing_beside(mut self, hold: HoldNumber) -> Self {
        self.beside = Some(hold);
        self
    }

    /// Re-enters this very hold.
    pub(crate) const fn entering(mut self, hold: HoldNumber) -> Self {
        self.reenter = Some(hold);
        self
    }

    /// Acquires, or says that the lock is busy.
    pub(crate) async fn run(&self, patience: Option<Patience>) -> Result<Option<Guard<K>>, Error> {
        let class = self.spec.metrics().clone();
        let span = telemetry::span_of_acquire(&self.spec);
        let recorded = span.clone();
        async move {
            let begun = self.spec.handle().clock.now();
            let wish = self.wish(patience)?;
            class.waiting.increment(1.0);
            let mut watch = Watch { class: &class, outcome: &class.cancelled, span: &recorded };
            let result = attempt::acquire(self.spec.handle(), wish).await;
            let waited = self.spec.handle().clock.now().since(begun);
            watch.outcome = match &result {
                Ok(Some(_)) => &class.acquired,
                Ok(None) => &class.busy,
                Err(AcquireError::WaitElapsed) => &class.wait_elapsed,
                Err(_) => &class.failed,
            };
            recorded.record("waited_ms", telemetry::millis(waited));
            drop(watch);
            match result {
                Ok(Some(granted)) => {
                    class.acquire_seconds.record(waited.as_secs_f64());
                    class.held.increment(1.0);
                    telemetry::record_hold(&recorded, &granted.cell);
                    Ok(Some(Guard::new(self.spec.clone(), granted)))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(Error::from_acquire(self.spec.name(), waited, error)),
            }
        }
        .instrument(span)
        .await
    }

    /// Checks what was asked for, before anything is sent.
    fn wish(&self, patience: Option<Patience>) -> Result<AcquireRequest, Error> {
        let handle = self.spec.handle();
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
        let mut wish = AcquireRequest::new(
            self.spec.checked_name()?.clone(),
            self.spec.kind(),
            Duration::from_millis(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
        );
        wish.class = self.spec.metrics().name.clone();
        wish.owner = owner.or(options.owner);
        wish.reenter = self.reenter;
        wish.beside = self.beside;
        wish.renewed = renewed;
        wish.max_hold = self.max_hold;
        wish.patience = patience;
        wish.permits = self.permits;
        if let Some(replicas) = self.replicas {
            settings::check_replicas(replicas, lease)?;
            wish.replicas = Some(replicas);
        }
        wish.field.clone_from(&options.field);
        wish.prefer_writers = options.prefer_writers;
        wish.fallback = self.spec.fallback();
        if wish.fallback != Fallback::Fail && wish.replicas.is_some() {
            return Err(InvalidInput::Contradiction("a lock that falls back cannot ask for replicas".to_owned()).into());
        }
        wish.backoff.clone_from(&self.backoff);
        Ok(wish)
    }
}

impl<K: Owned> Acquire<K> {
    /// Acquires as `owner`, which re-enters a lock that it holds. Default: the owner in whose scope the future is first polled, or
    /// an owner of its own.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }
}

impl<K: Counted> Acquire<K> {
    /// Takes so many permits at once: all of them, or none. Default: 1.
    ///
    /// From 1 to `i32::MAX` of a [`Semaphore`](crate::Semaphore), which only counts them; from 1 to
    /// [`MAX_AT_ONCE`](crate::LeasedSemaphore::MAX_AT_ONCE) of a [`LeasedSemaphore`](crate::LeasedSemaphore), whose permits the server has to
    /// look at one by one, at each acquire and each renewal. More are refused with [`InvalidInput::TooManyPermits`](crate::InvalidInput::TooManyPermits).
    pub const fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }
}

impl<K: Leased> Acquire<K> {
    /// Takes the lock for a fixed lease, which is not renewed: it is lost when the lease has run out. Whole milliseconds count.
    ///
    /// A re-entry never shortens the lease that the lock has. Default: the client's lease, renewed until the guard's end.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Loses the lock, with the reason `MaxHold`, when it has been held for this long: nothing renews it beyond that, so its lease
    /// ends then, even if the guard was forgotten. It counts from the first grant; on a re-entry it has no effect.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }
}

impl<K: Durable> Acquire<K> {
    /// Acquires only what so many replicas have acknowledged, so that a failover to one of them keeps the lock.
    ///
    /// An acquire that fewer acknowledge is taken back, and [`Error::NotReplicated`] is the answer, whatever the wait. The renewals of
    /// the lock, and its re-entries, are under the same condition: a renewal that falls short does not put the deadline off, and is
    /// tried again while the lease lasts. Releases do not wait. Whole milliseconds count, and `within` may be up to a quarter of the
    /// lease; it comes on top of the command timeout, also where the lock is found busy.
    ///
    /// A handle that falls back ([`Lock::fallback`](crate::Lock::fallback)) refuses it. A re-entry that asks for replicas ends with
    /// [`Error::NotReplicated`] if the same owner was granted the lock without the server, by another handle, also after the server has
    /// granted the lock: such a re-entry writes nothing that a replica could acknowledge.
    ///
    /// It narrows the window in which a failover loses the lock, and does not close it: `WAIT` is no consensus, and a failover may promote
    /// a replica that has not acknowledged. See `docs/safety.md`.
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
    /// How long to leave a busy lock alone between two attempts. Default: exponential with full jitter, from 2 ms to 128 ms.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(Arc::new(backoff));
        self
    }
}

impl Acquire<Simple> {
    /// Renews the lease until the guard's end, as the other kinds do.
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
            let waited = self.wait.unwrap_or_default();
            let elapsed = || Error::from_acquire(self.spec.name(), waited, AcquireError::WaitElapsed);
            // Only a try is told that the lock is busy, and this is none.
            match self.run(None).await.and_then(|guard| guard.ok_or_else(elapsed)) {
                Err(Error::WaitElapsed { lock, waited, .. }) => {
                    Err(Error::WaitElapsed { lock, waited, holder: seen::holder(&self.spec).await })
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

/// Counts an acquire when it ends, or is dropped, and records how.
struct Watch<'a> {
    class: &'a telemetry::Class,
    outcome: &'a telemetry::Outcome,
    span: &'a tracing::Span,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.class.waiting.decrement(1.0);
        self.outcome.count();
        self.span.record("outcome", self.outcome.word);
    }
}
