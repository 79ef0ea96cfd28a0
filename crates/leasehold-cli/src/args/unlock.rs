//! `leasehold unlock`.

use clap::Args;

/// Free a lock that another process holds
///
/// The holder gets no notice: it finds the loss at its next renewal, and may keep working until then. If you can, stop
/// the holder instead. The lock of a dead holder is free when its lease ends, without this command.
///
/// For a semaphore, --holder frees one permit, or all permits of one hold.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold unlock backup\n  leasehold unlock backup --holder 6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:7 --yes\n  \
                  leasehold unlock --process 4711@web-3\n  leasehold unlock --process 6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55"
)]
pub(crate) struct UnlockOptions {
    /// The name of the lock
    #[arg(required_unless_present = "process")]
    pub(crate) name: Option<String>,
    /// Free it only from this holder, or free only this permit, as `inspect` shows it
    #[arg(long, value_name = "ID")]
    pub(crate) holder: Option<String>,
    /// Free every lock and permit of this process, as `inspect` shows it
    ///
    /// Use its process id and host while its record is on the server, up to a minute after its death; or the part of a
    /// holder before the colon. This does not remove waiters; a queue skips the waiters of a dead process anyway.
    #[arg(long, value_name = "PID@HOST or ID", conflicts_with_all = ["name", "holder"])]
    pub(crate) process: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}
