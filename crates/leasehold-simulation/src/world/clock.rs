//! The time that a client's clock shows. It counts suspends as the boot-time clock does, but its rate may be wrong, and it may jump ahead.

use leasehold_core::time::Instant;
use std::time::Duration;

/// A clock, against the true time, which is the server's apart from steps of that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// At this true instant
    at: Instant,
    /// it showed this,
    shown: Instant,
    /// and it is too fast by so many millionths since then.
    ppm: i64,
}

const MILLION: i64 = 1_000_000;

impl Clock {
    /// The time that it shows at a true instant.
    pub(crate) fn shows(&self, now: Instant) -> Instant {
        let passed = now.since(self.at);
        self.shown + if self.ppm == 0 { passed } else { scaled(passed, MILLION + self.ppm, MILLION, false) }
    }

    /// The first true instant at which it shows this, or more.
    pub(crate) fn when(&self, shown: Instant) -> Instant {
        let to_pass = shown.since(self.shown);
        self.at + if self.ppm == 0 { to_pass } else { scaled(to_pass, MILLION, MILLION + self.ppm, true) }
    }

    /// From now on it is too fast by so many millionths.
    pub(crate) fn set_rate(&mut self, now: Instant, ppm: i64) {
        *self = Self { at: now, shown: self.shows(now), ppm };
    }

    /// It jumps ahead.
    pub(crate) fn jump(&mut self, now: Instant, by: Duration) {
        *self = Self { at: now, shown: self.shows(now) + by, ppm: self.ppm };
    }

    /// It has shown the same since then.
    pub(crate) fn stood_still(&mut self, since: Instant, now: Instant) {
        *self = Self { at: now, shown: self.shows(since), ppm: self.ppm };
    }
}

fn scaled(duration: Duration, by: i64, of: i64, up: bool) -> Duration {
    let (by, of) = (u128::from(by.unsigned_abs()), u128::from(of.unsigned_abs()));
    let product = duration.as_nanos() * by;
    let nanos = if up { product.div_ceil(of) } else { product / of };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_rings_when_the_clock_first_shows_its_time() {
        let second = Duration::from_secs(1);
        for ppm in [-30_000, -9_000, -1, 0, 7, 30_000] {
            let mut clock = Clock::default();
            clock.set_rate(Instant::from_nanos(5), ppm);
            clock.jump(Instant::from_nanos(17), second);
            for nanos in [2_000_000_003, 3_141_592_653, 77_777_777_777] {
                let alarm = Instant::from_nanos(nanos);
                let rings = clock.when(alarm);
                assert!(clock.shows(rings) >= alarm, "{ppm} {nanos}");
                assert!(clock.shows(rings - Duration::from_nanos(1)) < alarm, "{ppm} {nanos}");
            }
        }
    }

    #[test]
    fn a_clock_that_stood_still_goes_on_where_it_stood() {
        let mut clock = Clock::default();
        let (from, until) = (Instant::from_nanos(100), Instant::from_nanos(900));
        clock.stood_still(from, until);
        assert_eq!(clock.shows(until), from);
        assert_eq!(clock.shows(until + Duration::from_nanos(3)), from + Duration::from_nanos(3));
    }
}
