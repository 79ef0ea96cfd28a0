//! `leasehold unlock`.

use clap::Args;

/// Free a lock that another process holds
///
/// The holder receives no notice: it detects the loss at its next renewal, and may keep working until then. Stop the
/// holder instead if possible. A dead holder's lock becomes free without this command when its lease ends.
///
/// For a semaphore, --holder frees one permit, or all permits of one hold.
#[derive(Args, Debug, Default)]
#[command(
    after_help = "Examples:\n  leasehold unlock backup\n  leasehold unlock backup --holder 6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:7 --yes\n  \
                  leasehold unlock --process 4711@web-3\n  leasehold unlock --process @web-3                       # of a dead host\n  leasehold unlock --process 6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55"
)]
pub(crate) struct UnlockOptions {
    /// Name of the lock
    #[arg(required_unless_present = "process")]
    pub(crate) name: Option<String>,
    /// Only end the hold of this holder, or only free this permit; `inspect` shows both ids
    #[arg(long, value_name = "ID")]
    pub(crate) holder: Option<String>,
    /// Free every lock and permit of this process; `inspect` shows it
    ///
    /// PID@HOST requires the record of the process, which expires a minute after the process ends. @HOST means all
    /// processes of a dead host. ID is the part of a holder id before the colon. Waiters stay in their queues; a queue
    /// skips the waiters of a dead process.
    ///
    /// A `run --once` period that the process did not complete reopens. A completed period stays closed, and a lock
    /// that --at-least keeps busy stays busy: free such locks by name.
    #[arg(long, value_name = "PID@HOST, @HOST or ID", conflicts_with_all = ["name", "holder"])]
    pub(crate) process: Option<String>,
    /// Skip the confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}
