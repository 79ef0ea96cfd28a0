//! The time of `run --at`.

use crate::moment;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The days of a week as it is counted since 1 January 1970, a Thursday.
const DAYS: [&str; 7] = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"];

/// The schedule's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The time within each period, counted from midnight, or for weeks from midnight of Thursday.
    Offset(Duration),
    /// The planned time of this start.
    Instant(SystemTime),
}

impl At {
    /// Parses `02:00`, `02:00:30`, `Mon 02:00`, or a time of RFC 3339.
    ///
    /// # Errors
    ///
    /// The text is none of these; the error has examples.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let time = Self::offset(text).map(Self::Offset).or_else(|| moment::parse(text).map(Self::Instant));
        time.ok_or_else(|| "expected a time in UTC, such as 02:00, 'Mon 02:00' or 2026-11-28T02:00:00Z".to_owned())
    }

    fn offset(text: &str) -> Option<Duration> {
        let (day, time) = match text.split_once(' ') {
            None => (0, text),
            Some((day, time)) => {
                let day = day.get(..3)?.to_ascii_lowercase();
                (DAYS.iter().position(|known| *known == day)?, time)
            }
        };
        let part = |text: &str, most| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|part| is_number && *part <= most)
        };
        let seconds = match time.split(':').collect::<Vec<_>>()[..] {
            [hours, minutes] => part(hours, 23)? * 3_600 + part(minutes, 59)? * 60,
            [hours, minutes, seconds] => part(hours, 23)? * 3_600 + part(minutes, 59)? * 60 + part(seconds, 59)?,
            _ => return None,
        };
        Some(DAY * u32::try_from(day).ok()? + Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn times_of_a_schedule_are_within_a_day_or_a_week_or_planned() {
        let hours = |hours: u64| At::Offset(Duration::from_secs(hours * 3_600));
        for (text, at) in [
            ("02:00", hours(2)),
            ("2:00:00", hours(2)),
            ("Thu 00:00", hours(0)),
            ("monday 03:00", hours(4 * 24 + 3)),
            ("1970-01-02T01:00:00Z", At::Instant(UNIX_EPOCH + Duration::from_secs(25 * 3_600))),
            ("1970-01-02T01:00:00+01:00", At::Instant(UNIX_EPOCH + Duration::from_secs(24 * 3_600))),
        ] {
            assert_eq!(At::parse(text), Ok(at), "{text}");
        }
        for text in
            ["", "2", "24:00", "02:60", "02:00:00:00", "02:00:", "xyz 02:00", "-1:00", "2026-11-28", "02:00 Mon"]
        {
            assert!(At::parse(text).is_err_and(|why| why.contains("02:00")), "{text}");
        }
    }
}
