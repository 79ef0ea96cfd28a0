//! Times on the command line.

use std::time::Duration;

/// Parses a time such as `500ms`, `30s`, `5m`, `2h` or `1h30m`.
///
/// # Errors
///
/// The text is invalid. The error shows examples.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let example = "expected a whole number with a unit, such as 500ms, 30s, 5m, 2h or 1h30m";
    humantime::parse_duration(text).map_err(|_| example.to_owned())
}

/// Parses a time as [`parse`] does, or a number of seconds such as `2.5`, as `flock` does.
///
/// # Errors
///
/// As [`parse`].
pub(crate) fn parse_wait(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = text.parse().ok().filter(|_| is_number).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.map_or_else(|| parse(text), Ok)
}

/// Formats a time: milliseconds below a second, tenths of a second below a minute, seconds below an hour.
pub(crate) fn show(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{}.{} s", seconds, time.subsec_millis() / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_may_have_several() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("30 s", 30_000),
            ("1h30m", 5_400_000),
            ("1h 30min", 5_400_000),
            ("0s", 0),
            ("1d", 86_400_000),
            ("2days", 172_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "30", "s", "-1s", "1.5x", "1h30", "99999999999999999999s", "9999999999999999999d"] {
            assert!(parse(text).is_err_and(|why| why.contains("30s")), "{text}");
        }
    }

    #[test]
    fn wait_takes_bare_seconds_too() {
        for (text, millis) in [("2", 2_000), ("0.25", 250), ("0", 0), (".5", 500), ("3m", 180_000)] {
            assert_eq!(parse_wait(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", ".", "1.2.3", "-1", "1e3", "inf", "nan", "99999999999999999999999"] {
            assert!(parse_wait(text).is_err_and(|why| why.contains("30s")), "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        for (millis, text) in [(7, "7 ms"), (29_550, "29.5 s"), (61_000, "1 min 1 s"), (5_400_000, "1 h 30 min")] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
