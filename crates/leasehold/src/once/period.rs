//! The periods of a schedule.

use crate::error::InvalidInput;
use leasehold_core::name::check_ends;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The default of [`Period::keep`].
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The minimum time to keep a period of a schedule. It must exceed clock differences and the delays of busy processes.
const LEAST_KEPT: Duration = Duration::from_secs(60);

/// A clock reading near the middle between two scheduled times is ambiguous: within this fraction of the interval.
const AMBIGUOUS: i128 = 8;

/// A scheduled time, with the same name in every process. See [`Client::once`](crate::Client::once).
///
/// | schedule | period |
/// |---|---|
/// | the scheduler passes the scheduled time, as cron libraries do; days of a time zone, weekdays, months | [`Period::at`] |
/// | multiples of a fixed interval in UTC: every five minutes, hourly at `:00`, daily at 00:00 UTC | [`Period::every`] |
/// | multiples of an interval with an offset: hourly at `:30`, daily at 12:00 UTC | [`Period::every`] with [`Period::offset`] |
/// | the process has a name for the period: a date, a build number | [`Period::key`] |
///
/// A daily job in local time runs at another UTC time after a daylight saving change: use [`Period::at`] rather than [`Period::every`]. Use a
/// date as a key only if no process starts the job within seconds of midnight.
#[derive(Clone, Debug)]
#[must_use = "a period does nothing until a job uses it"]
pub struct Period {
    name: String,
    keep: Duration,
    /// The interval and a clock reading, in milliseconds since 1970, if they determine the name.
    every: Option<(i128, i128)>,
    refused: Option<String>,
}

impl Period {
    /// Returns the period with this name, such as `2026-11-23` or a build number. The server remembers it for a day.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::once::Period;
    /// use std::time::Duration;
    ///
    /// let month = Period::key("2026-11").keep(Duration::from_secs(32 * 24 * 60 * 60));
    /// assert_eq!(month.name(), "2026-11");
    /// ```
    pub fn key(name: impl Into<String>) -> Self {
        Self::named(name.into(), None)
    }

    /// Returns the period of the time `scheduled`: the planned time of the job, not the time at which the process woke up. Every process must compute
    /// an identical time, for example from a shared cron expression and time zone. The server remembers the period for a day.
    ///
    /// # Errors
    ///
    /// [`Once::run`](crate::once::Once::run) refuses a time before 1970, and a time with a fraction of a millisecond, which is a clock
    /// reading and differs between processes.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::once::Period;
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// // A cron library returns the next time of "0 7 * * *" in New York: 12:00 UTC in winter.
    /// let scheduled = UNIX_EPOCH + Duration::from_secs(1_795_694_400);
    /// let nightly = Period::at(scheduled);
    /// assert_eq!(nightly, Period::at(scheduled));
    /// assert_ne!(nightly, Period::at(scheduled + Duration::from_secs(24 * 60 * 60)));
    /// ```
    pub fn at(scheduled: SystemTime) -> Self {
        let refused = match scheduled.duration_since(UNIX_EPOCH) {
            Err(_) => Some("its scheduled time is before 1970"),
            Ok(since) if since.subsec_nanos() % 1_000_000 != 0 => Some(
                "its scheduled time has a fraction of a millisecond, like a clock reading: pass the planned time of the job, or use \
                 Period::every",
            ),
            Ok(_) => None,
        };
        Self::named(since_1970(scheduled).to_string(), refused.map(str::to_owned))
    }

    /// Returns the period of the scheduled time that is nearest to this machine's current time. The schedule fires at multiples of `every` since 1970
    /// in UTC, plus the [`offset`](Period::offset). The server remembers the period for twice `every`, but at least for a minute.
    ///
    /// A process whose clock is wrong by less than three eighths of `every` computes the correct time.
    ///
    /// # Errors
    ///
    /// [`Once::run`](crate::once::Once::run) refuses a period whose clock reading is about halfway between two scheduled times. Another process with
    /// a slightly different clock would compute a different time, and run the job again. **A job that fires daily at 12:00 UTC, hourly at half past,
    /// or weekly on Sunday at noon needs an [`offset`](Period::offset)**; weeks of 1970 begin on a Thursday.
    pub fn every(every: Duration) -> Self {
        Self::around(SystemTime::now(), every)
    }

