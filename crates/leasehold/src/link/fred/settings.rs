//! What a link can be told, with its defaults.

use std::time::Duration;

/// By which command release notices are published and heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Publish {
    /// As Redisson does: `SPUBLISH` on a cluster that knows it, `PUBLISH` everywhere else.
    #[default]
    Auto,
    /// `PUBLISH` and `SUBSCRIBE`.
    Classic,
    /// `SPUBLISH` and `SSUBSCRIBE`.
    Sharded,
}

/// The timing of a link.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long the lifeline waits for a reply, and how long nothing may be heard from its connections. At least 10 ms.
    pub(crate) command_timeout: Duration,
    /// How long a client tries to connect before it gives up for good, when it is built.
    pub(crate) connect_deadline: Duration,
    /// By which command release notices go.
    pub(crate) publish: Publish,
    /// How often sharded subscriptions are made sure of. A server forgets them in silence when their slot moves away.
    pub(crate) audit_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            command_timeout: Duration::from_secs(1),
            connect_deadline: Duration::from_secs(10),
            publish: Publish::Auto,
            audit_interval: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// How long one attempt to connect may take. A handshake takes several round trips, and more over TLS.
    pub(super) fn attempt(&self) -> Duration {
        self.command_timeout.saturating_mul(2)
    }
}

/// The waits between attempts to reconnect: none before the first, then 50 ms, doubled each time up to 2 s, with up to a
/// quarter added at random, so that a fleet does not come back in step.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LAST: Duration = Duration::from_secs(2);

    /// How long to wait before the next attempt.
    pub(super) fn next(&mut self) -> Duration {
        let wait = match self.attempts {
            0 => Duration::ZERO,
            n => Self::FIRST.saturating_mul(1 << (n - 1).min(8)).min(Self::LAST),
        };
        self.attempts = self.attempts.saturating_add(1);
        // A UUID is random enough for spreading, and is at hand.
        let random = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
        wait + wait / 4 * random / 256
    }

    /// The connection stood for a while.
    pub(super) const fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_nothing_to_two_seconds_and_a_quarter() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(), Duration::ZERO);
        let mut floor = Duration::from_millis(50);
        for _ in 0..20 {
            let wait = backoff.next();
            assert!(wait >= floor && wait <= floor + floor / 4, "{wait:?} for {floor:?}");
            floor = (floor * 2).min(Duration::from_secs(2));
        }
        backoff.reset();
        assert_eq!(backoff.next(), Duration::ZERO);
    }
}
