//! The scan interval.

use crate::duration;
use std::time::Duration;

/// An interval for one viewer.
pub(super) fn at_least_10ms(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(10), "10ms")
}

/// An interval for a page with many browsers.
pub(super) fn at_least_100ms(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(100), "100ms")
}

fn at_least(text: &str, least: Duration, said: &str) -> Result<Duration, String> {
    let time = duration::parse(text)?;
    if time < least { Err(format!("the shortest interval is {said}")) } else { Ok(time) }
}
