//! The time limits of `run` for server and lock, both measured from the start.

use crate::args::RunOptions;
use crate::failure::{Exit, Failure};
use std::time::{Duration, Instant};

/// The time limit of `--try` to connect.
const TRY_HAS: Duration = Duration::from_secs(3);

/// The minimum time to connect, even for a shorter `--wait`. Then `run` tries the lock once.
const LEAST: Duration = Duration::from_secs(1);

/// The minimum time for a reply after a slow connect.
const LEAST_FOR_AN_ANSWER: Duration = Duration::from_millis(500);

/// The time limits of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    begun: Instant,
    wait: Wait,
}

/// The wait for the lock.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Try,
    AtMost(Duration),
    Endless,
}

impl Times {
    /// Creates the time limits from the options, and starts the clock.
    pub(super) fn of(options: &RunOptions) -> Self {
        let wait = match options.wait {
            _ if options.try_once => Wait::Try,
            Some(wait) => Wait::AtMost(wait),
            None => Wait::Endless,
        };
        Self { begun: Instant::now(), wait }
    }

    /// Returns whether to wait for an unreachable server or a busy lock.
    pub(super) const fn waits(self) -> bool {
        !matches!(self.wait, Wait::Try)
    }

    /// Returns the option that sets the limit.
    pub(super) const fn option(self) -> &'static str {
        if self.waits() { "--wait" } else { "--try" }
    }

    /// Returns whether another attempt may begin after a pause.
    pub(super) fn allow(self, pause: Duration) -> bool {
        self.waits() && self.for_lock() > pause
    }

    /// Returns how long to wait for the server. `None` for no limit.
    pub(super) fn for_server(self) -> Option<Duration> {
        match self.wait {
            Wait::Try => Some(TRY_HAS),
            Wait::AtMost(wait) => Some(wait.max(LEAST)),
            Wait::Endless => None,
        }
    }

    /// Returns the remaining time to wait for the lock.
    pub(super) fn for_lock(self) -> Duration {
        match self.wait {
            Wait::Try => Duration::ZERO,
            Wait::AtMost(wait) => wait.saturating_sub(self.begun.elapsed()),
            Wait::Endless => Duration::MAX,
        }
    }

    /// Runs the setup before the acquire within the time limit for the server.
    ///
    /// # Errors
    ///
    /// The error of the setup, or a timeout, whose message starts with `what`.
    pub(super) async fn prepare<T>(
        self,
        what: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(limit) = self.for_server() else { return work.await };
        let left = limit.saturating_sub(self.begun.elapsed()).max(LEAST_FOR_AN_ANSWER);
        // Prefer this message to that of a simultaneous command timeout.
        tokio::select! {
            biased;
            () = tokio::time::sleep(left) => {
                Err(Failure::new(Exit::Unreachable, format!("{what}: no reply within {limit:?}")))
            }
            done = work => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(wait: Wait) -> Times {
        Times { begun: Instant::now(), wait }
    }

    #[test]
    fn server_has_at_least_a_second_and_the_lock_what_is_left() {
        let seconds = Duration::from_secs;
        for (wait, server) in [
            (Wait::Try, Some(seconds(3))),
            (Wait::AtMost(Duration::from_millis(10)), Some(seconds(1))),
            (Wait::AtMost(seconds(5)), Some(seconds(5))),
            (Wait::Endless, None),
        ] {
            assert_eq!(times(wait).for_server(), server, "{wait:?}");
        }
        assert_eq!(times(Wait::Try).for_lock(), Duration::ZERO);
        assert_eq!(times(Wait::Endless).for_lock(), Duration::MAX);
        let begun = Instant::now().checked_sub(seconds(2)).expect("a machine that is up for a while");
        let left = Times { begun, wait: Wait::AtMost(seconds(500)) }.for_lock();
        assert!(left <= seconds(498) && left > seconds(400), "{left:?}");
    }
}
