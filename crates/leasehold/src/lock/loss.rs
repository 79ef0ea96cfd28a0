//! The end of a hold: the error of a loss, and the cancellation token.

use crate::runtime::clock::Clock;
use leasehold_core::error::{HoldEnd, LossReason};
use leasehold_core::hold_cell::{EndWatch, HoldCell};
use leasehold_core::time::Instant;
use std::sync::Arc;
use std::task::{Wake, Waker};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// The loss of a held lock.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", crate::error::lost_text(lock, *reason))]
pub struct Lost {
    lock: String,
    reason: LossReason,
}

impl Lost {
    pub(crate) fn new(lock: &str, reason: LossReason) -> Self {
        Self { lock: lock.to_owned(), reason }
    }

    /// Returns the name of the lock.
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// Returns the reason of the loss.
    pub const fn reason(&self) -> LossReason {
        self.reason
    }
}

impl From<Lost> for crate::Error {
    fn from(lost: Lost) -> Self {
        Self::Lost { lock: lost.lock, reason: lost.reason }
    }
}

/// A token that is cancelled when a lock is released, dropped, detached or lost. [`HoldToken::end`] returns the reason.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let guard = client.lock("report").acquire().await?;
/// let token = guard.cancellation_token();
/// let job = tokio::spawn(async move { token.cancelled().await });
/// guard.release().await?;
/// assert_eq!(job.await.unwrap(), leasehold::HoldEnd::Released);
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct HoldToken {
    token: CancellationToken,
    cells: Cells,
    clock: Clock,
}

/// The holds of a token, and the required number of live holds.
#[derive(Clone, Debug)]
struct Cells {
    cells: Arc<[Arc<HoldCell>]>,
    needed: usize,
}

impl Cells {
    /// Returns the common end of the holds, or `None` while enough of them are held.
    fn ended(&self, now: Instant) -> Option<HoldEnd> {
        self.cells.iter().filter_map(|cell| cell.ended(now)).nth(self.cells.len() - self.needed)
    }
}

impl HoldToken {
    pub(crate) fn new(cell: &Arc<HoldCell>, clock: &Clock) -> Self {
        let cells = Cells { cells: [cell.clone()].into(), needed: 1 };
        let new = || cancelled_at_end(&cells);
        // All guards and tokens of the hold share one token.
        let token = cell.attachment(new).cloned().unwrap_or_else(new);
        Self { token, cells, clock: clock.clone() }
    }

    /// Creates a token that is cancelled when fewer than `needed` holds remain.
    pub(crate) fn of_many(cells: Vec<Arc<HoldCell>>, needed: usize, clock: &Clock) -> Self {
        let cells = Cells { cells: cells.into(), needed };
        Self { token: cancelled_at_end(&cells), cells, clock: clock.clone() }
    }

    /// Completes when the hold has ended, and returns the reason.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn cancelled(&self) -> HoldEnd {
        self.token.cancelled().await;
        self.end().unwrap_or(HoldEnd::Released)
    }

    /// Returns `true` if the hold has ended. This reads the clock, like [`Guard::is_held`](crate::Guard::is_held).
    pub fn is_cancelled(&self) -> bool {
        self.end().is_some()
    }

    /// Returns `true` if the lock was granted without the server, and did not exclude other processes. See
    /// [`Guard::is_degraded`](crate::Guard::is_degraded).
    pub fn is_degraded(&self) -> bool {
        self.cells.cells.iter().any(|cell| cell.is_degraded())
    }

    /// Returns the reason of the end, or `None` while the lock is held.
    pub fn end(&self) -> Option<HoldEnd> {
        self.cells.ended(self.clock.now())
    }

    /// Returns a plain cancellation token, for code without locks. The background cancels it. It reads no clock, so after a pause of the
    /// whole process it may be late. Cancelling this token affects neither the lock nor other tokens. A dropped token frees its memory:
    /// a long-running task can create a token for each of its steps.
    pub fn token(&self) -> CancellationToken {
        self.token.child_token()
    }
}

impl From<HoldToken> for CancellationToken {
    fn from(token: HoldToken) -> Self {
        token.token()
    }
}

/// Creates a token that is cancelled when the holds end. The holds store the token until then.
fn cancelled_at_end(cells: &Cells) -> CancellationToken {
    let token = CancellationToken::new();
    let waker = Waker::from(Arc::new(CancelAtEnd(token.clone(), cells.clone())));
    for cell in cells.cells.iter() {
        let mut watch = EndWatch::new(cell.clone());
        if !watch.wake_at_end(&waker) {
            waker.wake_by_ref();
        }
        watch.keep();
    }
    token
}

/// A waker that cancels a token.
struct CancelAtEnd(CancellationToken, Cells);

impl Wake for CancelAtEnd {
    fn wake(self: Arc<Self>) {
        // Time zero selects the holds with a recorded end. Expired deadlines are checked by readers of the token.
        if self.1.ended(Instant::default()).is_some() {
            self.0.cancel();
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::Client;

    #[tokio::test]
    async fn tokens_that_are_dropped_leave_nothing_with_their_hold() {
        let client = Client::embedded();
        let lock = client.lock("stock");
        let guard = lock.acquire().await.expect("the lock");
        for _ in 0..1_000 {
            let inner = guard.reenter().await.expect("a re-entry");
            drop([guard.cancellation_token().token(), inner.cancellation_token().into()]);
        }
        assert_eq!(guard.cell().watchers(), 1, "one for all tokens of the hold");
        let (kept, by_hand) = (guard.cancellation_token().token(), guard.cancellation_token().token());
        by_hand.cancel();
        assert!(!kept.is_cancelled() && guard.is_held());
        guard.release().await.expect("a release");
        assert!(kept.is_cancelled());
    }

    #[tokio::test]
    async fn a_token_of_a_hold_that_has_ended_does_not_keep_it() {
        let client = Client::embedded();
        let guard = client.lock("stock").acquire().await.expect("the lock");
        let (cell, token) = (Arc::downgrade(guard.cell()), guard.cancellation_token());
        guard.release().await.expect("a release");
        for _ in 0..10 {
            assert!(token.token().is_cancelled());
        }
        let other = HoldToken::of_many(token.cells.cells.to_vec(), 1, &token.clock);
        assert!(other.token().is_cancelled());
        drop((token, other));
        assert_eq!(cell.strong_count(), 0, "the hold is gone");
    }
}
