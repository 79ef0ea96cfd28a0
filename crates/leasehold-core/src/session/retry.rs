//! How long to leave a server in peace after a failure.

use std::time::Duration;

/// The pause before the attempt of this number, 1 being the first one after a failure: 10 ms, doubled with each, at most half a second.
pub(super) fn pause_before(attempt: u32) -> Duration {
    Duration::from_millis(10 << attempt.saturating_sub(1).min(6)).min(Duration::from_millis(500))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_second() {
        let pauses = [0, 1, 2, 3, 6, 7, u32::MAX].map(|attempt| pause_before(attempt).as_millis());
        assert_eq!(pauses, [10, 10, 20, 40, 320, 500, 500]);
    }
}
