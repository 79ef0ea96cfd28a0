//! `leasehold inspect`.

use clap::Args;

/// Show who holds a lock and who waits for it
///
/// Announced processes publish their permits of a semaphore within two seconds of the acquire. The search for these
/// processes reads the names of all keys of the server, for at most 5 s. A line on stderr names what is unknown.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold inspect backup\n  leasehold inspect backup --json | jq .holders[0].process"
)]
pub(crate) struct InspectOptions {
    /// The name of the lock
    pub(crate) name: String,
    /// For scripts: exit with 75 if the lock is held, or no permit is available
    #[arg(long)]
    pub(crate) check: bool,
}
