//! `leasehold watch`.

use super::every::at_least_10ms;
use clap::Args;
use std::time::Duration;

/// Print the grants, releases and losses of matching locks
///
/// The command compares successive scans. It prints a line for each grant, release, loss and change of the number of
/// waiters, with the time in UTC. It misses holds that start and end between two scans. A hold counts as lost if its
/// lease may have expired; the command cannot distinguish a release from a force release. An outage prints one line
/// when it starts and one when it ends. Ctrl-C ends the command with exit code 0.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold watch backup\n  leasehold watch 'stock:*' --every 2s\n  leasehold watch '*' --json | jq 'select(.event == \"lost\")'"
)]
pub(crate) struct WatchOptions {
    /// Name, or pattern of lock names; quote a pattern for the shell
    pub(crate) pattern: String,
    /// Scan interval, at least 10ms
    #[arg(long, value_name = "TIME", value_parser = at_least_10ms, default_value = "500ms")]
    pub(crate) every: Duration,
}
