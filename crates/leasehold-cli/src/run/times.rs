//! How long `run` waits for the server and for the lock. Both are counted from the start of the command.

use crate::args::RunOptions;
use crate::failure::{Exit, Failure};
use std::time::{Duration, Instant};

/// How long `--try` may take to connect. It is about a lock that others hold, and a server that is alive takes a few round trips.
const TRY_HAS: Duration = Duration::from_secs(3);

/// The time for the server that a shorter `--wait` has all the same: its lock is asked for once then.
const LEAST: Duration = Duration::from_secs(1);

/// The time for an answer after connecting, where connecting has left less. A server far away needs most of a short wait for that, and is asked
/// all the same.
const LEAST_FOR_AN_ANSWER: Duration = Duration::from_millis(500);

/// The times of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    begun: Instant,
    wait: Wait,
}

/// How long the lock is waited for.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Try,
    AtMost(Duration),
    Endless,
}

impl Times {
    /// The times that options give a command which begins now.
    pub(super) fn of(options: &RunOptions) -> Self {
        let wait = match options.wait {
            _ if options.try_once => Wait::Try,
            Some(wait) => Wait::AtMost(wait),
            None => Wait::Endless,
        };
        Self { begun: Instant::now(), wait }
    }

    /// Whether to wait for an unreachable server or a busy lock.
    pub(super) const fn waits(self) -> bool {
        !matches!(self.wait, Wait::Try)
    }

    /// The option that sets the limit.
    pub(super) const fn option(self) -> &'static str {
        if self.waits() { "--wait" } else { "--try" }
    }

    /// Whether another attempt may begin after a pause.
    pub(super) fn allow(self, pause: Duration) -> bool {
        self.waits() && self.for_lock() > pause
    }

    /// The time limit of the wait for the server; `None` for no limit.
    pub(super) fn for_server(self) -> Option<Duration> {
        match self.wait {
            Wait::Try => Some(TRY_HAS),
            Wait::AtMost(wait) => Some(wait.max(LEAST)),
            Wait::Endless => None,
        }
    }

    /// How long the lock may be waited for from now on.
    pub(super) fn for_lock(self) -> Duration {
        match self.wait {
            Wait::Try => Duration::ZERO,
            Wait::AtMost(wait) => wait.saturating_sub(self.begun.elapsed()),
            Wait::Endless => Duration::MAX,
        }
    }

    /// Does what comes before the wait for the lock, within the time for the server.
    ///
    /// # Errors
    ///
    /// Its own, or the time is over. `what` says in a sentence what is missing then.
    pub(super) async fn prepare<T>(
        self,
        what: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(limit) = self.for_server() else { return work.await };
        let left = limit.saturating_sub(self.begun.elapsed()).max(LEAST_FOR_AN_ANSWER);
        // A call has its own time, which may end in the same moment. Its words say less.
        tokio::select! {
            biased;
            () = tokio::time::sleep(left) => {
                Err(Failure::new(Exit::Unreachable, format!("{what}: the server did not answer within {limit:?}")))
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
