//! The instant until which the background sleeps.

use leasehold_core::time::Instant;

/// Callers often set timers and cancel them before they are due. An alarm therefore stays set when its timer is cancelled: the background
/// wakes up once in vain, instead of once for each timer.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Instant>);

impl Alarm {
    /// Adds a timer that is due at `due`. Returns whether the background must be woken, because it would sleep longer. It is woken once,
    /// because it checks all timers before it sleeps again.
    #[must_use]
    pub(crate) fn bring_forward(&mut self, due: Option<Instant>) -> bool {
        let is_earlier = due.is_some_and(|due| self.0.is_none_or(|at| due < at));
        if is_earlier {
            self.0 = due;
        }
        is_earlier
    }

    /// Sets the alarm for the next timer, which is due at `due`. Returns the instant until which the background sleeps, or `None` if it sleeps
    /// until it is woken.
    pub(crate) fn set(&mut self, now: Instant, due: Option<Instant>) -> Option<Instant> {
        let armed = self.0.filter(|at| *at > now);
        self.0 = [armed, due].into_iter().flatten().min();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn timers_that_are_set_and_taken_back_wake_once() {
        let mut alarm = Alarm::default();
        assert!(alarm.bring_forward(Some(at(50))));
        let woken = (1..50).filter(|millis| {
            // The background comes too late to see the timer.
            assert_eq!(alarm.set(at(*millis), None), Some(at(50)));
            alarm.bring_forward(Some(at(millis + 50)))
        });
        assert_eq!(woken.count(), 0);
        assert_eq!(alarm.set(at(50), None), None, "it has come");
        assert!(alarm.bring_forward(Some(at(100))));
    }

    #[test]
    fn background_never_sleeps_past_a_timer() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.set(at(1), Some(at(50))), Some(at(50)));
        assert!(alarm.bring_forward(Some(at(20))), "it sleeps for longer");
        assert!(!alarm.bring_forward(Some(at(20))), "it is woken already");
        assert!(alarm.bring_forward(Some(at(10))));
        assert_eq!(alarm.set(at(2), Some(at(10))), Some(at(10)));
        assert_eq!(alarm.set(at(3), Some(at(5))), Some(at(5)));
        assert_eq!(alarm.set(at(5), Some(at(5))), Some(at(5)), "what is due now is not put off");
        assert!(!alarm.bring_forward(None));
    }
}
