//! `leasehold run`.

use super::{At, RecordOptions};
use crate::{duration, failure};
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  leasehold run backup -- pg_dump shop
  leasehold run --once 1d -q nightly-report -- ./report.sh   # once a day, on one of several machines
  leasehold run --wait 30s --fair till:3 -- ./book.sh
  leasehold run --permits 3 supplier -- ./fetch.sh      # at most three at once
  leasehold run -l stock -l orders -- ./reconcile.sh    # both locks at once
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
#[derive(Args, Debug, Default)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct RunOptions {
    /// Name of the lock; put a name that begins with a dash after --, and another -- before the command
    #[arg(required_unless_present = "lock", default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    // The ten most used options come first, without a heading.
    /// Run the command once per PERIOD (1h, 1d, 7d) over all machines, or once per KEY, such as a date
    ///
    /// The other machines exit with 0, or with the code of --busy-exit. A command that fails or is killed has not run: another start in the
    /// same period runs it again. A start while the command runs elsewhere ends at once; with --wait it waits, and runs the command if the
    /// other fails. The server remembers a PERIOD for twice its length, and a KEY for a day or for --at-least.
    ///
    /// A PERIOD is counted from midnight UTC, and weeks from Thursday: set --at if the schedule fires at another time. Clocks may differ by up
    /// to three eighths of the period.
    #[arg(long, value_name = "PERIOD|KEY", conflicts_with_all = ["fair", "read", "write", "permits", "fenced", "lock"])]
    pub(crate) once: Option<String>,
    /// Wait at most this long for the server and the lock together, such as 500ms, 30s, 1h30m, or 2.5 for seconds; the server
    /// gets at least 1s [default: no limit]
    #[arg(long, short, value_name = "TIME", value_parser = duration::parse_with_seconds)]
    pub(crate) wait: Option<Duration>,
    /// Fail at once if the lock is busy or no server listens; a silent server gets 3s
    #[arg(long = "try", short = 'n', conflicts_with = "wait")]
    pub(crate) try_once: bool,
    /// Stop the command after this time, then release the lock
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,
    /// Print nothing about a busy lock or a long wait; errors and the command's output remain
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Exit with this code if the lock is busy [default: 75, or 0 with --once]
    #[arg(long, short = 'E', value_name = "CODE")]
    pub(crate) busy_exit: Option<u8>,
    /// Grant the lock in the order of the requests
    #[arg(long)]
    pub(crate) fair: bool,
    /// Run up to N commands at once; every `run` needs the same N, and `leasehold permits` changes it
    #[arg(long, value_name = "N", conflicts_with_all = ["fair", "fenced", "lock"], value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
    /// Pass a fencing token to the command; it grows with every grant
    #[arg(long, conflicts_with = "lock")]
    pub(crate) fenced: bool,
    /// Lease of the lock, which limits the outage after a crash; renewed after a third of it [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) lease: Option<Duration>,
    /// The schedule's own time for --once: 02:00 or `Mon 02:00` in UTC, or the time of this start, such as 2026-11-28T02:00:00Z
    #[arg(long, value_name = "TIME", requires = "once", value_parser = At::parse, help_heading = "More options")]
    pub(crate) at: Option<At>,
    /// Keep the lock busy for at least this long after the grant, even if the command ends earlier
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["fair", "read", "write", "permits", "lock"], help_heading = "More options")]
    pub(crate) at_least: Option<Duration>,
    /// Another lock to hold, in one step with the others; repeat it, and leave out NAME if you like
    #[arg(long, short, value_name = "NAME", help_heading = "More options")]
    pub(crate) lock: Vec<String>,
    /// Text about this run, which `inspect`, `ls`, `top` and the message about a busy lock show beside its process
    #[arg(long, value_name = "TEXT", help_heading = "More options")]
    pub(crate) note: Option<String>,
    /// Print a line when the wait begins, and one when the lock is granted
    #[arg(long, short, conflicts_with = "quiet", help_heading = "More options")]
    pub(crate) verbose: bool,
    /// Acquire the read half of a read-write lock, which many readers can hold at once
    #[arg(long, short = 's', visible_alias = "shared", conflicts_with_all = ["fair", "fenced", "permits", "write"], help_heading = "More options")]
    pub(crate) read: bool,
    /// Acquire the write half of a read-write lock
    #[arg(long, short = 'x', visible_alias = "exclusive", conflicts_with_all = ["fair", "fenced", "permits"], help_heading = "More options")]
    pub(crate) write: bool,
    /// Time between SIGTERM and SIGKILL to the command; at most a third of the lease if renewals fail
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "10s", help_heading = "More options")]
    pub(crate) grace: Duration,
    #[command(flatten)]
    pub(crate) records: RecordOptions,
    /// Command and arguments, after `--`; no shell
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl RunOptions {
    /// The names of all locks: NAME, then those of --lock.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let name = Some(&*self.name).filter(|name| !name.is_empty() || self.lock.is_empty());
        name.into_iter().chain(self.lock.iter().map(|name| &**name))
    }

    /// The names of all locks in one text, as in errors.
    pub(crate) fn title(&self) -> String {
        self.names().collect::<Vec<_>>().join(" + ")
    }
}
