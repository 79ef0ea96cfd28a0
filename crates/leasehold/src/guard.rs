//! The guard of a lock that is held.

use crate::acquire::Acquire;
use crate::attempt;
use crate::background::FLUSH;
use crate::blocking::{is_waited_for, wait};
use crate::error::Error;
use crate::fence::FencingToken;
use crate::ids::HolderId;
use crate::kind::{Counted, Fencing, LockKind, Owned, Reentrant};
use crate::lock::Lock;
use crate::lock_spec::LockSpec;
use crate::loss::{HoldToken, Lost};
use crate::telemetry::{self, Class, InSpan, Outcome};
use futures_util::future::select;
use leasehold_core::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use leasehold_core::hold_cell::{EndWatch, HoldCell};
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::Granted;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// One acquire of a lock that is held. A guard borrows nothing, and can be moved between tasks and threads.
///
/// The guard knows whether the lock is still held. It has a local deadline, which lies before the end of the lease on the server, on a
/// clock that also counts while the machine is suspended. If the deadline passes without a renewal, the guard is lost, whatever
/// a later reply says.
///
/// # Storing it
///
/// `Guard` is the guard of a [`Lock`]. The guard of another kind names its [kind](crate::kind):
///
/// | lock | guard |
/// |---|---|
/// | [`FairLock`](crate::FairLock), [`FencedLock`](crate::FencedLock), [`SpinLock`](crate::SpinLock), … | `Guard<kind::Fair>`, `Guard<kind::Fenced>`, `Guard<kind::Spin>`, … |
/// | [`Semaphore`](crate::Semaphore), [`BareSemaphore`](crate::BareSemaphore) | `Guard<kind::Permit>`, `Guard<kind::Counter>` |
/// | [`AnyLock`](crate::AnyLock) | `Guard<kind::Any>` |
/// | [`MultiLock`](crate::MultiLock), [`QuorumLock`](crate::QuorumLock) | [`MultiGuard`](crate::group::MultiGuard), [`QuorumGuard`](crate::group::QuorumGuard) |
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
/// # Dropping it
///
/// The background releases a dropped guard at once, and its owner does not learn whether the lock had been lost. Prefer
/// [`Guard::release`].
///
/// The release after a drop needs a running process. Dropping the last handle of a client waits up to 250 ms for the
/// release. **If a client outlives `main`, such as in a `static`, or `main` calls [`std::process::exit`], await
/// [`Client::shutdown`](crate::Client::shutdown) at the end**. Otherwise the lock may stay busy for one lease.
/// If no lock [lingers](crate::Lock::linger) and no acquire was cancelled, awaiting [`Guard::release`] for each guard
/// suffices.
#[must_use = "a guard that is dropped releases its lock at once"]
#[clippy::has_significant_drop]
pub struct Guard<K: LockKind = Reentrant> {
    lock: Lock<K>,
    hold: HoldNumber,
    cell: Arc<HoldCell>,
    renewed: bool,
    /// The work of the guard's drop has been done already.
    spent: bool,
    /// A thread acquired it, so dropping it waits for the release.
    waits: bool,
}

impl<K: LockKind> Guard<K> {
    pub(crate) fn new(spec: LockSpec, granted: Granted) -> Self {
        let Granted { hold, cell, renewed, .. } = granted;
        Self { lock: Lock::of(spec), hold, cell, renewed, spent: false, waits: is_waited_for() }
    }

    /// The lock that is held.
    pub const fn lock(&self) -> &Lock<K> {
        &self.lock
    }

    /// Whether the lock is certainly still held: its local deadline has not passed, and it is not known to be lost.
    pub fn is_held(&self) -> bool {
        self.cell.ended(self.lock.spec().handle().clock.now()).is_none()
    }

