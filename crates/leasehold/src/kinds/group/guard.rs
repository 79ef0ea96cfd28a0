//! The guard of several locks.

use super::{Enough, most};
use crate::client::ids::HolderId;
use crate::client::inner::Handle;
use crate::error::{Error, WithError};
use crate::kind::{Any, GroupRule};
use crate::lock::guard::Guard;
use crate::lock::loss::{HoldToken, Lost};
use leasehold_core::error::HoldEnd;
use leasehold_core::hold_cell::EndWatch;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::Duration;

/// A guard of several locks: a [`MultiGuard`](crate::group::MultiGuard) of all members, or a [`QuorumGuard`](crate::group::QuorumGuard) of a majority
/// of servers. It is held while *enough* members are held: all members, or a majority.
///
/// Every member was granted by its server. A group has no fallback, so its guard is never [degraded](Guard::is_degraded).
///
/// Dropping the guard releases every member in the background.
#[must_use = "a guard that is dropped releases its locks at once"]
#[clippy::has_significant_drop]
pub struct GroupGuard<R> {
    name: Arc<str>,
    pub(in crate::kinds) guards: Vec<Guard<Any>>,
    /// The number of guards that must be held.
    needed: usize,
    /// The client whose clock applies.
    handle: Arc<Handle>,
    /// Created once, because the members keep it until they end.
    token: OnceLock<HoldToken>,
    rule: PhantomData<R>,
}

impl<R: GroupRule> GroupGuard<R> {
    pub(in crate::kinds) fn new(name: Arc<str>, guards: Vec<Guard<Any>>, needed: usize, handle: Arc<Handle>) -> Self {
        Self { name, guards, needed, handle, token: OnceLock::new(), rule: PhantomData }
    }

    /// Returns the names of the holds on the servers, one for each acquired member.
    pub fn holder_ids(&self) -> Vec<HolderId> {
        self.guards.iter().map(Guard::holder_id).collect()
    }

    /// Returns `true` if enough members are certainly held.
    pub fn is_held(&self) -> bool {
        self.ended().is_none()
    }

    /// Returns the time for which enough members are certainly held without another renewal. For a quorum lock, this is the validity time.
    pub fn remaining(&self) -> Duration {
        let now = self.handle.clock.now();
        let mut left: Vec<Duration> = self.guards.iter().map(|guard| guard.cell().remaining(now)).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        self.needed.checked_sub(1).and_then(|last| left.get(last).copied()).unwrap_or_default()
    }

    /// Completes when too few members are held, and returns the reason.
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

    /// Runs `work` while enough members are held. See [`Guard::run`].
    ///
    /// # Errors
    ///
    /// [`Lost`] if too few members were held before the work finished.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`; the members stay held.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let value = self.guarded(work).await?;
        // The lease may have ended during the last poll.
        self.lost_now().map_or(Ok(value), Err)
    }

    /// Runs `work` like [`GroupGuard::run`], for a caller that detects a loss during the last poll itself.
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
    pub(in crate::kinds) async fn with<T>(self, work: impl AsyncFnOnce(&Self) -> T) -> Result<T, WithError<T>> {
        match self.guarded(work(&self)).await {
            Ok(value) => WithError::unless_released(value, self.release().await),
            Err(lost) => Err(WithError::Lost { lock: lost.lock().to_owned(), reason: lost.reason(), value: None }),
        }
    }

    /// Returns a token that is cancelled when too few members remain.
    pub fn cancellation_token(&self) -> HoldToken {
        let cells = || self.guards.iter().map(|guard| guard.cell().clone()).collect();
        self.token.get_or_init(|| HoldToken::of_many(cells(), self.needed, &self.handle.clock)).clone()
    }

    /// Releases every member. `Ok` means that enough members were held until the release.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if too many members were lost before; otherwise the error of a member, if too few members confirmed the release. The
    /// background retries failed releases.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, every release is completed even if the future is dropped.
    pub async fn release(self) -> Result<(), Error> {
        let lost = self.lost_now();
        let is_released =
            |outcomes: &[Result<(), Error>]| outcomes.iter().filter(|outcome| outcome.is_ok()).count() >= self.needed;
        let enough = |outcomes: &[_]| if is_released(outcomes) { Enough::Yes } else { Enough::No };
        // No caller waits for a silent server: its release continues without its future.
        let outcomes = most(&self.handle, self.guards.into_iter().map(Guard::release), enough).await;
        match lost {
            Some(lost) => Err(lost.into()),
            None if is_released(&outcomes) => Ok(()),
            None => outcomes.into_iter().find(Result::is_err).unwrap_or(Ok(())),
        }
    }

    /// Returns the end of the group, or `None` while enough guards are held.
    pub(in crate::kinds) fn ended(&self) -> Option<HoldEnd> {
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

impl<R> fmt::Debug for GroupGuard<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupGuard")
            .field("name", &self.name)
            .field("members", &self.guards.len())
            .field("needed", &self.needed)
            .finish_non_exhaustive()
    }
}

/// Wakes `waker` at each future end. Past ends are removed: a quorum continues without a minority.
fn wake_at_each(watches: &mut Vec<EndWatch>, waker: &Waker) {
    watches.retain_mut(|watch| watch.wake_at_end(waker));
}
