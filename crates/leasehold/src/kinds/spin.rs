//! The spin lock.

use crate::kind::Spin;
use crate::lock::Lock;

/// A lock whose waiters ask again and again instead of being woken.
///
/// **When to use it:** where locks are held for a few milliseconds and seldom waited for, or where Pub/Sub is not to be had. A release
/// costs nothing but itself. **When not:** for long waits: every waiter costs a command for each pause, and is late by up to one pause. The
/// pauses are set by [`Acquire::backoff`](crate::Acquire::backoff).
///
/// On the server the lock is Redisson's `RSpinLock`, which looks like its `RLock`, but announces no release.
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
