//! Losing a lock, as a value and as a token.

use crate::clock::Clock;
use leasehold_core::error::{HoldEnd, LossReason};
use leasehold_core::hold_cell::{EndWatch, HoldCell};
use leasehold_core::time::Instant;
use std::sync::Arc;
use std::task::{Wake, Waker};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// A lock was lost while it was held.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the lock {lock:?} was lost: {reason}; what it protected may have been changed by others")]
pub struct Lost {
    lock: String,
    reason: LossReason,
}

impl Lost {
    pub(crate) fn new(lock: &str, reason: LossReason) -> Self {
        Self { lock: lock.to_owned(), reason }
    }

    /// The name of the lock.
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// Why it was lost.
    pub const fn reason(&self) -> LossReason {
        self.reason
    }
}

impl From<Lost> for crate::Error {
    fn from(lost: Lost) -> Self {
        Self::Lost { lock: lost.lock, reason: lost.reason }
    }
}

/// A token that is cancelled when a lock ends: released, dropped, detached or lost. It keeps which.
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
    /// Taken back with the last clone.
    _watch: Arc<[EndWatch]>,
}

/// The holds that a token is about, and how many of them must be held.
#[derive(Clone, Debug)]
struct Cells {
    cells: Arc<[Arc<HoldCell>]>,
    needed: usize,
}

impl Cells {
    /// How the holds ended together; `None` while enough of them are held.
    fn ended(&self, now: Instant) -> Option<HoldEnd> {
        self.cells.iter().filter_map(|cell| cell.ended(now)).nth(self.cells.len() - self.needed)
    }
}

impl HoldToken {
    pub(crate) fn new(cell: &Arc<HoldCell>, clock: &Clock) -> Self {
        Self::of_many(vec![cell.clone()], 1, clock)
    }

    /// A token that is cancelled when fewer than `needed` of the holds are left.
    pub(crate) fn of_many(cells: Vec<Arc<HoldCell>>, needed: usize, clock: &Clock) -> Self {
        let cells = Cells { cells: cells.into(), needed };
        let (token, watch) = cancelled_at_end(&cells);
        Self { token, cells, clock: clock.clone(), _watch: watch.into() }
    }

    /// Completes when the lock has ended, and says how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn cancelled(&self) -> HoldEnd {
        self.token.cancelled().await;
        self.end().unwrap_or(HoldEnd::Released)
    }

    /// Whether the lock has ended. It looks at the clock, as [`Guard::is_held`](crate::Guard::is_held) does.
    pub fn is_cancelled(&self) -> bool {
        self.end().is_some()
    }

    /// How the lock has ended; `None` while it is held.
    pub fn end(&self) -> Option<HoldEnd> {
        self.cells.ended(self.clock.now())
    }

    /// A plain token, for code that knows nothing of locks. It is cancelled by the lifeline, and asks no clock: after a pause of the
    /// whole process it may be a moment late. Cancelling it by hand does nothing to the lock. Some bytes for it stay with the hold until
    /// that ends.
    pub fn token(&self) -> CancellationToken {
        let (token, watches) = cancelled_at_end(&self.cells);
        watches.into_iter().for_each(EndWatch::keep);
        token
    }
}

impl From<HoldToken> for CancellationToken {
    fn from(token: HoldToken) -> Self {
        token.token()
    }
}

/// A token that is cancelled when the holds end, for as long as the watches live or if they are kept.
fn cancelled_at_end(cells: &Cells) -> (CancellationToken, Vec<EndWatch>) {
    let token = CancellationToken::new();
    let waker = Waker::from(Arc::new(CancelAtEnd(token.clone(), cells.clone())));
    let watches = cells.cells.iter().map(|cell| {
        let mut watch = EndWatch::new(cell.clone());
        if !watch.wake_at_end(&waker) {
            waker.wake_by_ref();
        }
        watch
    });
    let watches = watches.collect();
    (token, watches)
}

/// Cancels a token where others would wake a task.
struct CancelAtEnd(CancellationToken, Cells);

impl Wake for CancelAtEnd {
    fn wake(self: Arc<Self>) {
        // What is known to have ended, whatever the clock says: whoever asks the token asks the clock too.
        if self.1.ended(Instant::default()).is_some() {
            self.0.cancel();
        }
    }
}
