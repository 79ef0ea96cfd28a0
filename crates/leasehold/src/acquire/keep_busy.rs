//! Locks that stay busy for a least time.

use super::Acquire;
use crate::kind::Keepable;
use std::time::Duration;

impl<K: Keepable> Acquire<K> {
    /// Keeps the lock busy for at least this long after the grant. If the guard is released or dropped earlier, the
    /// lock stays on the server for the rest of the time, without a holder and without renewals. The client does not
    /// need to stay alive.
    ///
    /// **When to use it:** for a short job that several processes start at about the same time: no process starts it
    /// again before the time is over. `ShedLock` calls this `lockAtLeastFor`. [`Client::once`](crate::Client::once) is
    /// built on it, and also reports who has run the job. **When not:** to limit how often something runs exactly;
    /// clocks of a process and the server differ.
    ///
    /// The time begins when the caller gets the guard, and whole milliseconds count. A re-entry can prolong it. A lock that is lost, or
    /// [detached](crate::Guard::detach), is free when its lease ends, and one whose process dies when the lease of the dead ends. While the
    /// lock stays busy, its holder on the server has a `!` at its end ([`Holder::is_kept`](crate::inspect::Holder::is_kept)), also for its former owner
    /// the lock is busy, and a force release frees it.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::Invalid`](crate::Error::Invalid) for a time of less than a millisecond or more than [`MAX_LEASE`](crate::MAX_LEASE), and for a lock with
    /// a [`fallback`](crate::Lock::fallback), which cannot keep others out.
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
