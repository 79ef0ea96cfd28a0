//! Acquiring: the builder that a caller sees.

mod keep_busy;
mod watch;

use crate::attempt;
use crate::error::{Error, InvalidInput, WithError};
use crate::guard::Guard;
use crate::inspect::seen;
use crate::kind::{Counted, Durable, Leased, LockKind, Owned, Polled, Reentrant, Simple};
use crate::lock_spec::LockSpec;
use crate::owner::Owner;
use crate::settings;
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
use watch::Watch;

/// A builder for an acquire. Awaiting it acquires the lock.
///
/// It converts into a future: implicitly in `lock.acquire().await`, and explicitly in
/// `tokio::spawn(lock.acquire().into_future())`. The explicit form needs `use std::future::IntoFuture` before edition
/// 2024.
///
/// # Cancel safety
///
/// Dropping the future at any point leaves nothing behind: its place in the line is given up, its command under way is settled, and the
/// background releases a lock that it took, as soon as the server can be reached. A future that is neither polled again nor dropped
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

    /// Waits at most this long while others hold the lock. Then the client makes one last attempt, and returns
    /// [`Error::WaitElapsed`] if it fails. `Duration::MAX` waits without a limit.
    ///
    /// The last attempt takes up to one [`command_timeout`](crate::ClientBuilder::command_timeout), and an attempt that fails and must be
    /// taken back takes up to another one. The client gives up a place in the queue of a fair lock, and the mark of a preferred writer,
    /// before the answer, so that they do not refuse the next try; if the client cannot be sure of that in time, the answer is
    /// [`Error::OutcomeUnknown`]. The question for the holder in the error takes up to one command timeout more.
    ///
    /// During a known outage the acquire also waits for the server: for its whole wait, but at most for
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after). Without its own wait, an acquire fails as soon as
    /// the outage has lasted for `unreachable_after`.
    ///
    /// Default: the client's [`default_wait`](crate::ClientBuilder::default_wait), or as long as it takes.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Acquires as described, runs `work` under the lock, and releases: a caller can neither forget the release nor overlook a loss.
    ///
    /// `work` gets the guard. Once the lock is lost, `work` is not polled again.
    ///
    /// # Errors
    ///
    /// [`WithError`] distinguishes three cases: the lock was not acquired; it was lost (with the result of the work, if
    /// the work had ended); or the release failed (with the result of the work). It converts into [`Error`] by `?`.
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

    /// Sets all at once what another builder has collected.
    pub(crate) fn set_all(&mut self, lease: Option<Duration>, max_hold: Option<Duration>, owner: Option<&Owner>) {
        self.lease = lease;
        self.max_hold = max_hold;
        self.owner = owner.cloned();
    }

    /// Copies the wait of another builder; `None` if its caller set none.
    pub(crate) const fn waits_as(&mut self, wait: Option<Duration>) {
        self.wait = wait;
    }

    /// Takes one half of a read-write lock beside a hold of the other half.
    pub(crate) const fn standing_beside(mut self, hold: HoldNumber) -> Self {
        self.beside = Some(hold);
        self
    }

    /// Takes a lease other than the client's, and renews it.
    pub(crate) const fn renewed_for(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self.renewed = true;
        self
    }

    /// Re-enters this very hold.
    pub(crate) const fn entering(mut self, hold: HoldNumber) -> Self {
        self.reenter = Some(hold);
        self
    }

    /// Acquires, or says that the lock is busy.
    pub(crate) async fn run(&self, patience: Option<Patience>) -> Result<Option<Guard<K>>, Error> {
        let mut watch = Watch::new(&self.spec);
        let begun = self.spec.handle().clock.now_in_process();
        let wish = self.wish(patience)?;
        watch.begin();
        let mut acquiring = attempt::acquire(self.spec.handle(), wish);
        // The span is entered by hand: one future within another would have a second copy of it.
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

    /// Whether a scope around the caller holds the lock. Its own owner would have re-entered it.
    fn waits_for_itself(&self) -> bool {
        let (handle, name) = (self.spec.handle(), self.spec.checked_name());
        let scopes = Owner::scopes(handle);
        !scopes.is_empty() && name.is_ok_and(|name| handle.with(|session, _| session.is_held_by(name, &scopes)))
    }

    /// Checks the request before anything is sent.
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
            settings::check_replicas(replicas, lease)?;
            wish.replicas = Some(replicas);
        }
        wish.field.clone_from(&options.field);
        wish.prefer_writers = options.prefer_writers;
        wish.fallback = self.spec.fallback();
        if let Some(linger) = options.linger.filter(|_| renewed) {
            settings::check_linger(linger, lease)?;
            wish.linger = LingerTime::new(linger);
        }
        if wish.fallback != Fallback::Fail && wish.replicas.is_some() {
            return Err(InvalidInput::Contradiction("a lock that falls back cannot ask for replicas".to_owned()).into());
        }
        if let Some(least) = self.keep_busy_for {
            settings::check_keep_busy(least)?;
            if wish.fallback != Fallback::Fail {
                let why = "a lock that falls back cannot stay busy after its release".to_owned();
                return Err(InvalidInput::Contradiction(why).into());
            }
        }
        wish.backoff.clone_from(&self.backoff);
        Ok(wish)
    }
}

