//! A limit of calls in flight that adapts to the round trip.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The number of calls that may be in flight while others wait.
///
/// It grows while replies take about as long as the quickest one, which is the round trip. Slower replies mean a queue at the server, and
/// more calls in flight would only lengthen it. TCP Vegas uses the same sign.
#[derive(Debug)]
pub(super) struct Window {
    bounds: RangeInclusive<usize>,
    size: usize,
    /// How long the quickest reply took.
    quickest: Duration,
}

impl Window {
    /// A window that may be as large as this, and that begins with the least size.
    pub(super) const fn new(bounds: RangeInclusive<usize>) -> Self {
        Self { size: *bounds.start(), bounds, quickest: Duration::MAX }
    }

    /// Whether one more call may be sent beside these in flight.
    pub(super) const fn has_room(&self, in_flight: usize) -> bool {
        in_flight < self.size
    }

    /// A reply came after `took`, and more calls wait.
    pub(super) fn answered(&mut self, took: Duration) {
        self.quickest = self.quickest.min(took);
        let is_quick = took <= self.quickest.saturating_mul(2);
        self.size =
            if is_quick { self.size + 1 } else { self.size - 1 }.clamp(*self.bounds.start(), *self.bounds.end());
    }

    /// No reply came: the server may be overloaded.
    pub(super) const fn not_answered(&mut self) {
        self.size = *self.bounds.start();
    }

    /// No call waits. The next calls are measured by their own round trip.
    pub(super) const fn begin_anew(&mut self) {
        self.size = *self.bounds.start();
        self.quickest = Duration::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_grows_while_replies_are_quick() {
        let round_trip = Duration::from_millis(100);
        let mut window = Window::new(64..=1_024);
        assert!(window.has_room(63) && !window.has_room(64));
        (0..2_000).for_each(|_| window.answered(round_trip));
        assert!(window.has_room(1_023) && !window.has_room(1_024), "it has another end");
        (0..24).for_each(|_| window.answered(round_trip * 2 + Duration::from_millis(1)));
        assert!(window.has_room(999) && !window.has_room(1_000), "a queue at the server does not make it smaller");
        window.not_answered();
        assert!(window.has_room(63) && !window.has_room(64), "a reply that is missing does not close it");
        (0..10).for_each(|_| window.answered(round_trip));
        window.begin_anew();
        assert!(!window.has_room(64), "the next crowd does not begin anew");
        window.answered(round_trip * 3);
        assert!(window.has_room(64), "the next crowd is measured by the last one's round trip");
    }
}
