//! The heartbeat of a lock's waiters, where the server wants to be told that they live.

use crate::time::Instant;

/// When the server is told next, and whether it is being told now.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    next: Option<Instant>,
    call: Call,
}

/// The call that tells the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Call {
    /// None is under way.
    #[default]
    None,
    /// One is under way.
    UnderWay,
    /// One is under way, and another is wanted as soon as it is answered: something has come up since it was sent.
    UnderWayAndAgain,
}

impl Heartbeat {
    /// None is planned, and none is under way.
    pub(crate) const fn new() -> Self {
        Self { next: None, call: Call::None }
    }

    /// When the next heartbeat is due.
    pub(crate) const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Whether one is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.call != Call::None
    }

    /// Whether one is planned or under way.
    pub(crate) fn goes_on(&self) -> bool {
        self.next.is_some() || self.is_under_way()
    }

    /// The next one is due at this instant.
    pub(crate) const fn plan(&mut self, at: Instant) {
        self.next = Some(at);
    }

    /// Takes the plan of one that is due now. Says whether there was one.
    #[must_use]
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        self.next.take_if(|at| *at <= now).is_some()
    }

    /// Begins a call. Where one is under way already, another is wanted after it, and this says `false`.
    #[must_use]
    pub(crate) fn begin(&mut self) -> bool {
        let free = self.call == Call::None;
        self.call = if free { Call::UnderWay } else { Call::UnderWayAndAgain };
        free
    }

    /// The call is answered. Says whether another is wanted at once.
    #[must_use]
    pub(crate) fn answered(&mut self) -> bool {
        std::mem::take(&mut self.call) == Call::UnderWayAndAgain
    }

    /// No request waits any more: no other call is wanted.
    pub(crate) fn end(&mut self) {
        self.next = None;
        if self.is_under_way() {
            self.call = Call::UnderWay;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn heartbeat_wanted_during_a_call_follows_it() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.plan(NOW);
        assert!(heartbeat.take_due(NOW) && !heartbeat.take_due(NOW), "one plan is one call");
        assert!(heartbeat.begin() && heartbeat.is_under_way());
        assert!(!heartbeat.begin(), "one call at a time");
        assert!(heartbeat.answered() && !heartbeat.goes_on());
        assert!(heartbeat.begin() && !heartbeat.answered());
    }

    #[test]
    fn heartbeat_is_not_repeated_for_an_empty_line() {
        let mut heartbeat = Heartbeat::default();
        assert!(heartbeat.begin() && !heartbeat.begin());
        heartbeat.plan(NOW);
        heartbeat.end();
        assert!(heartbeat.is_under_way() && heartbeat.next().is_none());
        assert!(!heartbeat.answered());
    }
}
