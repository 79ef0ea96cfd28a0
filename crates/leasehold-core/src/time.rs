//! The instants of the state machines.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on a monotonic clock that also counts while the machine is suspended.
///
/// Core never reads a clock: the driver of a state machine passes the current time and chooses the zero point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    /// The nanoseconds plus one, so an `Option` needs no extra space. Holds and requests contain many optional
    /// instants.
    after_zero: NonZeroU64,
}

impl Instant {
    /// The last instant, 584 years after zero: "never".
    pub const FAR_FUTURE: Self = Self { after_zero: NonZeroU64::MAX };

    /// The instant `nanos` nanoseconds after zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { after_zero: NonZeroU64::MIN.saturating_add(nanos) }
    }

    /// Nanoseconds since zero.
    pub const fn as_nanos(self) -> u64 {
        self.after_zero.get() - 1
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

impl Default for Instant {
    /// The clock's zero.
    fn default() -> Self {
        Self::from_nanos(0)
    }
}

impl Hash for Instant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_nanos().hash(state);
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.as_nanos()).finish()
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::FAR_FUTURE`], so a wait of `Duration::MAX` has no end.
    fn add(self, duration: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at the clock's zero.
    fn sub(self, duration: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos(duration)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_instant_is_no_larger() {
        assert_eq!(size_of::<Option<Instant>>(), size_of::<u64>());
        assert_eq!((Instant::default().as_nanos(), Instant::from_nanos(7).as_nanos()), (0, 7));
        assert_eq!(Instant::from_nanos(u64::MAX), Instant::FAR_FUTURE);
    }

    #[test]
    fn arithmetic_saturates() {
        let start = Instant::from_nanos(5);
        assert_eq!(start + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(start - Duration::from_secs(1), Instant::from_nanos(0));
        assert_eq!(start.since(start + Duration::from_secs(1)), Duration::ZERO);
    }
}