impl<K: Owned> Acquire<K> {
    /// Acquires as `owner`; an owner that holds the lock re-enters it. Default: the owner in whose scope the future is first polled, or
    /// a new owner.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }
}

impl<K: Counted> Acquire<K> {
    /// Takes this many permits at once: all of them, or none. Default: 1.
    ///
    /// A [`BareSemaphore`](crate::BareSemaphore) only counts permits, and allows 1 to `i32::MAX`. A [`Semaphore`](crate::Semaphore) allows
    /// 1 to [`MAX_AT_ONCE`](crate::Semaphore::MAX_AT_ONCE), because the server looks at each permit at each acquire and each renewal.
    /// More are refused with [`InvalidInput::TooManyPermits`](crate::InvalidInput::TooManyPermits).
    pub const fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }
}

impl<K: Leased> Acquire<K> {
    /// Takes the lock for a fixed lease, which is not renewed: the lock is lost when the lease has run out. Whole milliseconds count.
    ///
    /// A re-entry never shortens the lease that the lock has. Default: the client's lease, renewed until the guard's end.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Limits the time for which the lock is held. After this time the lock is lost with the reason `MaxHold`, and its
    /// lease ends, because the client stops renewing it: a forgotten guard cannot keep the lock. The time starts with
    /// the first grant; a re-entry does not change it.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }
}

impl<K: Durable> Acquire<K> {
    /// Grants the lock only after this many replicas have acknowledged it, so that a failover to one of them keeps the
    /// lock.
    ///
    /// If fewer acknowledge it, the client rolls the acquire back and returns [`Error::NotReplicated`], regardless of
    /// the wait. Renewals and re-entries have this condition too: a renewal with too few acknowledgements does not
    /// extend the deadline, and the client retries while the lease lasts. Releases do not wait. `within` is truncated
    /// to milliseconds and may be up to a quarter of the lease; it adds to the command timeout, even if the lock is
    /// busy.
    ///
    /// A lock with a [`fallback`](crate::Lock::fallback) refuses this. A re-entry that asks for replicas ends with
    /// [`Error::NotReplicated`] if another handle was granted the lock without the server for the same owner, also after the server has
    /// granted it: such a re-entry writes nothing that a replica could acknowledge.
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
    /// Sets the pauses between two attempts at a busy lock. Default: exponential with full jitter, from 2 ms to 128 ms.
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
                Err(Error::WaitElapsed { lock, kind, waited, .. }) => {
                    let waits_for_itself = self.waits_for_itself();
                    // Boxed, because it is rare, and a caller that waits has no room for it before.
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
