//! The settings of a link, with their defaults.

use super::network::Network;
use std::time::Duration;

/// The Pub/Sub commands for release notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Publish {
    /// As Redisson does: `SPUBLISH` on a cluster that supports it, else `PUBLISH`.
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
    /// The background's timeout for a reply, and for silence on its connections. At least 10 ms.
    pub(crate) command_timeout: Duration,
    /// The connect deadline when a client is built.
    pub(crate) connect_deadline: Duration,
    /// The Pub/Sub commands for release notices.
    pub(crate) publish: Publish,
    /// The interval of checks of sharded subscriptions and idle connections. A server silently drops such subscriptions
    /// when their slot moves away, and proxies drop idle connections.
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
    /// The time limit of one connect attempt. A handshake takes several round trips, and more over TLS.
    pub(super) fn attempt(&self) -> Duration {
        self.command_timeout.saturating_mul(2)
    }
}

/// The delays between reconnects: none before the first, then 50 ms, doubled after each failure up to 2 s. A random
/// extra of up to a quarter spreads the reconnects of a fleet. A short-lived connection is not a failure, because the
/// server is up and replies, so the delay stays short.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    /// Number of consecutive short-lived connections.
    brief: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LAST: Duration = Duration::from_secs(2);
    /// The delay after the first short-lived connection. Each further one doubles it up to [`Self::LAST_BRIEF`], so
    /// that a server which ends every connection is not overrun.
    const BRIEF: Duration = Duration::from_millis(10);
    const LAST_BRIEF: Duration = Duration::from_millis(40);
    /// A connection with a shorter life is short-lived.
    const STOOD: Duration = Duration::from_secs(1);

    /// The delay before the next attempt.
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

    /// The delay after a failed attempt without demand.
    pub(super) fn after_failure(&mut self, network: &Network) -> Duration {
        self.attempts = self.attempts.max(1);
        self.next(network)
    }

    /// Records a connection that got a reply, and its lifetime.
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
        // From here on it fails, and the delays grow as after any other connection.
        let waits = [(); 3].map(|()| backoff.next(&Network::System));
        assert!(
            waits[0] >= Backoff::FIRST && waits[1] >= Backoff::FIRST * 2 && waits[2] >= Backoff::FIRST * 4,
            "{waits:?}"
        );
    }
}
