//! Locks that stay busy for a minimum time.

use super::Acquire;
use crate::kind::Keepable;
use std::time::Duration;

impl<K: Keepable> Acquire<K> {
    /// Keeps the lock busy for at least this long after the grant. If the guard is released or dropped earlier, the lock stays on the
    /// server for the rest of the time, without a holder and without renewals. The client need not stay alive.
    ///
    /// **When to use it:** for a short job that several processes start at about the same time. No process starts it again before the time is over.
    /// `ShedLock` calls this `lockAtLeastFor`. [`Client::once`](crate::Client::once) builds on it, and also reports the process that ran the job.
    /// **When not:** for an exact rate limit, because the clocks of a process and the server differ.
    ///
    /// The time starts when the caller receives the guard, and is truncated to milliseconds. A re-entry can extend it. A lock that is lost or
    /// [detached](crate::Guard::detach), or whose process dies, is free at the end of its lease. While the lock stays busy, its holder on the server
    /// ends with `!` ([`Holder::is_kept`](crate::inspect::Holder::is_kept)). It is also busy for its former owner. A force release frees it.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::Invalid`](crate::Error::Invalid) for a time of less than a millisecond or more than
    /// [`MAX_LEASE`](crate::MAX_LEASE), and for a lock with a [`fallback`](crate::Lock::fallback), which cannot exclude other processes.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let report = client.lock("report");
    /// let guard = report.acquire().keep_busy_for(Duration::from_secs(300)).await?;
    /// guard.release().await?; // done in a moment
    /// assert!(report.try_acquire().await?.is_none(), "and done for five minutes");
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub const fn keep_busy_for(mut self, least: Duration) -> Self {
        self.keep_busy_for = Some(least);
        self
    }
}
