//! `leasehold run`.

use crate::{duration, failure};
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  leasehold run backup -- pg_dump shop
  leasehold run --try --at-least 5m -q -E 0 nightly-report -- ./report.sh   # once a night, on one of several machines
  leasehold run --wait 30s --fair till:3 -- ./book.sh
  leasehold run --permits 3 supplier -- ./fetch.sh      # at most three at once
  leasehold run --read catalogue -- ./export.sh
  leasehold run --fenced ledger -- sh -c 'echo \"token $LEASEHOLD_FENCING_TOKEN\"'
  leasehold run -- -name -- ./report.sh                 # a name that begins with a dash

The command gets the variables LEASEHOLD_NAME, LEASEHOLD_HOLDER, LEASEHOLD_HOLDERS and, with --fenced, LEASEHOLD_FENCING_TOKEN.

Signals: leasehold forwards TERM, INT, HUP, QUIT, USR1, USR2, WINCH and the signals of timers and resource limits to the command's process
group. Before the grant, all of these except USR1, USR2 and WINCH end the wait for the lock. Ctrl-Z stops leasehold and the command, and a
stopped leasehold does not renew the lock.

If renewals fail, the command's process group gets SIGTERM --grace before the lease ends, and SIGKILL just before the lease ends. After
--max-hold, or if the lock was removed from the server, the group gets SIGTERM, and SIGKILL after --grace. On Linux, SIGKILL to leasehold also
kills the command, but not the command's children. If these must not write without the lock, use a fencing token.";

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct RunOptions {
    /// Name of the lock; put a name that begins with a dash after --, and another -- before the command
    pub(crate) name: String,
    // The ten most used options come first, without a heading.
    /// Wait at most this long for the server and the lock together, such as 500ms, 30s or 1h30m; the server gets at
    /// least 1s [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Fail at once if the lock is busy or no server listens; a silent server gets 3s
    #[arg(long = "try", conflicts_with = "wait")]
    pub(crate) try_once: bool,
    /// Keep the lock busy for at least this long after the grant, even if the command ends earlier
    ///
    /// A short job then runs once although its schedule fires on several machines.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["fair", "read", "write", "permits"])]
    pub(crate) at_least: Option<Duration>,
    /// Stop the command after this time, then release the lock
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,
    /// Print nothing about a busy lock or a long wait; errors and the command's output remain
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Exit with this code if the lock is busy
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = failure::Exit::Busy as u8)]
    pub(crate) busy_exit: u8,
    /// Grant the lock in the order of the requests
    #[arg(long)]
    pub(crate) fair: bool,
    /// Run up to N commands at once; every `run` needs the same N, and `leasehold permits` changes it
    #[arg(long, value_name = "N", conflicts_with_all = ["fair", "fenced"], value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
    /// Pass a fencing token to the command; it grows with every grant
    #[arg(long)]
    pub(crate) fenced: bool,
    /// Lease of the lock, which limits the outage after a crash; renewed after a third of it [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) lease: Option<Duration>,
    /// Acquire the read half of a read-write lock, which many readers can hold at once
    #[arg(long, conflicts_with_all = ["fair", "fenced", "permits", "write"], help_heading = "More options")]
    pub(crate) read: bool,
    /// Acquire the write half of a read-write lock
    #[arg(long, conflicts_with_all = ["fair", "fenced", "permits"], help_heading = "More options")]
    pub(crate) write: bool,
    /// Time between SIGTERM and SIGKILL to the command; at most a third of the lease if renewals fail
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "10s", help_heading = "More options")]
    pub(crate) grace: Duration,
    /// Command and arguments, after `--`; no shell
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
