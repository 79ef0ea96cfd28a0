//! The spin lock.

use crate::kind::Spin;
use crate::lock::Lock;

/// A lock whose waiters poll.
///
/// **When to use it:** if holds last a few milliseconds and waits are rare, or without Pub/Sub. A release publishes nothing. **When not:** for
/// long waits: every waiter sends a command after each pause, and is up to one pause late.
/// [`Acquire::backoff`](crate::Acquire::backoff) sets the pauses.
///
/// On the server the lock is Redisson's `RSpinLock`, which has the layout of `RLock` but announces no release.
///
/// # Examples
///
/// ```
/// # use leasehold::Backoff;
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let counter = client.spin_lock("counter");
/// let ms = Duration::from_millis;
/// let guard = counter.acquire().backoff(Backoff::exponential(ms(1), ms(20))).wait(ms(500)).await?;
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type SpinLock = Lock<Spin>;
