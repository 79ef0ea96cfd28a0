//! Guards that stand and fall together.

use crate::attempt;
use crate::client_inner::Handle;
use crate::error::{Error, WithError};
use crate::guard::Guard;
use crate::kind::{Any, GroupRule, Majority};
use crate::lock_spec::LockSpec;
use crate::loss::{HoldToken, Lost};
use leasehold_core::error::HoldEnd;
use leasehold_core::hold_cell::EndWatch;
use leasehold_core::time::Instant;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The release of a member.
pub(super) fn release(guard: Guard<Any>) -> Doing<Result<(), Error>> {
    Box::pin(guard.release())
}

/// Guards that stand and fall together: a [`MultiGuard`](crate::group::MultiGuard) of all members, or a
/// [`QuorumGuard`](crate::group::QuorumGuard) of a majority of servers. It is held while *enough* of them are: all, or a majority.
///
/// The server of every member granted it: a group never falls back, so its guard is never
/// [degraded](Guard::is_degraded).
///
/// Dropping it releases every member in the background.
#[must_use = "a guard that is dropped releases its locks at once"]
#[clippy::has_significant_drop]
pub struct GroupGuard<R: GroupRule> {
    name: Arc<str>,
    guards: Vec<Guard<Any>>,
    /// How many are enough.
    needed: usize,
    /// Whose clock counts.
    handle: Arc<Handle>,
    /// Made once, because it stays with the members until they end.
    token: OnceLock<HoldToken>,
    rule: PhantomData<R>,
}

impl<R: GroupRule> GroupGuard<R> {
    pub(super) fn new(name: Arc<str>, guards: Vec<Guard<Any>>, needed: usize, handle: Arc<Handle>) -> Self {
        Self { name, guards, needed, handle, token: OnceLock::new(), rule: PhantomData }
    }

    /// Whether enough members are certainly still held.
    pub fn is_held(&self) -> bool {
        self.ended().is_none()
    }

    /// How long enough members are certainly held even if nothing renews them: for a quorum, the validity time.
    pub fn remaining(&self) -> Duration {
        let now = self.handle.clock.now();
        let mut left: Vec<Duration> = self.guards.iter().map(|guard| guard.cell().remaining(now)).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        self.needed.checked_sub(1).and_then(|last| left.get(last).copied()).unwrap_or_default()
    }

    /// Completes when enough members are not held any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn lost(&self) -> Lost {
        let mut watches = self.watches();
        poll_fn(|cx| {
            wake_at_each(&mut watches, cx.waker());
            self.lost_now().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Runs `work` for as long as enough members are held. See [`Guard::run`].
    ///
    /// # Errors
    ///
    /// [`Lost`], where that ended before the work came to its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`; the members stay held.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let value = self.guarded(work).await?;
        // The last poll may have outlived the lease.
        self.lost_now().map_or(Ok(value), Err)
    }

    /// As [`GroupGuard::run`], for a caller that learns of a loss during the last poll in another way.
    async fn guarded<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let mut work = pin!(work);
        let mut watches = self.watches();
        poll_fn(|cx| {
            wake_at_each(&mut watches, cx.waker());
            match self.lost_now() {
                Some(lost) => Poll::Ready(Err(lost)),
                None => work.as_mut().poll(cx).map(Ok),
            }
        })
        .await
    }

    /// Runs `work` under the group, and releases every member.
    pub(super) async fn with<T>(self, work: impl AsyncFnOnce(&Self) -> T) -> Result<T, WithError<T>> {
        match self.guarded(work(&self)).await {
            Ok(value) => WithError::unless_released(value, self.release().await),
            Err(lost) => Err(WithError::Lost { lock: lost.lock().to_owned(), reason: lost.reason(), value: None }),
        }
    }

    /// A token that is cancelled when so many members have ended, in whatever way, that the others are not enough.
    pub fn cancellation_token(&self) -> HoldToken {
        let cells = || self.guards.iter().map(|guard| guard.cell().clone()).collect();
        self.token.get_or_init(|| HoldToken::of_many(cells(), self.needed, &self.handle.clock)).clone()
    }

