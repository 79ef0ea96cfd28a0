//! The periods of `run --once`, and the times of `--at`.

use crate::duration;
use std::time::{Duration, SystemTime};

const DAY: i64 = 24 * 60 * 60;

/// The days of the week, starting with Thursday, 1 January 1970.
const DAYS: [&str; 7] = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"];

/// The value of `--once`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Every {
    /// The time between two runs.
    Time(Duration),
    /// The name of a period.
    Key(String),
}

/// The value of `--at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// A time of day or of the week, as the time since Thursday, 00:00 UTC.
    Phase(Duration),
    /// The scheduled time.
    Moment(SystemTime),
}

/// Parses the value of `--once`. A misspelt time must not become a key, whose command would run only once.
pub(super) fn parse_every(text: &str) -> Result<Every, String> {
    match duration::parse(text) {
        Ok(every) if every < Duration::from_secs(1) => Err("the shortest period is 1s".to_owned()),
        Ok(every) => Ok(Every::Time(every)),
        Err(_) if text.trim().is_empty() => Err("the key is empty".to_owned()),
        Err(why) => {
            let units = text.trim_start_matches(|next: char| next.is_ascii_digit() || next == '.');
            let is_like_a_time =
                units.len() < text.len() && units.trim_start().bytes().all(|byte| byte.is_ascii_alphabetic());
            // A plain number is a key, such as a build number.
            if is_like_a_time && !units.is_empty() { Err(why) } else { Ok(Every::Key(text.to_owned())) }
        }
    }
}

/// Parses the value of `--at`.
pub(super) fn parse_at(text: &str) -> Result<At, String> {
    let example =
        "expected a time in UTC or with an offset, such as 02:00, 02:00+01:00, \"Sun 02:00\" or 2026-11-28T02:00:00Z";
    at(text.trim()).ok_or_else(|| example.to_owned())
}

fn at(text: &str) -> Option<At> {
    let (local, east) = zone(text)?;
    if local.contains('-') {
        let local = humantime::parse_rfc3339_weak(local).ok()?;
        let east_by = Duration::from_secs(east.unsigned_abs());
        return if east > 0 { local.checked_sub(east_by) } else { local.checked_add(east_by) }.map(At::Moment);
    }
    let (day, time) = match local.split_once(' ') {
        Some((day, time)) => {
            let day = day.get(..3)?.to_ascii_lowercase();
            (Some(DAYS.iter().position(|name| *name == day)?), time.trim_start())
        }
        None => (None, local),
    };
    let parts: Option<Vec<i64>> = time.split(':').map(two_digits).collect();
    let (hours, minutes, seconds) = match parts?[..] {
        [hours @ 0..24, minutes @ 0..60] => (hours, minutes, 0),
        [hours @ 0..24, minutes @ 0..60, seconds @ 0..60] => (hours, minutes, seconds),
        _ => return None,
    };
    let of_day = hours * 3_600 + minutes * 60 + seconds - east;
    let phase = match day {
        Some(day) => (i64::try_from(day).ok()? * DAY + of_day).rem_euclid(7 * DAY),
        None => of_day.rem_euclid(DAY),
    };
    Some(At::Phase(Duration::from_secs(u64::try_from(phase).ok()?)))
}

/// Splits a time into the time itself and its offset east of UTC in seconds.
fn zone(text: &str) -> Option<(&str, i64)> {
    if let Some(utc) = text.strip_suffix(['Z', 'z']) {
        return Some((utc, 0));
    }
    // The dashes of a date precede its time.
    let time = text.find(':')?;
    let Some(sign) = text[time..].find(['+', '-']).map(|at| at + time) else { return Some((text, 0)) };
    let (hours, minutes) = match &text[sign + 1..] {
        hours if hours.len() == 2 => (hours, "00"),
        other => other.split_once(':')?,
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    let east = (hours < 24 && minutes < 60).then_some(hours * 3_600 + minutes * 60)?;
    Some((&text[..sign], if text[sign..].starts_with('-') { -east } else { east }))
}

fn two_digits(text: &str) -> Option<i64> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_time_is_a_key_unless_it_looks_like_a_time() {
        for (text, seconds) in [("1d", 86_400), ("1h30m", 5_400), ("15min", 900)] {
            assert_eq!(parse_every(text), Ok(Every::Time(Duration::from_secs(seconds))), "{text}");
        }
        for key in ["2026-11-28", "2026-W48", "4711", "build 7", "monthly"] {
            assert_eq!(parse_every(key), Ok(Every::Key(key.to_owned())), "{key}");
        }
        for wrong in ["", " ", "1D", "1.5x", "3 dayz", "10ms"] {
            assert!(parse_every(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn time_of_day_may_have_a_weekday_and_an_offset() {
        let hours = |hours: u64, minutes: u64| At::Phase(Duration::from_secs(hours * 3_600 + minutes * 60));
        for (text, expected) in [
            ("02:00", hours(2, 0)),
            ("02:00Z", hours(2, 0)),
            ("02:00:00", hours(2, 0)),
            ("00:30", hours(0, 30)),
            ("02:00+01:00", hours(1, 0)),
            ("00:30+02", hours(22, 30)),
            ("20:00-05:30", hours(1, 30)),
            ("Thu 02:00", hours(2, 0)),
            ("sunday 12:00", hours(3 * 24 + 12, 0)),
            ("Thu 00:00+01:00", hours(7 * 24 - 1, 0)),
        ] {
            assert_eq!(parse_at(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn date_with_a_time_is_a_moment() {
        let moment = |seconds| At::Moment(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        for text in
            ["2026-11-28T02:00:00Z", "2026-11-28T03:00:00+01:00", "2026-11-27 21:00:00-05:00", "2026-11-28 02:00:00"]
        {
            assert_eq!(parse_at(text), Ok(moment(1_795_831_200)), "{text}");
        }
        for wrong in [
            "",
            "2",
            "2:00",
            "24:00",
            "02:60",
            "02:00:60",
            "xyz 02:00",
            "02:00+1",
            "02:00+99:00",
            "2026-11-28",
            "ü 02:00",
        ] {
            assert!(parse_at(wrong).is_err(), "{wrong:?}");
        }
    }
}
