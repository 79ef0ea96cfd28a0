//! The time between two looks, of the commands that look again and again.

use crate::duration;
use std::time::Duration;

/// A time between two looks that leaves the server in peace.
pub(super) fn at_least_10ms(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(10), "10ms")
}

/// The same for looks that many browsers may ask for.
pub(super) fn at_least_100ms(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(100), "100ms")
}

fn at_least(text: &str, least: Duration, said: &str) -> Result<Duration, String> {
    let time = duration::parse(text)?;
    if time < least { Err(format!("the time is shorter than {said}")) } else { Ok(time) }
}
