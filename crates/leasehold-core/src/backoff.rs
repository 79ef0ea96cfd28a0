//! The pauses between attempts, for polling waiters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A waiter's pauses between attempts at a busy lock, and its maximum number of attempts.
///
/// Used only by kinds without release notices: the spin lock and the simple lock.
///
/// # Examples
///
/// ```
/// use leasehold_core::backoff::Backoff;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let backoff = Backoff::exponential(ms(1), ms(128)).max_attempts(10);
/// assert!(backoff.pause(1, 0.999).unwrap() <= ms(1));
/// assert!(backoff.pause(9, 0.999).unwrap() <= ms(128));
/// assert_eq!(backoff.pause(10, 0.5), None, "the tenth attempt was the last");
/// ```
#[derive(Clone)]
pub struct Backoff {
    shape: Shape,
    attempts: Option<u32>,
}

#[derive(Clone)]
enum Shape {
    Exponential { first: Duration, most: Duration },
    Linear { step: Duration, most: Duration },
    Constant(Duration),
    Custom(Arc<dyn Fn(u32) -> Option<Duration> + Send + Sync>),
}

/// The minimum pause. It prevents a busy loop under every configuration.
const LEAST: Duration = Duration::from_millis(1);

impl Backoff {
    /// Exponential back-off with full jitter ("Exponential Backoff And Jitter", Brooker, 2015). The upper bound starts
    /// at `first`, doubles after each failure, and stops at `most`.
    pub const fn exponential(first: Duration, most: Duration) -> Self {
        Self { shape: Shape::Exponential { first, most }, attempts: None }
    }

    /// Pauses that grow by `step` after each failure, up to `most`.
    pub const fn linear(step: Duration, most: Duration) -> Self {
        Self { shape: Shape::Linear { step, most }, attempts: None }
    }

    /// A constant pause after each failure.
    pub const fn constant(pause: Duration) -> Self {
        Self { shape: Shape::Constant(pause), attempts: None }
    }

    /// Custom pauses: `pause` maps the number of failures, from 1, to the next pause. `None` ends the wait. The closure
    /// runs in the waiting future, without a lock, so it may use the client.
    pub fn custom(pause: impl Fn(u32) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self { shape: Shape::Custom(Arc::new(pause)), attempts: None }
    }

    /// Returns `true` if the pauses come from the caller's code, which must not run under a lock of the client.
    #[doc(hidden)]
    pub const fn is_custom(&self) -> bool {
        matches!(self.shape, Shape::Custom(_))
    }

    /// Ends the wait after this many failed attempts.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// The pause after `failures` failed attempts; `None` ends the wait. `random` is between 0 and 1.
    #[doc(hidden)]
    pub fn pause(&self, failures: u32, random: f64) -> Option<Duration> {
        if self.attempts.is_some_and(|most| failures >= most) {
            return None;
        }
        let pause = match &self.shape {
            Shape::Exponential { first, most } => {
                let doublings = failures.saturating_sub(1).min(31);
                first.saturating_mul(1 << doublings).min(*most).mul_f64(random.clamp(0.0, 1.0))
            }
            Shape::Linear { step, most } => step.saturating_mul(failures).min(*most),
            Shape::Constant(pause) => *pause,
            Shape::Custom(pause) => pause(failures)?,
        };
        Some(pause.max(LEAST))
    }
}

impl Default for Backoff {
    /// Exponential, from 2 ms to 128 ms.
    fn default() -> Self {
        Self::exponential(Duration::from_millis(2), Duration::from_millis(128))
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: &dyn fmt::Debug = match &self.shape {
            Shape::Exponential { first, most } => &("exponential", first, most),
            Shape::Linear { step, most } => &("linear", step, most),
            Shape::Constant(pause) => &("constant", pause),
            Shape::Custom(_) => &"custom",
        };
        f.debug_struct("Backoff").field("shape", shape).field("attempts", &self.attempts).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn exponential_backoff_doubles_to_its_limit_and_spreads() {
        let backoff = Backoff::exponential(ms(2), ms(100));
        assert_eq!(backoff.pause(1, 1.0), Some(ms(2)));
        assert_eq!(backoff.pause(4, 1.0), Some(ms(16)));
        assert_eq!(backoff.pause(4, 0.5), Some(ms(8)));
        assert_eq!(backoff.pause(u32::MAX, 1.0), Some(ms(100)));
        assert_eq!(backoff.pause(4, 0.0), Some(LEAST));
    }

    #[test]
    fn linear_constant_and_the_callers_own() {
        assert_eq!(Backoff::linear(ms(3), ms(10)).pause(2, 0.3), Some(ms(6)));
        assert_eq!(Backoff::linear(ms(3), ms(10)).pause(9, 0.3), Some(ms(10)));
        assert_eq!(Backoff::constant(ms(7)).pause(99, 0.0), Some(ms(7)));
        let own = Backoff::custom(|failures| (failures < 3).then_some(ms(u64::from(failures))));
        assert_eq!(own.pause(2, 0.9), Some(ms(2)));
        assert_eq!(own.pause(3, 0.9), None);
        assert_eq!(own.max_attempts(2).pause(2, 0.9), None);
    }

    #[test]
    fn nothing_makes_a_waiter_ask_without_a_break() {
        for backoff in [Backoff::constant(Duration::ZERO), Backoff::custom(|_| Some(Duration::ZERO))] {
            assert_eq!(backoff.pause(1, 0.0), Some(LEAST));
        }
        assert!(Backoff::linear(Duration::MAX, Duration::MAX).pause(3, 0.1).is_some());
    }
}
