//! `leasehold inspect`.

use clap::Args;

/// Show who holds a lock and who waits for it
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold inspect backup\n  leasehold inspect backup --json | jq .holders[0].process"
)]
pub(crate) struct InspectOptions {
    /// The name of the lock
    pub(crate) name: String,
}
