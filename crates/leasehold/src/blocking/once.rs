//! Jobs that run once in a period, for threads.

use super::{Guard, Lock, mirrors, park_on};
use crate::error::WithError;
use crate::once::Occurrence;

/// A [`Once`](crate::once::Once) for threads.
///
/// # Examples
///
/// ```
/// # use leasehold::blocking::Client;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::from(leasehold::Client::embedded());
/// use leasehold::once::{Occurrence, Period};
///
/// let nightly = client.once("report", Period::key("2026-11-23"));
/// assert_eq!(nightly.run(|_held| 42)?, Occurrence::Ran(42));
/// assert_eq!(nightly.run(|_held| 42)?, Occurrence::AlreadyDone);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `run` is called"]
pub struct Once(crate::once::Once);

mirrors!(Once = crate::once::Once);

impl Once {
    /// The lock of the period.
    pub fn lock(&self) -> Lock {
        self.0.lock().clone().into()
    }

    /// Runs the job if no process has done it in this period and none is at it. A thread cannot be stopped: `job` asks [`Guard::is_held`]
    /// where it matters.
    ///
    /// # Errors
    ///
    /// As [`Once::run`](crate::once::Once::run).
    #[track_caller]
    pub fn run<T>(&self, job: impl FnOnce(&Guard) -> T) -> Result<Occurrence<T>, WithError<T>> {
        self.run_and_keep(job, |_| true)
    }

    /// As [`Once::run`], for a job that can fail. See [`Once::try_run`](crate::once::Once::try_run).
    ///
    /// # Errors
    ///
    /// As [`Once::try_run`](crate::once::Once::try_run).
    #[expect(clippy::type_complexity, reason = "an alias would hide what stands where")]
    #[track_caller]
    pub fn try_run<T, E>(
        &self,
        job: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Occurrence<Result<T, E>>, WithError<Result<T, E>>> {
        self.run_and_keep(job, Result::is_ok)
    }

    #[track_caller]
    fn run_and_keep<T>(
        &self,
        job: impl FnOnce(&Guard) -> T,
        is_done: impl FnOnce(&T) -> bool,
    ) -> Result<Occurrence<T>, WithError<T>> {
        let guard = match park_on(self.0.begin()).map_err(WithError::NotAcquired)? {
            Occurrence::Ran(guard) => Guard::from(guard),
            Occurrence::AlreadyDone => return Ok(Occurrence::AlreadyDone),
            Occurrence::Elsewhere(holder) => return Ok(Occurrence::Elsewhere(holder)),
        };
        let value = job(&guard);
        if is_done(&value) {
            self.0.mark_done(guard.as_async());
        }
        WithError::unless_released(value, guard.release()).map(Occurrence::Ran)
    }
}