    /// Returns the period like [`Period::every`], with this time instead of the current time.
    ///
    /// # Errors
    ///
    /// See [`Period::every`].
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::once::Period;
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let (hour, early) = (Duration::from_secs(3_600), Duration::from_millis(1));
    /// let three = UNIX_EPOCH + 3 * hour;
    /// assert_eq!(Period::around(three - early, hour), Period::around(three + hour / 3, hour));
    /// assert_ne!(Period::around(three, hour), Period::around(three + hour, hour));
    /// ```
    pub fn around(time: SystemTime, every: Duration) -> Self {
        let keep = every.saturating_mul(2).clamp(LEAST_KEPT, crate::MAX_LEASE);
        let unset = (time < UNIX_EPOCH).then(|| "the clock of this machine is before 1970: set the clock".to_owned());
        let every = Some((whole_millis(every).max(1), since_1970(time)));
        Self { name: String::new(), keep, every, refused: unset }.offset(Duration::ZERO)
    }

    /// Sets the offset of a schedule: it fires at multiples of `every` since 1970 in UTC, plus `offset`, truncated to milliseconds. Default:
    /// none.
    ///
    /// # Errors
    ///
    /// [`Once::run`](crate::once::Once::run) refuses an offset for [`Period::key`] and [`Period::at`].
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::once::Period;
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let hour = Duration::from_secs(3_600);
    /// let daily_at_noon = |clock| Period::around(clock, 24 * hour).offset(12 * hour);
    /// let (noon, early) = (UNIX_EPOCH + 12 * hour, Duration::from_millis(1));
    /// assert_eq!(daily_at_noon(noon - early), daily_at_noon(noon + early));
    ///
    /// // Weekly on Monday at 03:00 UTC: four days and three hours after a Thursday.
    /// let weekly = Period::every(7 * 24 * hour).offset((4 * 24 + 3) * hour);
    /// # drop(weekly);
    /// ```
    pub fn offset(mut self, offset: Duration) -> Self {
        let Some((every, clock)) = self.every else {
            self.refused = Some("only Period::every can have an offset".to_owned());
            return self;
        };
        let offset = whole_millis(offset) % every;
        let before = (clock - offset).div_euclid(every) * every + offset;
        let (past, left) = (clock - before, before + every - clock);
        if clock >= 0 {
            self.refused = None;
        }
        if (past - left).abs() * AMBIGUOUS < every * 2 {
            // All clock readings near this middle share a name.
            self.name = format!("{before}-or-{}", before + every);
            let [past, left, every] = [past, left, every].map(readable);
            let why = format!(
                "the clock reads {past:?} after one time of its schedule and {left:?} before the next, with {every:?} between \
                 them, so another process may compute the other time; call it near a scheduled time, set Period::offset to the \
                 phase of the schedule, or use Period::at with the scheduled time"
            );
            self.refused.get_or_insert(why);
        } else {
            self.name = (if past < left { before } else { before + every }).to_string();
        }
        self
    }

    /// Sets the time for which the server remembers that the job is done. During this time the name must not be reused. The time must exceed the
    /// delay between the first and the last process, including the difference of their clocks. A key on the server exists for this time. It is
    /// truncated to milliseconds, and limited to [`MAX_LEASE`](crate::MAX_LEASE).
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep.clamp(Duration::from_millis(1), crate::MAX_LEASE);
        self
    }

    /// Returns the name. An invalid period also has a name, for the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time for which the server remembers the period: see [`Period::keep`].
    pub const fn kept_for(&self) -> Duration {
        self.keep
    }

    /// Returns why [`Once::run`](crate::once::Once::run) refuses this period, or `None` for a valid period.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::once::Period;
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let hour = Duration::from_secs(3_600);
    /// let half_past = UNIX_EPOCH + hour / 2;
    /// assert!(Period::around(half_past, hour).refusal().is_some());
    /// assert_eq!(Period::around(half_past, hour).offset(hour / 2).refusal(), None);
    /// ```
    pub fn refusal(&self) -> Option<&str> {
        let nameless = self.name.is_empty().then_some("it has an empty name");
        self.refused.as_deref().or(nameless)
    }

    /// Joins the names of a job and its period. Escaping the period makes each result unique.
    pub(super) fn lock_name(&self, job: &str) -> String {
        format!("{job}@{}", self.name.replace('%', "%25").replace('@', "%40"))
    }

    /// Refuses a period that processes could compute differently.
    pub(super) fn check(&self, job: &str) -> Result<(), InvalidInput> {
        check_ends(&self.name)?;
        match self.refusal() {
            None => Ok(()),
            Some(why) => Err(InvalidInput::Period { job: job.to_owned(), message: why.to_owned() }),
        }
    }

    fn named(name: String, refused: Option<String>) -> Self {
        Self { name, keep: KEPT, every: None, refused }
    }
}

