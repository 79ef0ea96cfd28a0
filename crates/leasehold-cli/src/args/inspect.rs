//! `leasehold inspect`.

use clap::Args;

/// Show who holds a lock and who waits for it
///
/// Processes that announce themselves say which permits of a semaphore they hold, within two seconds after they took them. They are searched for
/// among all keys of the server, for 5 s at the most; a line on stderr says what is not known.
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
