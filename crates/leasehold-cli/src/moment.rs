//! Timestamps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The current time in UTC, such as `2026-01-31T23:59:59.250Z`.
pub(crate) fn now() -> String {
    before(Duration::ZERO)
}

/// The time this long ago.
pub(crate) fn before(ago: Duration) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(ago);
    written(u64::try_from(since.as_millis()).unwrap_or_default())
}

/// Parses a time of RFC 3339, such as `2026-11-28T02:00:00Z` or `2026-11-28T03:00:00+01:00`.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let (local, east) = match text.len().checked_sub(6).filter(|at| text.is_char_boundary(*at)) {
        Some(at) if text[at..].starts_with(['+', '-']) => (&text[..at], Some(&text[at..])),
        _ => (text.strip_suffix(['Z', 'z'])?, None),
    };
    let utc = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let Some(east) = east else { return Some(utc) };
    let (hours, minutes) = east[1..].split_once(':')?;
    let part = |text: &str| (text.len() == 2).then(|| text.parse::<u64>().ok()).flatten();
    let offset = Duration::from_secs(part(hours)? * 3_600 + part(minutes)? * 60);
    if east.starts_with('+') { utc.checked_sub(offset) } else { utc.checked_add(offset) }
}

fn written(millis: u64) -> String {
    let (days, within) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute) = (within / 3_600_000, within / 60_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z", within / 1_000 % 60, within % 1_000)
}

/// The date this many days after 1 January 1970.
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
    fn offsets_from_utc_are_read() {
        let utc = parse("2026-11-28T02:00:00Z");
        assert_eq!(parse("2026-11-28T03:30:00+01:30"), utc);
        assert_eq!(parse("2026-11-27T21:00:00-05:00"), utc);
        for text in
            ["", "2026-11-28", "2026-11-28T02:00:00", "2026-11-28T02:00:00+1:00", "2026-11-28T02:00:00\u{e9}01:00"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

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
