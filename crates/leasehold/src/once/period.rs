//! The times of a schedule.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For how long a period of a name is kept, unless [`Period::keep`] says otherwise.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The least time for which a period of a schedule is kept: clocks differ by less, and a busy process is late by less.
const LEAST_KEPT: Duration = Duration::from_secs(60);

/// One time of a schedule, by a name that is the same in every process. See [`Client::once`](crate::Client::once).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a period does nothing by itself"]
pub struct Period {
    name: String,
    keep: Duration,
}

impl Period {
    /// The period of this name, such as `2026-11-23` or the number of a build. It is kept for a day.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::Period;
    /// use std::time::Duration;
    ///
    /// let month = Period::key("2026-11").keep(Duration::from_secs(32 * 24 * 60 * 60));
    /// assert_eq!(month.name(), "2026-11");
    /// ```
    pub fn key(name: impl Into<String>) -> Self {
        Self { name: name.into(), keep: KEPT }
    }

    /// The time of a schedule that fires every `every`, counted from 1970 in UTC, that is next to the present time of this machine. So a
    /// process whose timer is early or late by less than half of `every`, and whose clock agrees with its timer, names the same
    /// time as all others, however far their clocks are apart. It is kept for twice `every`, and for a minute at least.
    pub fn every(every: Duration) -> Self {
        Self::around(SystemTime::now(), every)
    }

    /// As [`Period::every`], next to this time.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::Period;
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let (hour, early) = (Duration::from_secs(3_600), Duration::from_millis(1));
    /// let three = UNIX_EPOCH + 3 * hour;
    /// assert_eq!(Period::around(three - early, hour), Period::around(three + hour / 3, hour));
    /// assert_ne!(Period::around(three, hour), Period::around(three + hour, hour));
    /// ```
    pub fn around(time: SystemTime, every: Duration) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let every_ms = every.as_millis().max(1);
        let nearest = (since + every_ms / 2) / every_ms * every_ms;
        Self { name: nearest.to_string(), keep: every.saturating_mul(2).clamp(LEAST_KEPT, crate::MAX_LEASE) }
    }

    /// For how long after the job the server knows that it is done, and the name must not come again. It must be longer than the time by which
    /// the last process may come after the first, with the difference of their clocks; a key of the server is there for as long.
    /// Whole milliseconds count, of [`MAX_LEASE`](crate::MAX_LEASE) at most.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep.clamp(Duration::from_millis(1), crate::MAX_LEASE);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For how long it is kept.
    pub const fn kept_for(&self) -> Duration {
        self.keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn clocks_that_fire_early_or_late_name_the_same_time() {
        let three = UNIX_EPOCH + 3 * HOUR;
        let names = |moment| Period::around(moment, HOUR).name;
        for near in [three - HOUR / 2, three - Duration::from_millis(1), three, three + HOUR / 3] {
            assert_eq!(names(near), (3 * HOUR).as_millis().to_string());
        }
        assert_ne!(names(three + HOUR / 2), names(three));
    }

    #[test]
    fn odd_schedules_have_names_and_are_kept_for_a_time() {
        let periods = [Duration::ZERO, Duration::from_millis(3), HOUR, Duration::MAX];
        for every in periods {
            let period = Period::every(every);
            assert!(!period.name.is_empty() && (LEAST_KEPT..=crate::MAX_LEASE).contains(&period.keep), "{period:?}");
        }
        assert_eq!(Period::around(UNIX_EPOCH - HOUR, HOUR).name, "0", "a clock that was never set");
        assert_eq!(Period::key("a").keep(Duration::ZERO).kept_for(), Duration::from_millis(1));
    }
}