/// Two periods are equal if their names and their times to keep are equal, and both are valid or both invalid.
impl PartialEq for Period {
    fn eq(&self, other: &Self) -> bool {
        let of = |period: &Self| (period.keep, period.refused.is_some());
        self.name == other.name && of(self) == of(other)
    }
}

impl Eq for Period {}

fn since_1970(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => whole_millis(since),
        Err(before) => -whole_millis(before.duration()),
    }
}

fn whole_millis(time: Duration) -> i128 {
    i128::try_from(time.as_millis()).unwrap_or(i128::MAX)
}

fn readable(millis: i128) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn clocks_that_fire_early_or_late_name_the_same_time() {
        let three = UNIX_EPOCH + 3 * HOUR;
        let near = HOUR * 3 / 8;
        for (offset, tick) in [(Duration::ZERO, three), (HOUR / 2, three + HOUR / 2), (5 * HOUR / 4, three + HOUR / 4)]
        {
            let period = |moment| Period::around(moment, HOUR).offset(offset);
            for moment in [tick - near, tick - Duration::from_millis(1), tick, tick + near] {
                assert_eq!(period(moment).check("job"), Ok(()));
                assert_eq!(period(moment).name, since_1970(tick).to_string());
            }
            assert_ne!(period(tick + HOUR), period(tick));
        }
    }

    #[test]
    fn clocks_near_the_middle_of_two_times_are_refused_under_one_name() {
        let middle = UNIX_EPOCH + 3 * HOUR + HOUR / 2;
        let moments =
            [middle - HOUR / 8 + Duration::from_millis(1), middle, middle + HOUR / 8 - Duration::from_millis(1)];
        let periods = moments.map(|moment| Period::around(moment, HOUR));
        for period in &periods {
            assert!(period.check("job").is_err(), "{period:?}");
            assert_eq!(*period, periods[0]);
        }
        assert_eq!(Period::around(middle, HOUR).offset(HOUR / 2).check("job"), Ok(()), "the phase was missing");
    }

    #[test]
    fn odd_schedules_have_names_and_are_kept_for_a_time() {
        let periods = [Duration::ZERO, Duration::from_millis(3), HOUR, Duration::MAX];
        for every in periods {
            let period = Period::every(every).offset(every);
            assert!(!period.name.is_empty() && (LEAST_KEPT..=crate::MAX_LEASE).contains(&period.keep), "{period:?}");
        }
        assert_eq!(Period::key("a").keep(Duration::ZERO).kept_for(), Duration::from_millis(1));
    }

    #[test]
    fn times_that_no_schedule_has_are_refused() {
        let refused = [
            Period::at(UNIX_EPOCH - HOUR),
            Period::at(UNIX_EPOCH + Duration::from_nanos(1_500_000)),
            Period::around(UNIX_EPOCH - HOUR, HOUR).offset(HOUR / 4),
            Period::at(UNIX_EPOCH).offset(HOUR),
            Period::key("2026-11-23").offset(HOUR),
            Period::key(""),
            Period::key("2026-11-23\n"),
        ];
        for period in refused {
            assert!(period.check("job").is_err(), "{period:?}");
        }
        assert_eq!(Period::at(UNIX_EPOCH + HOUR).name(), Period::around(UNIX_EPOCH + HOUR, HOUR).name());
    }
}
