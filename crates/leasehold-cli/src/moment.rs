//! Timestamps.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the current time in UTC, such as `2026-01-31T23:59:59.250Z`.
pub(crate) fn now() -> String {
    before(Duration::ZERO)
}

/// Returns the time that was `ago` before now.
pub(crate) fn before(ago: Duration) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(ago);
    written(u64::try_from(since.as_millis()).unwrap_or_default())
}

/// Returns the time of day after a delay by this host's clock, such as `02:00:16 UTC`.
pub(crate) fn after(time: Duration) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(time);
    let moment = written(u64::try_from(since.as_millis()).unwrap_or_default());
    format!("{} UTC", &moment[11..19])
}

/// Formats a scheduled time in milliseconds since 1970, without a zero fraction.
pub(crate) fn of_schedule(millis: u64) -> String {
    written(millis).replace(".000Z", "Z")
}

/// Converts an instant to milliseconds since 1970.
pub(crate) fn millis_at(at: Instant) -> u64 {
    let (now, system) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let moment = (system + at.saturating_duration_since(now)).saturating_sub(now.saturating_duration_since(at));
    u64::try_from(moment.as_millis()).unwrap_or_default()
}

/// Formats milliseconds since 1970.
pub(crate) fn written(millis: u64) -> String {
    let (days, within) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute) = (within / 3_600_000, within / 60_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z", within / 1_000 % 60, within % 1_000)
}

/// Returns the date of a number of days since 1 January 1970.
fn date(mut days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_704_067_200_250, "2024-01-01T00:00:00.250Z"),
        ] {
            assert_eq!(written(millis), text);
        }
    }
}
