//! `leasehold inspect`.

use clap::Args;

/// Show the holders, waiters and problems of one lock
///
/// For a semaphore, the command also searches for the processes that hold its permits. The search scans all keys of the
/// server, and stops after 5 s. Announced processes publish a permit within two seconds of the acquire. A line on
/// stderr counts the permits whose process is unknown.
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
