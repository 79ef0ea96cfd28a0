//! The settings of a link, with their defaults.

use super::network::Network;
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

/// Minimum number of calls in a batch. Fewer calls are cheaper alone.
const BATCH_FROM: usize = 4;

/// The timing of a link, and its network.
#[derive(Clone, Debug)]
pub(crate) struct LinkSettings {
    /// How long the background waits for a reply, and how long nothing may be heard from its connections. At least 10 ms.
    pub(crate) command_timeout: Duration,
    /// How long a client tries to connect before it gives up for good, when it is built.
    pub(crate) connect_deadline: Duration,
    /// By which command release notices go.
    pub(crate) publish: Publish,
    /// How often sharded subscriptions and idle connections are checked. A server forgets such subscriptions in silence
    /// when their slot moves away, and proxies forget connections that rest for long.
    pub(crate) audit_interval: Duration,
    /// Minimum number of calls written together that are sent as one command. `None`: no batches.
    pub(crate) batch_from: Option<usize>,
    pub(crate) network: Network,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            command_timeout: Duration::from_secs(1),
            connect_deadline: Duration::from_secs(10),
            publish: Publish::Auto,
            audit_interval: Duration::from_secs(5),
            batch_from: Some(BATCH_FROM),
            network: Network::System,
        }
    }
}

impl LinkSettings {
    /// How long one attempt to connect may take. A handshake takes several round trips, and more over TLS.
    pub(super) fn attempt(&self) -> Duration {
        self.command_timeout.saturating_mul(2)
    }
}

/// The waits between attempts to reconnect: none before the first, then 50 ms, doubled with each one that fails up to 2 s, with up
/// to a quarter added at random, so that a fleet does not come back in step. A connection that was made is no failure, however
/// soon it is lost: the server is there, and answers. The wait after such connections stays short.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    /// How many connections in a row were lost soon after they had been made.
    brief: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LAST: Duration = Duration::from_secs(2);
    /// Between the first connection that was lost soon and the next attempt. Each further one doubles the wait up to
    /// [`Self::LAST_BRIEF`], so that a server which ends every connection is not overrun.
    const BRIEF: Duration = Duration::from_millis(10);
    const LAST_BRIEF: Duration = Duration::from_millis(40);
    /// A connection that stood for less was lost soon.
    const STOOD: Duration = Duration::from_secs(1);

    /// How long to wait before the next attempt.
    pub(super) fn next(&mut self, network: &Network) -> Duration {
        let wait = match self.attempts {
            0 => match self.brief {
                0 => Duration::ZERO,
                n => Self::BRIEF.saturating_mul(1 << (n - 1).min(8)).min(Self::LAST_BRIEF),
            },
            n => Self::FIRST.saturating_mul(1 << (n - 1).min(8)).min(Self::LAST),
        };
        self.attempts = self.attempts.saturating_add(1);
        wait + wait / 4 * u32::from(network.jitter()) / 256
    }

    /// How long to wait after an attempt that was made unasked, and failed.
    pub(super) fn after_failure(&mut self, network: &Network) -> Duration {
        self.attempts = self.attempts.max(1);
        self.next(network)
    }

    /// A connection was made, was answered on, and stood for so long.
    pub(super) fn stood(&mut self, time: Duration) {
        self.attempts = 0;
        self.brief = if time < Self::STOOD { self.brief.saturating_add(1) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_nothing_to_two_seconds_and_a_quarter() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(&Network::System), Duration::ZERO);
        let mut floor = Duration::from_millis(50);
        for _ in 0..20 {
            let wait = backoff.next(&Network::System);
            assert!(wait >= floor && wait <= floor + floor / 4, "{wait:?} for {floor:?}");
            floor = (floor * 2).min(Duration::from_secs(2));
        }
        backoff.stood(Duration::from_secs(1));
        assert_eq!(backoff.next(&Network::System), Duration::ZERO);
    }

    #[test]
    fn connections_that_are_lost_soon_are_no_failures() {
        let mut backoff = Backoff::default();
        backoff.next(&Network::System);
        for floor in [10, 20, 40, 40, 40].map(Duration::from_millis) {
            backoff.stood(Duration::ZERO);
            let wait = backoff.next(&Network::System);
            assert!(wait >= floor && wait <= floor + floor / 4, "{wait:?} for {floor:?}");
        }
        // From there on it fails: the waits grow as after any other connection.
        let waits = [(); 3].map(|()| backoff.next(&Network::System));
        assert!(
            waits[0] >= Backoff::FIRST && waits[1] >= Backoff::FIRST * 2 && waits[2] >= Backoff::FIRST * 4,
            "{waits:?}"
        );
    }
}
