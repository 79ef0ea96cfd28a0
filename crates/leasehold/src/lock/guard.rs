//! The guard of a held lock.

use crate::background::FLUSH;
use crate::blocking::{is_waited_for, wait};
use crate::client::ids::HolderId;
use crate::client::settings;
use crate::error::Error;
use crate::fence::FencingToken;
use crate::kind::{Counted, Fencing, Leased, LockKind, Movable, Owned, Reentrant};
use crate::lock::Lock;
use crate::lock::acquire::Acquire;
use crate::lock::attempt;
use crate::lock::loss::{HoldToken, Lost};
use crate::lock::spec::LockSpec;
use crate::lock::ticket::Ticket;
use crate::telemetry::{self, InSpan, Outcome, event};
use futures_util::future::{Either, select};
use leasehold_core::error::{HoldEnd, ReleaseError};
use leasehold_core::hold_cell::{EndWatch, HoldCell};
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::Granted;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A hold of a lock by one acquire. A guard can move between tasks and threads.
///
/// The guard's local deadline is earlier than the end of the lease on the server. Its clock also counts suspensions of the machine. If the
/// deadline passes without a renewal, the guard is lost for good, even if a later reply renews the lease.
///
/// # Storing a guard
///
/// Guards of other kinds have the [kind](crate::kind) as a type parameter. Acquires of groups return a
/// [`MultiGuard`](crate::group::MultiGuard) or a [`QuorumGuard`](crate::group::QuorumGuard).
///
/// ```
/// use leasehold::{Guard, kind};
///
/// struct Session {
///     account: Guard<kind::Fenced>,
///     connection: Guard<kind::Permit>,
/// }
/// ```
///
/// # Dropping a guard
///
/// The background releases a dropped guard at once, but does not report whether the lock was lost. Prefer [`Guard::release`].
///
/// The release after a drop needs a running process. Dropping the last handle of a client waits up to 250 ms for the release. **If a client
/// outlives `main`, such as in a `static`, or `main` calls [`std::process::exit`], await [`Client::shutdown`](crate::Client::shutdown) at
/// the end**. Otherwise the lock may stay busy for one lease. Awaiting [`Guard::release`] for each guard suffices if no lock
/// [lingers](crate::Lock::linger) and no acquire was cancelled.
#[must_use = "a guard that is dropped releases its lock at once"]
#[clippy::has_significant_drop]
pub struct Guard<K: LockKind = Reentrant> {
    lock: Lock<K>,
    hold: HoldNumber,
    cell: Arc<HoldCell>,
    renewed: bool,
    /// Whether the drop is a no-op.
    spent: bool,
    /// Whether a thread acquired the guard; its drop then waits for the release.
    waits: bool,
}

impl<K: LockKind> Guard<K> {
    pub(crate) fn new(spec: LockSpec, granted: Granted) -> Self {
        let Granted { hold, cell, renewed, .. } = granted;
        Self { lock: Lock::of(spec), hold, cell, renewed, spent: false, waits: is_waited_for() }
    }

    /// Returns the lock of the guard.
    pub const fn lock(&self) -> &Lock<K> {
        &self.lock
    }

    /// Returns `true` if the lock is certainly held: the client knows of no loss, and the local deadline has not passed.
    pub fn is_held(&self) -> bool {
        self.cell.ended(self.lock.spec().handle().clock.now()).is_none()
    }

    /// Returns the time for which the lock is certainly held without another renewal, or zero for a lost lock.
    pub fn remaining(&self) -> Duration {
        self.cell.remaining(self.lock.spec().handle().clock.now())
    }

    /// Returns the hold count of this guard's owner: 1, plus 1 for each re-entry.
    pub fn hold_count(&self) -> u32 {
        self.cell.count()
    }

    /// Returns the number of replicas that acknowledged the last durable acquire or renewal, or `None` for an acquire without replicas. With
    /// [`ClientBuilder::fsync`](crate::ClientBuilder::fsync), the number includes the primary. See [`Acquire::durable`].
    pub fn acknowledged(&self) -> Option<u32> {
        self.cell.acknowledged()
    }

