//! `leasehold unlock`.

use clap::Args;

/// Free a lock that another process holds
///
/// The holder is not asked: it learns of it at its next renewal, and may go on with its work until then. If you can, stop the holder instead. A
/// holder that has died loses the lock by itself when its lease has run out. A semaphore has permits and no holder, so
/// this does not free it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold unlock backup\n  leasehold unlock backup --holder 6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:7 --yes"
)]
pub(crate) struct UnlockOptions {
    /// The name of the lock
    pub(crate) name: String,
    /// Free it only from this holder, as `inspect` shows it
    #[arg(long, value_name = "ID")]
    pub(crate) holder: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}
