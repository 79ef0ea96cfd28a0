//! The count-down latch.

use crate::client::settings;
use crate::error::Error;
use crate::lock::acquire::Wait;
use crate::lock::attempt;
use crate::lock::spec::LockSpec;
use leasehold_core::command::latch as command;
use leasehold_core::command::operation::Done;
use leasehold_core::session::{AcquireRequest, Patience};
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

/// A gate that opens for all waiters, in every process, when its count reaches zero.
///
/// **When to use it:** to start work after a known number of events: the parts of an import, the shards of a migration. **When not:** to exclude
/// other tasks, because a latch has no holder; or if a part may run twice, because the latch counts every call.
///
/// A latch without a count is open, so call [`try_set_count`](Self::try_set_count) first. An open latch can be set again. If the server
/// loses its data, the latch is open. If a failover loses a recent count-down, the waiters wait until a caller repeats it. On the server it is Redisson's
/// `RCountDownLatch`.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let parts = client.count_down_latch("import:7:parts");
/// assert!(parts.try_set_count(2).await?);
/// let all = tokio::spawn({
///     let parts = parts.clone();
///     async move { parts.opened().wait(Duration::from_secs(60)).await }
/// });
/// parts.count_down().await?;
/// parts.count_down().await?;
/// all.await.expect("a task")?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct CountDownLatch(LockSpec);

impl CountDownLatch {
    pub(crate) const fn new(spec: LockSpec) -> Self {
        Self(spec)
    }

    /// Returns the name without the client's prefix.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Sets the count of an open latch, and returns `true`. Returns `false` for a closed latch, which keeps its count.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] if the name is in use by other data, [`Error::Invalid`] for 0 and for more than `i32::MAX`, and [`Error::Unreachable`],
    /// [`Error::OutcomeUnknown`] or [`Error::Refused`] if the server gave no result within
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after). During that time the client retries; the server applies the change once.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the count may or may not be set.
    pub async fn try_set_count(&self, count: u32) -> Result<bool, Error> {
        settings::check_number("count", count, 1)?;
        let set = |name: &_, operation: &[u8], publish: &_| command::set(name, count, operation, publish);
        Ok(matches!(self.0.call_idempotent(set, command::set_done).await?, Done::Done { .. }))
    }

    /// Decrements the count, and returns the remaining count. At 0 the latch is open. An open latch does not change.
    ///
    /// # Errors
    ///
    /// The errors of [`CountDownLatch::try_set_count`]. The client's retries count once; a caller that calls again after
    /// [`Error::OutcomeUnknown`] may count twice.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the count may or may not have changed.
    pub async fn count_down(&self) -> Result<u32, Error> {
        self.count_down_by(1).await
    }

    /// Counts down by `count`, but not below zero, and returns the remaining count.
    ///
    /// # Errors
    ///
    /// The errors of [`CountDownLatch::count_down`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the count may or may not have changed.
    pub async fn count_down_by(&self, count: u32) -> Result<u32, Error> {
        settings::check_number("count", count, 1)?;
        let down = |name: &_, operation: &[u8], publish: &_| command::count_down(name, count, operation, publish);
        let (Done::Done { number: left, .. } | Done::Refused { number: left } | Done::Overflow { number: left }) =
            self.0.call_idempotent(down, command::counted_down).await?;
        Ok(u32::try_from(left).unwrap_or_default())
    }

    /// Returns the remaining count, or 0 if the latch is open. This is read-only.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn count(&self) -> Result<u32, Error> {
        let count = self.0.call_once(command::inspect(self.0.checked_name()?), command::inspected).await?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Removes the latch, which opens it for all waiters, and returns whether it existed.
    ///
    /// # Errors
    ///
    /// The errors of [`CountDownLatch::try_set_count`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the latch may or may not be removed.
    pub async fn delete(&self) -> Result<bool, Error> {
        let name = self.0.checked_name()?;
        let (operation, publish) =
            self.0.handle().with(|session, _| (session.new_operation(), session.settings().publish.clone()));
        self.0.call_until_known(command::delete(name, &operation, &publish), command::deleted).await
    }

    /// Waits until the latch is open. All waiters of one client share a subscription and its commands.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::WaitElapsed`], [`Error::KeyConflict`], [`Error::Unreachable`], [`Error::OutcomeUnknown`],
    /// [`Error::Refused`], [`Error::ShutDown`] and [`Error::Invalid`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub fn opened(&self) -> LatchWait {
        LatchWait { spec: self.0.clone(), wait: None }
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatch").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// A builder for a wait at a [`CountDownLatch`]. Awaiting it waits until the latch is open.
#[derive(Clone)]
#[must_use = "a wait does nothing until it is awaited"]
pub struct LatchWait {
    spec: LockSpec,
    wait: Option<Wait>,
}

impl LatchWait {
    /// Limits the wait. At the end of the wait the client checks the latch once more, and returns [`Error::WaitElapsed`] if the latch is closed.
    /// `Duration::MAX` waits without a limit.
    ///
    /// Default: the client's [`default_wait`](crate::ClientBuilder::default_wait), or no limit.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(Wait::For(wait));
        self
    }

    /// Limits the wait to the time before `deadline`, like [`Acquire::wait_until`](crate::Acquire::wait_until).
    pub fn wait_until(mut self, deadline: impl Into<tokio::time::Instant>) -> Self {
        self.wait = Some(Wait::Until(deadline.into()));
        self
    }

    async fn run(self) -> Result<(), Error> {
        let handle = self.spec.handle();
        handle.check_process()?;
        let begun = handle.clock.now();
        let name = self.spec.checked_name()?.clone();
        let mut wish = Box::new(AcquireRequest::new(name, self.spec.kind(), settings::NO_LEASE));
        wish.renewed = false;
        wish.class = self.spec.metrics().name.clone();
        wish.patience = Patience::Until(handle.end_of_wait(self.wait));
        wish.waits_out_outage = self.wait.is_some();
        // The grant carries no data, because an open latch has no holder.
        match attempt::acquire(handle, wish).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let waited = handle.clock.now().since(begun);
                Err(Error::from_acquire(self.spec.name(), self.spec.kind_word(), waited, error))
            }
        }
    }
}

impl IntoFuture for LatchWait {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for LatchWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatchWait").field("latch", &self.spec.name()).field("wait", &self.wait).finish_non_exhaustive()
    }
}
