//! Scheduled jobs that run once per period, in only one of many processes.

mod period;

pub use period::Period;

use crate::client::Client;
use crate::error::{Error, InvalidInput, WithError};
use crate::inspect::Holder;
use crate::lock::Lock;
use crate::lock::attempt;
use crate::lock::guard::Guard;
use leasehold_core::name::{NameError, check_ends};
use leasehold_core::session::Fallback;
use std::fmt;
use std::time::Duration;

/// A job that runs once per [`Period`], in only one of many processes. [`Client::once`] creates it.
///
/// **When to use it:** if a schedule fires in every instance of a service, such as a nightly report in five pods. The clocks may differ by
/// seconds, and the job may finish before the last clock fires. [`Period`] lists the constructor for each schedule. **When not:** for work that must
/// run exactly once despite failures. If a process dies during the job, the next process of the period runs it again.
///
/// The attribute [`once`](macro@crate::once) of the feature `macros` turns an `async fn` into a scheduled job.
///
/// The lock of a period is the [`Client::lock`] with the name `name@period`; `%` and `@` of the period are escaped as
/// `%25` and `%40`. When the job is done, the lock stays busy on the server until [`Period::keep`] is over: see
/// [`Acquire::keep_busy_for`](crate::Acquire::keep_busy_for).
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// use leasehold::once::{Occurrence, Period};
///
/// // In each of five pods, at two in the morning:
/// let nightly = client.once("report", Period::key("2026-11-23"));
/// match nightly.run(async |_held| 42).await? {
///     Occurrence::Ran(pages) => assert_eq!(pages, 42),
///     Occurrence::AlreadyDone => println!("another pod has done the job"),
///     Occurrence::Elsewhere(holder) => println!("{} is running the job", holder.id),
/// }
/// # assert!(matches!(nightly.run(async |_held| 42).await?, Occurrence::AlreadyDone));
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a job does nothing until `run` is awaited"]
pub struct Once {
    lock: Lock,
    keep: Duration,
}

/// The outcome of a job in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Occurrence<T> {
    /// This process ran the job, with this result. No other process runs the job in this period.
    Ran(T),
    /// A process has already run the job in this period.
    AlreadyDone,
    /// This holder is running the job now. If the holder fails, the job remains undone until another process starts it.
    Elsewhere(Holder),
}

/// The pause after an inspection that found no holder of the busy lock.
const AGAIN: Duration = Duration::from_millis(10);

impl Client {
    /// Returns a job that runs once per period, in only one of all processes. See [`Once`].
    pub fn once(&self, name: impl AsRef<str>, period: Period) -> Once {
        let job = name.as_ref();
        let mut lock = self.lock(period.lock_name(job));
        let named = if job.is_empty() { Err(NameError::Empty) } else { check_ends(job) };
        if let Err(why) = named.map_err(InvalidInput::from).and_then(|()| period.check(job)) {
            lock = Lock::of(lock.spec().refused(why));
        }
        // With a fallback, every process would run the job during an outage.
        Once { lock: lock.class(name).fallback(Fallback::Fail), keep: period.kept_for() }
    }
}

impl Once {
    /// Returns the lock of the period, for an inspection, or for a force release that allows the job to run again.
    pub const fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Runs the job if no process has done it in this period and no process is running it. This does not wait for another process. The job counts as
    /// done regardless of its result; see [`Once::try_run`] for a job that can fail.
    ///
    /// `job` receives the guard of the lock. Once the lock is lost, `job` is not polled again.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::try_acquire`] and [`Acquire::with`](crate::Acquire::with), and [`InvalidInput::Period`] if processes could compute
    /// different periods. After [`WithError::Lost`] another process may run the job. After [`WithError::NotReleased`] the job is done, and
    /// the background retries the mark. If the retries fail for a whole lease, another process may run the job.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `job`, and the background releases the lock: the job remains undone in this period.
    pub async fn run<T>(&self, job: impl AsyncFnOnce(&Guard) -> T) -> Result<Occurrence<T>, WithError<T>> {
        self.run_and_keep(job, |_| true).await
    }

    /// Runs a job that can fail, like [`Once::run`]. If the job returns an error, the lock is released and the job remains undone: any process,
    /// including this process, may run it again.
    ///
    /// # Errors
    ///
    /// The errors of [`Once::run`]. An error of the job is in [`Occurrence::Ran`].
    ///
    /// # Cancel safety
    ///
    /// See [`Once::run`].
    pub async fn try_run<T, E>(
        &self,
        job: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Occurrence<Result<T, E>>, WithError<Result<T, E>>> {
        self.run_and_keep(job, Result::is_ok).await
    }

    /// Begins the job without a closure: returns the guard of its lock, or the reason not to run it. Call [`Once::mark_done`] after the job,
    /// and release the guard. A guard that is dropped or released without that mark leaves the job undone.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::try_acquire`], and [`InvalidInput::Period`] if processes could compute different periods.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock: the job remains undone.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// use leasehold::once::{Occurrence, Period};
    ///
    /// let nightly = client.once("report", Period::key("2026-11-23"));
    /// if let Occurrence::Ran(guard) = nightly.begin().await? {
    ///     // The job, which another process may end or supervise.
    ///     nightly.mark_done(&guard);
    ///     guard.release().await?;
    /// }
    /// assert!(matches!(nightly.begin().await?, Occurrence::AlreadyDone));
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn begin(&self) -> Result<Occurrence<Guard>, Error> {
        loop {
            if let Some(guard) = self.lock.try_acquire().await? {
                return Ok(Occurrence::Ran(guard));
            }
            match self.lock.inspect().await? {
                Some(holder) if holder.is_kept() => return Ok(Occurrence::AlreadyDone),
                Some(holder) => return Ok(Occurrence::Elsewhere(holder)),
                // A failed job has released the lock since the try, or another task of this client waits for it.
                None => attempt::pause(self.lock.spec().handle(), AGAIN).await,
            }
        }
    }

    /// Marks the job as done, for a caller of [`Once::begin`], or a caller that waited for [`Once::lock`]. `guard` is the guard of that lock. Its
    /// release keeps the lock busy until [`Period::keep`] is over. Other processes see the mark only after the release, so release the guard
    /// next.
    ///
    /// If the client [announces](crate::ClientBuilder::announce) itself, its record stays on the server until then, even after the shutdown of
    /// the client. [`Client::who_is`] then identifies the process that did the job.
    pub fn mark_done(&self, guard: &Guard) {
        guard.keep_busy(self.keep);
        self.lock.spec().handle().with(|session, now| session.outlive(now + self.keep));
    }

    async fn run_and_keep<T>(
        &self,
        job: impl AsyncFnOnce(&Guard) -> T,
        is_done: impl FnOnce(&T) -> bool,
    ) -> Result<Occurrence<T>, WithError<T>> {
        let guard = match self.begin().await.map_err(WithError::NotAcquired)? {
            Occurrence::Ran(guard) => guard,
            Occurrence::AlreadyDone => return Ok(Occurrence::AlreadyDone),
            Occurrence::Elsewhere(holder) => return Ok(Occurrence::Elsewhere(holder)),
        };
        match guard.guarded(job(&guard)).await {
            Ok(value) => {
                if is_done(&value) {
                    self.mark_done(&guard);
                }
                WithError::unless_released(value, guard.release().await).map(Occurrence::Ran)
            }
            Err(lost) => {
                let lock = self.lock.name().to_owned();
                Err(WithError::Lost { lock, reason: lost.reason(), value: None })
            }
        }
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("lock", &self.lock.name()).field("keep", &self.keep).finish()
    }
}
