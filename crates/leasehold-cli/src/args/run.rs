//! `leasehold run`.

use super::RecordOptions;
use super::schedule::{At, Every, parse_at, parse_every};
use crate::{duration, failure};
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

/// The end of the short help.
const SHORT: &str = "\
Examples:
  leasehold run backup -- pg_dump shop                  # waits for its turn
  leasehold run --once 1d --at 02:00 nightly -- ./report.sh   # on one of all hosts
  leasehold run -n -E 0 cleanup -- ./cleanup.sh         # skipped while it runs elsewhere

`leasehold run --help` has all options, signals and exit codes.";

const EXAMPLES: &str = "\
Examples:
  leasehold run backup -- pg_dump shop
  leasehold run --once 1d --at 02:00 nightly-report -- ./report.sh   # once a night, on one of several hosts
  leasehold run -l stock -l prices -- ./import.sh       # both locks, or none
  leasehold run --wait 30s --fair till:3 -- ./book.sh
  leasehold run --permits 3 supplier -- ./fetch.sh      # at most three at once
  leasehold run --read catalogue -- ./export.sh
  leasehold run --fenced ledger -- sh -c 'echo \"token $LEASEHOLD_FENCING_TOKEN\"'
  leasehold run -- -name -- ./report.sh                 # a name that begins with a dash

The command gets the variables LEASEHOLD_NAME, LEASEHOLD_HOLDER and LEASEHOLD_HOLDERS; with --fenced, LEASEHOLD_FENCING_TOKEN; and with --once,
LEASEHOLD_PERIOD: the key, or the time of the schedule.

Signals: leasehold forwards TERM, INT, HUP, QUIT, USR1, USR2, WINCH and the signals of timers and resource limits to the command's process
group. Before the grant, any of these except USR1, USR2 and WINCH ends the wait for the lock. Ctrl-Z stops leasehold and the command, and a
stopped leasehold does not renew the lock.

If renewals fail, the command's process group gets SIGTERM --grace before the lease ends, and SIGKILL just before the lease ends. After
--max-hold, or if the lock was removed from the server, the group gets SIGTERM, and SIGKILL after --grace. On Linux, SIGKILL to leasehold also
kills the command, but not the command's children. If its children must not write without the lock, use a fencing token.";