    /// Returns the time since the first grant of the lock. For a lost lock, the time ends at its local deadline.
    pub fn held_for(&self) -> Duration {
        self.lock.spec().handle().clock.now().min(self.cell.deadline()).since(self.cell.acquired_at())
    }

    /// Returns the holder's id on the server, `uuid:number`, as in [`Holder::id`](crate::inspect::Holder::id). It ends with `~` if the lock may
    /// [linger](Lock::linger).
    pub fn holder_id(&self) -> HolderId {
        String::from_utf8_lossy(&self.cell.field()).into_owned().into()
    }

    /// Completes when the lock is lost, and returns the reason. Without a loss it never completes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn lost(&self) -> Lost {
        let mut watch = EndWatch::new(self.cell.clone());
        poll_fn(|cx| {
            watch.wake_at_end(cx.waker());
            self.loss().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Runs `work` while the lock is held. The guard reads the clock before every poll. Once the lock is lost, it drops `work` and does not
    /// poll it again. A holder that was paused for longer than its lease therefore does not continue.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lock was lost before the work finished. If the last poll outlived the lease, the result of the work is dropped;
    /// [`Lock::with`] keeps it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`; the lock stays held.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let value = self.guarded(work).await?;
        // The lease may have ended during the last poll.
        self.loss().map_or(Ok(value), Err)
    }

    /// Runs `work` like [`Guard::run`], for a caller that detects a loss during the last poll itself.
    pub(crate) async fn guarded<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let span = telemetry::span_of_hold(self.lock.spec(), &self.cell);
        let mut work = pin!(Some(work));
        let mut work = InSpan::new(work.as_mut(), &span);
        let mut watch = EndWatch::new(self.cell.clone());
        poll_fn(|cx| {
            watch.wake_at_end(cx.waker());
            let Some(lost) = self.loss() else { return work.poll(cx).map(Ok) };
            span.record("outcome", "lost");
            Poll::Ready(Err(lost))
        })
        .await
    }

    /// Returns a token for work that runs elsewhere. The token is cancelled when the lock is released, dropped, detached or lost.
    /// [`HoldToken::end`] returns the reason.
    pub fn cancellation_token(&self) -> HoldToken {
        HoldToken::new(&self.cell, &self.lock.spec().handle().clock)
    }

    /// Releases the lock, or decrements its hold count. `Ok` means that the lock was held until the release.
    ///
    /// A release without a command hands the lock over ([`hand_over`](crate::ClientBuilder::hand_over)) or lets it [linger](Lock::linger). In both
    /// cases `Ok` means that the client knew of no loss, and that the deadline had not passed.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost before the release: other holders may have changed the protected data.
    /// [`Error::OutcomeUnknown`] if no reply arrived; [`Error::Unreachable`] if nothing could be sent; [`Error::Refused`] if the server
    /// refused the command. After these three errors the background retries the release.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the release is completed even if the future is dropped; only the result is lost. A future that is
    /// never polled releases the lock like a dropped guard.
    pub async fn release(self) -> Result<(), Error> {
        // Boxed: otherwise the task's future reserves space for the release while it waits for the lock.
        Box::pin(self.released()).await
    }

    async fn released(mut self) -> Result<(), Error> {
        self.spent = true;
        let span = telemetry::span_of_release(self.lock.spec(), &self.cell);
        let (spec, class) = (self.lock.spec(), self.lock.spec().metrics());
        let mut end = GuardEnd { spec, how: &class.dropped, held_for: self.held_for() };
        let mut releasing = attempt::release(spec.handle(), self.hold, self.renewed);
        // Entering the span here avoids a wrapper future, which would double the size of this future.
        let result = poll_fn(|cx| span.in_scope(|| Pin::new(&mut releasing).poll(cx))).await;
        end.how = match &result {
            Ok(()) => &class.released,
            Err(ReleaseError::Lost(_)) => &class.release_lost,
            Err(_) => &class.release_failed,
        };
        span.record("outcome", end.how.word);
        result.map_err(|error| Error::from_release(self.lock.name(), error))
    }