    /// Releases every member, each on its own, and says whether enough were held up to that moment.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] where too many had been lost before; else the error of a member, where fewer than enough confirmed the release. The
    /// background releases a lock whose release failed.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, every release is carried out whether it is dropped or not.
    pub async fn release(self) -> Result<(), Error> {
        let lost = self.lost_now();
        let needed = self.needed;
        let enough = |outcomes: &[Option<Result<(), Error>>]| {
            let released = outcomes.iter().filter(|outcome| matches!(outcome, Some(Ok(())))).count();
            if released >= needed { Enough::Yes } else { Enough::No }
        };
        // No caller waits for a server that does not answer: its release goes on without its future.
        let outcomes = most(&self.handle, self.guards.into_iter().map(release), enough).await;
        if let Some(lost) = lost {
            return Err(lost.into());
        }
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        let released = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if released >= needed {
            return Ok(());
        }
        outcomes.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    /// How the group ended; `None` while enough of the guards are held.
    pub(super) fn ended(&self) -> Option<HoldEnd> {
        let now = self.handle.clock.now();
        let mut ends = self.guards.iter().filter_map(|guard| guard.cell().ended(now));
        let spare = self.guards.len() - self.needed;
        ends.nth(spare)
    }

    fn lost_now(&self) -> Option<Lost> {
        match self.ended() {
            Some(HoldEnd::Lost(reason)) => Some(Lost::new(&self.name, reason)),
            _ => None,
        }
    }

    fn watches(&self) -> Vec<EndWatch> {
        self.guards.iter().map(|guard| EndWatch::new(guard.cell().clone())).collect()
    }
}

impl GroupGuard<Majority> {
    /// On how many servers the lock is held at this moment.
    pub fn servers(&self) -> usize {
        let now = self.handle.clock.now();
        self.guards.iter().filter(|guard| guard.cell().ended(now).is_none()).count()
    }
}

impl<R: GroupRule> fmt::Debug for GroupGuard<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupGuard")
            .field("name", &self.name)
            .field("members", &self.guards.len())
            .field("needed", &self.needed)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// Has `waker` woken at each end that is still to come. Those that are past are forgotten: a quorum goes on without a minority.
fn wake_at_each(watches: &mut Vec<EndWatch>, waker: &Waker) {
    watches.retain_mut(|watch| watch.wake_at_end(waker));
}

/// The time limit of a group's acquire while its servers do not answer.
pub(super) struct Reach<'a> {
    handle: &'a Handle,
    /// Whether the caller named the wait itself.
    has_own_wait: bool,
    /// Since when every round has failed.
    failing_since: Option<Instant>,
}

impl<'a> Reach<'a> {
    pub(super) const fn new(handle: &'a Handle, has_own_wait: bool) -> Self {
        Self { handle, has_own_wait, failing_since: None }
    }

    /// The servers answered in a round.
    pub(super) const fn note_answer(&mut self) {
        self.failing_since = None;
    }

    /// A round that began at `begun` failed without an answer. Returns whether the group gives up, because its servers
    /// have been unreachable for too long. That is known from outages of its clients, or from the failed rounds. The
    /// group tolerates `spare` missing servers.
    pub(super) fn gives_up(&mut self, begun: Instant, specs: impl Iterator<Item = LockSpec>, spare: usize) -> bool {
        let since = *self.failing_since.get_or_insert(begun);
        let mut out: Vec<Duration> = specs.filter_map(|spec| spec.out_of_reach_for()).collect();
        out.sort_unstable_by(|one, other| other.cmp(one));
        let known = out.get(spare).copied().filter(|_| !self.has_own_wait).unwrap_or_default();
        known.max(self.handle.clock.now().since(since)) >= self.handle.settings.unreachable_after
    }
}

/// Waits for all futures at once.
pub(super) async fn all<T>(futures: impl Iterator<Item = Doing<T>>) -> Vec<T> {
    let mut gathering = Gathering::new(futures);
    poll_fn(|cx| gathering.poll(cx)).await;
    gathering.values().flatten().collect()
}

/// Waits for all futures at once, but not for long once there is `enough`: then the others have as long again as that took, and 10 ms
/// at the least. Those that are not done by then are dropped.
pub(super) async fn most<T>(
    handle: &Arc<Handle>,
    futures: impl Iterator<Item = Doing<T>>,
    enough: impl Fn(&[Option<T>]) -> Enough,
) -> Vec<Option<T>> {
    let mut gathering = Gathering::new(futures);
    let begun = handle.clock.now();
    let mut grace: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    poll_fn(|cx| {
        if gathering.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match enough(&gathering.values) {
            Enough::No => Poll::Pending,
            Enough::Over => Poll::Ready(()),
            Enough::Yes => {
                let grace = grace.get_or_insert_with(|| {
                    let (handle, again) = (handle.clone(), handle.clock.now().since(begun).max(GRACE));
                    Box::pin(async move { attempt::pause(&handle, again).await })
                });
                grace.as_mut().poll(cx)
            }
        }
    })
    .await;
    gathering.values().collect()
}

/// Whether the values so far are enough.
pub(super) enum Enough {
    No,
    Yes,
    /// A missing answer cannot change anything.
    Over,
}

/// The least time that is left to those who are slower than the others.
const GRACE: Duration = Duration::from_millis(10);

/// A future that is polled beside others.
pub(super) type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Futures that are polled side by side, each until it is done.
struct Gathering<T> {
    futures: Vec<Doing<T>>,
    values: Vec<Option<T>>,
}

impl<T> Gathering<T> {
    fn new(futures: impl Iterator<Item = Doing<T>>) -> Self {
        let futures: Vec<_> = futures.collect();
        let values = futures.iter().map(|_| None).collect();
        Self { futures, values }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for (future, value) in self.futures.iter_mut().zip(&mut self.values) {
            if value.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(cx)
            {
                *value = Some(done);
            }
        }
        if self.values.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn values(self) -> impl Iterator<Item = Option<T>> {
        self.values.into_iter()
    }
}
