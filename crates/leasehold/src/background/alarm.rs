//! The instant until which the background sleeps, as callers see it.

use leasehold_core::time::Instant;

/// Callers set timers and take them back all the time, most of them long before they are due. So an instant that the background was told to
/// wake up at stays until it has come, whatever becomes of its timer: the background wakes up once for nothing, and not once for each timer.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Instant>);

impl Alarm {
    /// A timer of a caller is due at `due`. Says whether the background is to be woken, because it sleeps for longer. It is woken once: it
    /// looks at all timers before it sleeps again.
    #[must_use]
    pub(crate) fn bring_forward(&mut self, due: Option<Instant>) -> bool {
        let is_earlier = due.is_some_and(|due| self.0.is_none_or(|at| due < at));
        if is_earlier {
            self.0 = due;
        }
        is_earlier
    }

    /// The background goes to sleep while the next timer is due at `due`. Gives the instant until which it sleeps; `None` where that is until
    /// it is woken.
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