    /// Drops the guard without a release: the client stops renewing the lock for this guard.
    ///
    /// The lock stays busy until its lease ends. Other guards of the same hold stay valid. While the server is unreachable,
    /// [`Fallback::Local`](crate::Fallback::Local) can grant the lock to another task of this client before the lease ends.
    pub fn detach(mut self) {
        self.spent = true;
        let spec = self.lock.spec();
        drop(GuardEnd { spec, how: &spec.metrics().detached, held_for: self.held_for() });
        self.lock.spec().handle().with(|session, now| session.detach(now, self.hold, self.renewed));
    }

    /// Keeps the lock busy for at least this long from now on. The caller ensures that the kind supports this.
    pub(crate) fn keep_busy(&self, least: Duration) {
        self.lock.spec().handle().with(|session, now| session.keep_busy(self.hold, now + least));
    }

    pub(crate) const fn hold(&self) -> HoldNumber {
        self.hold
    }

    pub(crate) const fn cell(&self) -> &Arc<HoldCell> {
        &self.cell
    }

    /// Delegates the release to the background. A thread waits for it briefly, because the process may end with the thread.
    fn give_back(&self) {
        let spec = self.lock.spec();
        let handle = spec.handle();
        if self.waits && handle.background.may_block() && spec.out_of_reach_for().is_none() {
            let releasing = attempt::release(handle, self.hold, self.renewed);
            drop(wait(select(releasing, attempt::pause(handle, FLUSH))));
        } else {
            handle.with(|session, now| session.drop_guard(now, self.hold, self.renewed));
        }
    }

    /// Returns the loss of the lock: a loss that the client knows of, or the passed local deadline.
    fn loss(&self) -> Option<Lost> {
        match self.cell.ended(self.lock.spec().handle().clock.now())? {
            HoldEnd::Lost(reason) => Some(Lost::new(self.lock.name(), reason)),
            _ => None,
        }
    }
}

impl<K: Movable> Guard<K> {
    /// Ends this guard, and returns a ticket with which another process can [adopt](crate::Client::adopt) the held lock, within `life`.
    ///
    /// The lock stays held. This client no longer renews it, and tokens of
    /// this guard are cancelled. An unadopted lock is free after `life`, or after the rest of the current lease if that is longer.
    /// `life` has the limits of a lease and is truncated to milliseconds; [`max_hold`](Acquire::max_hold) of this guard also limits it.
    ///
    /// # Errors
    ///
    /// After every error the guard is gone, and the background releases the lock like that of a dropped guard:
    ///
    /// - [`Error::NotMovable`] if the hold count is not 1, or if the lock is durable, stays busy after its release, or was granted without the
    ///   server;
    /// - [`Error::Lost`] if the lock was lost;
    /// - [`Error::OutcomeUnknown`] if no reply arrived. No process has a ticket then, so no process can adopt the lock;
    /// - [`Error::Unreachable`], [`Error::Refused`] and [`Error::Invalid`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock in the background.
    ///
    /// # Examples
    ///
    /// See [`Ticket`].
    pub async fn into_ticket(mut self, life: Duration) -> Result<Ticket<K>, Error> {
        settings::check_lease(life)?;
        let life = settings::whole_millis(life);
        let spec = self.lock.spec().clone();
        let name = spec.checked_name()?;
        let secret = uuid::Uuid::new_v4().simple().to_string().into();
        self.spent = true;
        drop(GuardEnd { spec: &spec, how: &spec.metrics().detached, held_for: self.held_for() });
        match Box::pin(attempt::offer(spec.handle(), self.hold, self.renewed, life, secret)).await {
            Ok(offered) => Ok(Ticket::new(name.key(), &offered)),
            Err(error) => Err(Error::from_move(spec.name(), error)),
        }
    }
}

