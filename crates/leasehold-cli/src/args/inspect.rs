//! `leasehold inspect`.

use clap::Args;

/// Show the holders, waiters and problems of one lock
///
/// For a semaphore, the command searches for the processes that hold its permits. The search reads the names of all
/// keys of the server, and ends after 5 s. Announced processes publish their permits within two seconds of the
/// acquire. A line on stderr lists the permits without a known process.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold inspect backup\n  leasehold inspect backup --json | jq .holders[0].process"
)]
pub(crate) struct InspectOptions {
    /// Name of the lock
    pub(crate) name: String,
    /// Exit with 75 if the lock is held or no permit is available, for scripts
    #[arg(long)]
    pub(crate) check: bool,
}
