//! The instant that the state machines reckon with.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on a clock that never goes back and that also counts while the machine is suspended.
///
/// Core never reads a clock: the driver of a state machine passes the present in. The driver chooses where zero lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The last instant there is, 584 years after zero: "never".
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant that lies `nanos` nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this instant; zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::FAR_FUTURE`], so that a wait of `Duration::MAX` is a wait without end.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at the clock's zero.
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let start = Instant::from_nanos(5);
        assert_eq!(start + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(start - Duration::from_secs(1), Instant::from_nanos(0));
        assert_eq!(start.since(start + Duration::from_secs(1)), Duration::ZERO);
    }
}