impl<K: Owned> Guard<K> {
    /// Returns `true` if the lock was granted without the unreachable server. Such a lock does not exclude other processes. Once the server also
    /// grants the lock, this returns `false`. If the server refuses it, the guard is lost with the reason
    /// [`NotRestored`](crate::LossReason::NotRestored). See [`Fallback`](crate::Fallback).
    pub fn is_degraded(&self) -> bool {
        self.cell.is_degraded()
    }

    /// Acquires the lock again as the same owner.
    ///
    /// Waits for the server, but never for the lock. Only this method can re-enter a lock that was acquired without an owner.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost, and the errors of the server.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`]. The hold count returns to its earlier value.
    pub async fn reenter(&self) -> Result<Self, Error> {
        let mut acquire = Acquire::new(self.lock.spec().clone());
        acquire.reenter = Some(self.hold);
        acquire.wait_for().await
    }
}

impl<K: Leased> Guard<K> {
    /// Sets the lease to at least `lease` from now on, with one command. A lease is never shortened. `lease` is truncated to milliseconds.
    ///
    /// **When to use it:** with a fixed [`lease`](Acquire::lease), if the work takes longer than planned. Without another extension the lock
    /// is lost after `lease`. The client renews a lock without a fixed lease anyway; an extension only bridges a planned outage, such as
    /// the restart of the server. Its later renewals keep the client's lease.
    ///
    /// The extension applies to all guards of the hold. The local deadline is slightly earlier than the end of the lease, as after an acquire,
    /// and a [`max_hold`](Acquire::max_hold) still ends the hold. A [degraded](Guard::is_degraded) hold is extended without the server.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock is lost, before or during the call. [`Error::Invalid`] if `lease` is shorter or longer than a lease may be.
    /// [`Error::Unreachable`], [`Error::OutcomeUnknown`], [`Error::Refused`] and [`Error::NotReplicated`] leave the lock held until its
    /// current [deadline](Guard::remaining); the caller may extend it again.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the server may extend the lease even if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let guard = client.lock("import").acquire().lease(Duration::from_secs(10)).await?;
    /// for _part in 0..3 {
    ///     // Each part of the work has ten seconds.
    ///     guard.extend(Duration::from_secs(10)).await?;
    /// }
    /// assert!(guard.remaining() > Duration::from_secs(9));
    /// guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        settings::check_lease(lease)?;
        let handle = self.lock.spec().handle();
        handle.check_process()?;
        let lease = settings::whole_millis(lease);
        match select(pin!(self.lost()), attempt::extend(handle, self.hold, lease)).await {
            Either::Left((lost, _)) => Err(lost.into()),
            Either::Right((result, _)) => {
                let kind = self.lock.spec().kind_word();
                result.map_err(|error| Error::from_acquire(self.lock.name(), kind, Duration::ZERO, error))
            }
        }
    }

    /// Completes when less than a third of the lease remains, or when the lock is lost.
    ///
    /// The client renews a lease after a third of it, so renewals have failed for another third: the server is
    /// unreachable or refuses them. The work can still save its state, or stop before [`lost`](Guard::lost). [`Guard::remaining`] returns
    /// the rest, or zero if the lock is lost. A later renewal can end the risk; a new call then waits for the next risk.
    ///
    /// Towards the end of a fixed lease or of [`max_hold`](Acquire::max_hold), no renewal has failed: extend the lease, or finish. A
    /// [degraded](Guard::is_degraded) hold that is renewed has no lease to run short.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let guard = client.lock("import").acquire().lease(Duration::from_millis(300)).await?;
    /// tokio::select! {
    ///     () = guard.at_risk() => {
    ///         println!("saves a checkpoint within {:?}", guard.remaining());
    /// #       assert!(guard.remaining() <= Duration::from_millis(100));
    ///     }
    ///     () = std::future::pending() => println!("the work is done"),
    /// }
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn at_risk(&self) {
        let handle = self.lock.spec().handle();
        let runs_short = async {
            loop {
                let third = handle.with(|session, _| session.lease_of(self.hold)) / 3;
                let left = self.remaining().saturating_sub(third);
                if left.is_zero() {
                    return;
                }
                // The deadline may move earlier, for example when the server confirms a degraded hold.
                attempt::pause(handle, left.min(third)).await;
            }
        };
        select(pin!(self.lost()), pin!(runs_short)).await;
    }
}

