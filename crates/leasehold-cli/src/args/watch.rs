//! `leasehold watch`.

use super::every::at_least_10ms;
use clap::Args;
use std::time::Duration;

/// Tell what happens to the locks whose names fit a pattern
///
/// It looks again and again, and prints a line for each grant, release, loss and change of the number of waiters between two looks, with the
/// time of day in UTC. A hold that came and went between two looks is not seen. A hold is lost if its lease can have run out; the server does
/// not tell a release from a force release. If the server goes away, that is one line, and another one when it is back. The interrupt key ends it with the exit code 0.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold watch backup\n  leasehold watch 'stock:*' --every 2s\n  leasehold watch '*' --json | jq 'select(.event == \"lost\")'"
)]
pub(crate) struct WatchOptions {
    /// The name, or the pattern of the names in quotes
    pub(crate) pattern: String,
    /// The time between two looks, 10ms at the least
    #[arg(long, value_name = "TIME", value_parser = at_least_10ms, default_value = "500ms")]
    pub(crate) every: Duration,
}
