//! The limit of a wait.

use std::time::Duration;
use tokio::time::Instant;

/// The limit that a caller sets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// From the first poll on.
    For(Duration),
    /// By tokio's clock, whatever clock the client has.
    Until(Instant),
}

impl Wait {
    /// Returns the rest of the wait, at the first poll.
    pub(crate) fn left(self) -> Duration {
        match self {
            Self::For(wait) => wait,
            Self::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
        }
    }
}