    /// How long the lock is certainly held without another renewal; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.cell.remaining(self.lock.spec().handle().clock.now())
    }

    /// How often the lock is held by this guard's owner: 1, and 1 more for each re-entry.
    pub fn hold_count(&self) -> u32 {
        self.cell.count()
    }

    /// How many replicas acknowledged the last acquire or renewal that counted; `None` where no replica was asked. See
    /// [`Acquire::durable`].
    pub fn acknowledged(&self) -> Option<u32> {
        self.cell.acknowledged()
    }

    /// Time since the first grant of the lock. For a lost lock, the time until its local deadline.
    pub fn held_for(&self) -> Duration {
        self.lock.spec().handle().clock.now().min(self.cell.deadline()).since(self.cell.acquired_at())
    }

    /// The holder's name on the server: `uuid:number`, with a `~` at its end where the lock may [linger](Lock::linger), as [`Holder::id`](crate::inspect::Holder::id) shows it to others.
    pub fn holder_id(&self) -> HolderId {
        String::from_utf8_lossy(&self.cell.field()).into_owned().into()
    }

    /// Completes when the lock is lost, and gives the reason. The future never completes otherwise.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind. It can be called any number of times.
    pub async fn lost(&self) -> Lost {
        let mut watch = EndWatch::new(self.cell.clone());
        poll_fn(|cx| {
            watch.wake_at_end(cx.waker());
            match self.cell.ended(self.lock.spec().handle().clock.now()) {
                Some(HoldEnd::Lost(reason)) => Poll::Ready(self.lost_by(reason)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Runs `work` while the lock is held. The guard reads the clock before every poll; once the lock is lost, it drops
    /// `work` and does not poll it again. So a holder that was paused for longer than its lease does not continue.
    ///
    /// # Errors
    ///
    /// [`Lost`], with the reason, where the lock was lost before the work ended. If the last poll outlived the lease, the result of the
    /// work is dropped; [`Lock::with`] keeps it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`; the lock stays held.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let value = self.guarded(work).await?;
        // The last poll may have outlived the lease.
        match self.cell.ended(self.lock.spec().handle().clock.now()) {
            Some(HoldEnd::Lost(reason)) => Err(self.lost_by(reason)),
            _ => Ok(value),
        }
    }

    /// As [`Guard::run`], for a caller that learns of a loss during the last poll in another way.
    pub(crate) async fn guarded<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let span = telemetry::span_of_hold(self.lock.spec(), &self.cell);
        let mut work = pin!(Some(work));
        let mut work = InSpan::new(work.as_mut(), &span);
        let mut watch = EndWatch::new(self.cell.clone());
        poll_fn(|cx| {
            watch.wake_at_end(cx.waker());
            match self.cell.ended(self.lock.spec().handle().clock.now()) {
                Some(HoldEnd::Lost(reason)) => {
                    span.record("outcome", "lost");
                    Poll::Ready(Err(self.lost_by(reason)))
                }
                _ => work.poll(cx).map(Ok),
            }
        })
        .await
    }

    /// Returns a token for work that runs elsewhere. The token is cancelled when the lock is released, dropped,
    /// detached or lost; [`HoldToken::end`] returns the reason.
    pub fn cancellation_token(&self) -> HoldToken {
        HoldToken::new(&self.cell, &self.lock.spec().handle().clock)
    }

    /// Releases the lock, or lowers its hold count. `Ok` means that the lock was held until then.
    ///
    /// A release without a command knows less: it hands the lock over ([`hand_over`](crate::ClientBuilder::hand_over)),
    /// or lets it [linger](Lock::linger). Then `Ok` means that the guard had no known loss, and that its lease had not
    /// ended.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] where the lock had been lost before: others may have changed the protected data.
    /// [`Error::OutcomeUnknown`] where no reply came; [`Error::Unreachable`] where nothing could be sent;
    /// [`Error::Refused`] where the server would not lower the count. After these three the background repeats the release.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the release is carried out even if the future is dropped; only the answer is lost.
    /// A future that is never polled releases as a dropped guard does.
    pub async fn release(self) -> Result<(), Error> {
        // Boxed, because a task that waits for the lock would have room for all of the release from its beginning.
        Box::pin(self.released()).await
    }

    async fn released(mut self) -> Result<(), Error> {
        self.spent = true;
        let span = telemetry::span_of_release(self.lock.spec(), &self.cell);
        let class = self.lock.spec().metrics();
        let mut end = GuardEnd { class, how: &class.dropped, held_for: self.held_for() };
        let mut releasing = attempt::release(self.lock.spec().handle(), self.hold, self.renewed);
        // The span is entered by hand: one future within another would have a second copy of it.
        let result = poll_fn(|cx| span.in_scope(|| Pin::new(&mut releasing).poll(cx))).await;
        end.how = match &result {
            Ok(()) => &class.released,
            Err(ReleaseError::Lost(_)) => &class.release_lost,
            Err(_) => &class.release_failed,
        };
        span.record("outcome", end.how.word);
        result.map_err(|error| Error::from_release(self.lock.name(), error))
    }

    /// Drops the guard without a release: the client no longer renews the lock for this guard, and the lease expires.
    ///
    /// The lock stays busy until then, for at most one lease. Other guards of the same hold stay valid. While the server
    /// is unreachable, [`Fallback::Local`](crate::Fallback::Local) can grant the lock to another task of this client
    /// before the lease ends.
    pub fn detach(mut self) {
        self.spent = true;
        let class = self.lock.spec().metrics();
        drop(GuardEnd { class, how: &class.detached, held_for: self.held_for() });
        self.lock.spec().handle().with(|session, now| session.detach(now, self.hold, self.renewed));
    }

    /// Keeps the lock busy for so long from now on, however soon this guard goes. The callers know that the kind can do that.
    pub(crate) fn keep_busy(&self, least: Duration) {
        self.lock.spec().handle().with(|session, now| session.keep_busy(self.hold, now + least));
    }

    /// The hold, for what this crate builds on guards.
    pub(crate) const fn hold(&self) -> HoldNumber {
        self.hold
    }

    pub(crate) const fn cell(&self) -> &Arc<HoldCell> {
        &self.cell
    }

    /// Leaves the release to the background. A thread waits for it briefly, because the process may end with the
    /// thread.
    fn give_back(&self) {
        let spec = self.lock.spec();
        let handle = spec.handle();
        if self.waits && handle.background.may_block() && spec.out_of_reach_for().is_none() {
            let releasing = attempt::release(handle, self.hold, self.renewed);
            drop(wait(select(releasing, pin!(attempt::pause(handle, FLUSH)))));
        } else {
            handle.with(|session, now| session.drop_guard(now, self.hold, self.renewed));
        }
    }

    fn lost_by(&self, reason: LossReason) -> Lost {
        Lost::new(self.lock.name(), reason)
    }
}

impl<K: Owned> Guard<K> {
    /// Whether the lock was granted without the server, which is out of reach: other processes are not excluded. Once the server is back
    /// and grants the lock, too, the answer is no; if the server refuses, the guard is lost with the reason
    /// [`NotRestored`](crate::LossReason::NotRestored). See [`Fallback`](crate::Fallback).
    pub fn is_degraded(&self) -> bool {
        self.cell.is_degraded()
    }

    /// Takes the lock once more, as the same owner.
    ///
    /// This waits for the server, and never for the lock, which is held already. For a lock that was acquired without an owner it is the
    /// only way to re-enter.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] where the lock was lost, and those of the server.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`]: the hold count goes back to what it was.
    pub async fn reenter(&self) -> Result<Self, Error> {
        let acquire = Acquire::new(self.lock.spec().clone()).entering(self.hold);
        let guard = acquire.run(None).await?;
        guard.ok_or_else(|| Error::from_acquire(self.lock.name(), Duration::ZERO, AcquireError::WaitElapsed))
    }
}

impl<K: Counted> Guard<K> {
    /// How many permits are held.
    pub fn permits(&self) -> u32 {
        self.cell.permits()
    }
}

impl<K: Fencing> Guard<K> {
    /// The fencing token of this hold. It is below 2^53, does not change on re-entry, and is greater than the token of
    /// every earlier hold while the server keeps its data. A failover to a server with a slow clock and without the
    /// last grants can repeat a token: the store distinguishes the two by their holders
    /// ([`Error::DuplicateToken`](crate::Error::DuplicateToken)).
    ///
    /// Show the token to the store at the first read as well as at every write, and have the store refuse a token that is lower than the
    /// greatest it has seen; see [`fence`](crate::fence).
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::told(self.cell.token().unwrap_or_default())
    }
}

impl<K: LockKind> Drop for Guard<K> {
    fn drop(&mut self) {
        if !self.spent {
            let class = self.lock.spec().metrics();
            drop(GuardEnd { class, how: &class.dropped, held_for: self.held_for() });
            self.give_back();
        }
    }
}

/// Counts the end of a guard, however its release ends.
struct GuardEnd<'a> {
    class: &'a Class,
    how: &'a Outcome,
    held_for: Duration,
}

impl Drop for GuardEnd<'_> {
    fn drop(&mut self) {
        self.how.count();
        self.class.held.change(-1.0);
        self.class.hold_seconds.record(self.held_for);
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
}
