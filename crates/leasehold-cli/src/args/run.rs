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

The command sees LEASEHOLD_NAME, LEASEHOLD_HOLDER, LEASEHOLD_HOLDERS and, with --fenced, LEASEHOLD_FENCING_TOKEN.

Signals: TERM, INT, HUP, QUIT, USR1, USR2, WINCH and those of timers and limits are passed on to the command and its process group. All but
USR1, USR2 and WINCH end the wait for the lock at once. Ctrl-Z stops both; while they are stopped the lock is not renewed.

When the renewals fail, the command's process group gets SIGTERM --grace before the lease ends, and SIGKILL before it ends. After
--max-hold, and when the lock was removed from the server, it gets SIGTERM, and SIGKILL after --grace. On Linux the command itself is
killed when leasehold is killed by SIGKILL; its own children are not, so a lock that must survive that needs a fencing token.";

/// Run a command while a lock is held
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct RunOptions {
    /// The name of the lock; put a name that begins with a dash after --, and another -- before the command
    pub(crate) name: String,
    /// Serve the waiters in the order in which they came
    #[arg(long, help_heading = "Kind of lock")]
    pub(crate) fair: bool,
    /// Give the command a fencing token, which grows with every grant
    #[arg(long, help_heading = "Kind of lock")]
    pub(crate) fenced: bool,
    /// Take the read half of a read-write lock, which many may hold at once
    #[arg(long, conflicts_with_all = ["fair", "fenced", "permits", "write"], help_heading = "Kind of lock")]
    pub(crate) read: bool,
    /// Take the write half of a read-write lock
    #[arg(long, conflicts_with_all = ["fair", "fenced", "permits"], help_heading = "Kind of lock")]
    pub(crate) write: bool,
    /// Run up to this many commands at once; every run needs an equal number, which `leasehold permits` changes
    #[arg(long, value_name = "N", conflicts_with_all = ["fair", "fenced"], value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)), help_heading = "Kind of lock")]
    pub(crate) permits: Option<u32>,
    /// Wait at most this long for the server and the lock together, such as 500ms, 30s or 1h30m; the server gets at
    /// least 1s [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Times")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait: fail if the lock is busy, if no server listens, or if the server does not answer for 3s
    #[arg(long = "try", conflicts_with = "wait", help_heading = "Times")]
    pub(crate) try_once: bool,
    /// After a crash the lock is free within this time; it is renewed after a third of it [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Times")]
    pub(crate) lease: Option<Duration>,
    /// Stop the command after this time, and release the lock when it has ended
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Times")]
    pub(crate) max_hold: Option<Duration>,
    /// Keep the lock busy for at least this long after its grant, even after the command has ended, so that a short job
    /// runs once although its schedule fires on several machines
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["fair", "read", "write", "permits"], help_heading = "Times")]
    pub(crate) at_least: Option<Duration>,
    /// The time between SIGTERM and SIGKILL when the command is stopped; at most a third of the lease if renewals fail
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "10s", help_heading = "Times")]
    pub(crate) grace: Duration,
    /// The exit code when the lock is busy
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = failure::Exit::Busy as u8)]
    pub(crate) busy_exit: u8,
    /// Print nothing about a busy lock or a long wait; keep errors and the command's own output
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The command, after `--`; it runs without a shell
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
