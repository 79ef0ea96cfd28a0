//! Guards that stand and fall together.

use crate::clock::Clock;
use crate::error::Error;
use crate::guard::Guard;
use crate::kind::LockKind;
use crate::loss::{HoldToken, Lost};
use leasehold_core::error::HoldEnd;
use leasehold_core::hold_cell::{EndWatch, HoldCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A guard of whatever kind, as a member of a group.
pub(super) trait AnyGuard: Send + Sync {
    fn cell(&self) -> &Arc<HoldCell>;
    fn release(self: Box<Self>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;
}

impl<K: LockKind> AnyGuard for Guard<K> {
    fn cell(&self) -> &Arc<HoldCell> {
        self.cell()
    }

    fn release(self: Box<Self>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {
        Box::pin((*self).release())
    }
}

/// Guards of which at least `needed` must be held, or all are as good as lost.
pub(super) struct Group {
    name: Arc<str>,
    guards: Vec<Box<dyn AnyGuard>>,
    needed: usize,
    clock: Clock,
}

impl Group {
    pub(super) fn new(name: Arc<str>, guards: Vec<Box<dyn AnyGuard>>, needed: usize, clock: Clock) -> Self {
        Self { name, guards, needed, clock }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How many of the guards are held.
    pub(super) fn held(&self) -> usize {
        let now = self.clock.now();
        self.guards.iter().filter(|guard| guard.cell().ended(now).is_none()).count()
    }

    /// How long enough of the guards are certainly held even if nothing renews them.
    pub(super) fn remaining(&self) -> Duration {
        let now = self.clock.now();
        let mut left: Vec<Duration> = self.guards.iter().map(|guard| guard.cell().remaining(now)).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        self.needed.checked_sub(1).and_then(|last| left.get(last).copied()).unwrap_or_default()
    }

    /// How the group ended; `None` while enough of the guards are held.
    pub(super) fn ended(&self) -> Option<HoldEnd> {
        let now = self.clock.now();
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

    pub(super) async fn lost(&self) -> Lost {
        let mut watches = self.watches();
        poll_fn(|cx| {
            watches.iter_mut().for_each(|watch| watch.wake_at_end(cx.waker()));
            self.lost_now().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let mut work = pin!(work);
        let mut watches = self.watches();
        let value = poll_fn(|cx| {
            watches.iter_mut().for_each(|watch| watch.wake_at_end(cx.waker()));
            match self.lost_now() {
                Some(lost) => Poll::Ready(Err(lost)),
                None => work.as_mut().poll(cx).map(Ok),
            }
        })
        .await?;
        // The last poll may have outlived the lease.
        self.lost_now().map_or(Ok(value), Err)
    }

    pub(super) fn cancellation_token(&self) -> HoldToken {
        let cells = self.guards.iter().map(|guard| guard.cell().clone()).collect();
        HoldToken::of_many(cells, self.needed, &self.clock)
    }

    /// Releases every guard, each on its own, and says whether the group was held up to that moment.
    pub(super) async fn release(self) -> Result<(), Error> {
        let lost = self.lost_now();
        let needed = self.needed;
        let outcomes = all(self.guards.into_iter().map(AnyGuard::release)).await;
        if let Some(lost) = lost {
            return Err(lost.into());
        }
        let released = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if released >= needed {
            return Ok(());
        }
        outcomes.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }
}

/// Waits for all futures at once.
pub(super) async fn all<T>(futures: impl Iterator<Item = Pin<Box<dyn Future<Output = T> + Send>>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(|future| (future, None)).collect();
    poll_fn(|cx| {
        for (future, value) in &mut futures {
            if value.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(cx)
            {
                *value = Some(done);
            }
        }
        if futures.iter().all(|(_, value)| value.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, value)| value).collect()
}