/// Run a command while holding a lock
#[derive(Args, Debug, Default)]
#[command(after_help = SHORT, after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct RunOptions {
    /// Name of the lock, or of the job of --once
    ///
    /// Put a name that begins with a dash after --, and another -- before the command. The name is optional with
    /// --lock.
    #[arg(required_unless_present = "lock", default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    // The ten most used options come first, without a heading. Each fits on one line of 80 columns.
    /// Run once per period over all hosts: 1h, 1d, or a key
    ///
    /// A period is a time such as 1h or 1d. Any other text is the key of a period, such as a date or a build number.
    /// The command runs on one host. The other hosts wait until it ends (--wait, --try), and exit with the code of a
    /// busy lock (--busy-exit).
    ///
    /// The period closes when the command exits, even with a failure. It stays open if the command could not be
    /// executed (126, 127), died by a signal, lost its lock, or if `leasehold` or its host was killed. Then a waiting
    /// host, or a later start in the period, runs the command. After a kill, it waits up to --lease.
    ///
    /// Each host rounds its own clock to the nearest scheduled time, which tolerates clock errors and late starts of up
    /// to 3/8 of the period. `run` refuses a start about halfway between two scheduled times with exit code 64; set
    /// --at.
    #[arg(long, value_name = "PERIOD|KEY", value_parser = parse_every,
        conflicts_with_all = ["fair", "read", "write", "permits", "fenced", "lock"])]
    pub(crate) once: Option<Every>,
    /// Scheduled time of --once: 02:00, or RFC 3339
    ///
    /// A time of day is in UTC, or has an offset: 02:00, `Sun 02:00`, 02:00+01:00. A start within 3/8 of the period
    /// counts, so daylight saving time is harmless. A date with a time, such as 2026-11-28T02:00:00Z, is the exact
    /// scheduled time, and `run` ignores the host's clock. The default is a multiple of the period since Thursday, 1
    /// January 1970, 00:00 UTC.
    #[arg(long, value_name = "TIME", requires = "once", value_parser = parse_at)]
    pub(crate) at: Option<At>,
    /// Limit the wait for server and lock: 30s, 1h30m, 2.5
    ///
    /// The limit covers both waits together. A bare number means seconds. A connect always has at least 1s. [default:
    /// no limit]
    #[arg(long, short, value_name = "TIME", value_parser = duration::parse_wait)]
    pub(crate) wait: Option<Duration>,
    /// Fail at once if the lock is busy
    ///
    /// `run` also fails at once if the server refuses connections. It waits up to 3s for a silent server.
    #[arg(long = "try", short = 'n', conflicts_with = "wait")]
    pub(crate) try_once: bool,
    /// Print nothing about a busy lock or a wait
    ///
    /// `run` still prints errors and the command's output.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Exit code for a busy lock or a done job
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = failure::Exit::Busy as u8)]
    pub(crate) busy_exit: u8,
    /// Stop the command after this time and release the lock
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,
    /// Name of a lock; repeat it to acquire several locks
    ///
    /// `run` acquires all locks or none, in any order: two commands with equal locks do not deadlock.
    #[arg(long, short, value_name = "NAME")]
    pub(crate) lock: Vec<String>,
    /// Grant the lock in the order of the requests
    #[arg(long)]
    pub(crate) fair: bool,
    /// Run up to N commands at once
    ///
    /// Every `run` needs the same N. `leasehold permits` changes the number.
    #[arg(long, value_name = "N", conflicts_with_all = ["fair", "fenced", "lock"], value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
    /// Keep the lock busy for this long after the grant
    ///
    /// The lock stays busy even if the command ends earlier. A short job then runs once although its schedule fires on
    /// several machines. With --once, this is how long the server remembers the run [default: two periods; 1d for a
    /// key].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["fair", "read", "write", "permits", "lock"], hide_short_help = true, help_heading = "More options")]
    pub(crate) at_least: Option<Duration>,
    /// Leave the period of --once open if the command fails
    ///
    /// A waiting host, or a later start in the period, then runs the command again.
    #[arg(long, requires = "once", hide_short_help = true, help_heading = "More options")]
    pub(crate) retry_failed: bool,
    /// Reason for the hold, for people who find it busy
    ///
    /// `inspect`, `ls` and messages about a busy lock show the reason. Every user of the server can read it.
    #[arg(long, value_name = "TEXT", hide_short_help = true, help_heading = "More options")]
    pub(crate) note: Option<String>,
    /// Print what `run` waits for, and when the lock is granted
    ///
    /// By default, `run` prints one line after a wait of 10s.
    #[arg(long, short, conflicts_with = "quiet", hide_short_help = true, help_heading = "More options")]
    pub(crate) verbose: bool,
    /// Pass a fencing token to the command; it grows with every grant
    #[arg(long, conflicts_with = "lock", hide_short_help = true, help_heading = "More options")]
    pub(crate) fenced: bool,
    /// Time after which a crashed holder loses the lock [default: 30s]
    ///
    /// A live holder renews its lease every third of this time.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, hide_short_help = true, help_heading = "More options")]
    pub(crate) lease: Option<Duration>,
    /// Share the lock with other readers, as `flock -s`
    ///
    /// This acquires the read half of a read-write lock.
    #[arg(long, short = 's', visible_alias = "shared", conflicts_with_all = ["fair", "fenced", "permits", "write"], hide_short_help = true, help_heading = "More options")]
    pub(crate) read: bool,
    /// Exclude the readers of a read-write lock, as `flock -x`
    #[arg(long, short = 'x', visible_alias = "exclusive", conflicts_with_all = ["fair", "fenced", "permits"], hide_short_help = true, help_heading = "More options")]
    pub(crate) write: bool,
    /// Time between SIGTERM and SIGKILL to the command
    ///
    /// If renewals fail, this time is at most a third of the lease.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "10s", hide_short_help = true, help_heading = "More options")]
    pub(crate) grace: Duration,
    #[command(flatten)]
    pub(crate) records: RecordOptions,
    /// Command and arguments, after `--`; no shell
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl RunOptions {
    /// The names of the locks.
    pub(crate) fn names(&self) -> Vec<String> {
        let own = (!self.name.is_empty() || self.lock.is_empty()).then_some(&self.name);
        own.into_iter().chain(&self.lock).cloned().collect()
    }
}