impl<K: Counted> Guard<K> {
    /// Returns the number of held permits.
    pub fn permits(&self) -> u32 {
        self.cell.permits()
    }
}

impl<K: Fencing> Guard<K> {
    /// Returns the fencing token of this hold. It is below 2^53 and does not change on re-entry. It is greater than the token of every
    /// earlier hold while the server keeps its data. A failover to a server with a slow clock and without the last grants can repeat a
    /// token. The store distinguishes the two by their holders ([`Error::DuplicateToken`](crate::Error::DuplicateToken)).
    ///
    /// Show the token to the store at the first read and at every write. The store must refuse a token below the greatest that it has
    /// seen; see [`fence`](crate::fence).
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::told(self.cell.token().unwrap_or_default())
    }
}

impl<K: LockKind> Drop for Guard<K> {
    fn drop(&mut self) {
        if !self.spent {
            let spec = self.lock.spec();
            drop(GuardEnd { spec, how: &spec.metrics().dropped, held_for: self.held_for() });
            self.give_back();
        }
    }
}

/// Records and logs the end of a guard, regardless of the release's outcome.
struct GuardEnd<'a> {
    spec: &'a LockSpec,
    how: &'a Outcome,
    held_for: Duration,
}

impl Drop for GuardEnd<'_> {
    fn drop(&mut self) {
        self.how.count();
        let class = self.spec.metrics();
        class.held.change(-1.0);
        class.hold_seconds.record(self.held_for);
        event!(
            debug,
            lock = self.spec.name(),
            kind = self.spec.kind_word(),
            outcome = self.how.word,
            held_ms = telemetry::millis(self.held_for),
            "a guard ended"
        );
    }
}

impl<K: LockKind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("lock", &self.lock.name())
            .field("hold_count", &self.hold_count())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use crate::Client;
    use std::time::Duration;

    #[tokio::test]
    async fn callers_have_little_room_for_a_lock() {
        let client = Client::embedded();
        let lock = client.lock("stock");
        let acquire = lock.acquire();
        let acquiring = acquire.run(None);
        assert!(size_of_val(&acquiring) <= 256, "an acquire has {} bytes", size_of_val(&acquiring));
        let guard = acquiring.await.expect("an answer").expect("the lock");
        assert!(size_of_val(&guard) <= 32, "a guard has {} bytes", size_of_val(&guard));
        let releasing = guard.release();
        assert!(size_of_val(&releasing) <= 80, "a release has {} bytes", size_of_val(&releasing));
        releasing.await.expect("a release");
    }

    #[tokio::test(start_paused = true)]
    async fn lock_is_at_risk_with_a_third_of_its_lease_left() {
        let server = crate::embedded::EmbeddedServer::paused();
        let client = Client::builder().embedded(&server).expect("a client");
        let lease = Duration::from_secs(9);
        let fixed = client.lock("fixed").acquire().lease(lease).await.expect("the lock");
        let begun = tokio::time::Instant::now();
        fixed.at_risk().await;
        let margin = leasehold_core::settings::Settings::margin(lease);
        let expected = (lease * 2 / 3).saturating_sub(margin)..=lease * 2 / 3 + Duration::from_millis(2);
        assert!(expected.contains(&begun.elapsed()), "{:?}", begun.elapsed());
        assert!(fixed.is_held());

        let renewed = client.lock("renewed").acquire().await.expect("the lock");
        assert!(tokio::time::timeout(Duration::from_secs(3_600), renewed.at_risk()).await.is_err());
        server.set_down(true);
        renewed.at_risk().await;
        let left = renewed.remaining();
        assert!(left > Duration::from_secs(9) && left <= Duration::from_secs(10), "{left:?} of 30 s");
    }
}
