//! `leasehold hold` and `leasehold release`.

use super::RunOptions;
use crate::{duration, failure};
use clap::Args;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  leasehold hold deploy                                  # until Ctrl-C

  holder=$(leasehold hold --try --max-hold 1h deploy &)  # continues once the lock is granted
  [ -n \"$holder\" ] || exit 75
  ./deploy.sh
  leasehold release deploy --holder \"$holder\"";

/// Hold a lock until a signal
///
/// Once the lock is granted, the command prints the id of its hold and closes stdout. SIGTERM, SIGINT and other
/// terminating signals release the lock; the exit code is then 0. The exit code is 76 if the lock is lost, if `release`
/// or `unlock` ends the hold, or after --max-hold. Prefer `run`, which stops its command when the lock is lost.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct HoldOptions {
    /// Name of the lock; put a name that begins with a dash after --
    pub(crate) name: String,
    /// Wait at most this long for server and lock together [default: no limit]
    #[arg(long, short, value_name = "TIME", value_parser = duration::parse_wait)]
    pub(crate) wait: Option<Duration>,
    /// Fail at once if the lock is busy or the server refuses connections; wait up to 3s for a silent server
    #[arg(long = "try", short = 'n', conflicts_with = "wait")]
    pub(crate) try_once: bool,
    /// Release the lock after this time, in case nobody ends the hold
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,
    /// Print only errors: nothing about a busy lock or a long wait
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Exit with this code if the lock is busy
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = failure::Exit::Busy as u8)]
    pub(crate) busy_exit: u8,
    /// Grant the lock in the order of the requests
    #[arg(long)]
    pub(crate) fair: bool,
    /// Hold one of N permits; every `run` and `hold` needs the same N
    #[arg(long, value_name = "N", conflicts_with_all = ["fair", "fenced"], value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
    /// Request a fencing token, which grows with every grant; --json prints it
    #[arg(long)]
    pub(crate) fenced: bool,
    /// Lease: the time until a crashed holder loses the lock; renewed every third of it [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) lease: Option<Duration>,
    /// Acquire the read half of a read-write lock, which readers share
    #[arg(long, short = 's', conflicts_with_all = ["fair", "fenced", "permits", "write"])]
    pub(crate) read: bool,
    /// Acquire the write half of a read-write lock
    #[arg(long, short = 'x', conflicts_with_all = ["fair", "fenced", "permits"])]
    pub(crate) write: bool,
}

impl HoldOptions {
    /// Converts to the options of a `run` for this lock.
    pub(crate) fn as_run(&self) -> RunOptions {
        RunOptions {
            name: self.name.clone(),
            wait: self.wait,
            try_once: self.try_once,
            max_hold: self.max_hold,
            quiet: self.quiet,
            busy_exit: self.busy_exit,
            fair: self.fair,
            permits: self.permits,
            fenced: self.fenced,
            lease: self.lease,
            read: self.read,
            write: self.write,
            ..RunOptions::default()
        }
    }
}

/// End a hold of `leasehold hold`
///
/// The lock is free at once. The `hold` process detects the loss at its next renewal, within a third of its lease. It
/// exits with 76, because it cannot distinguish `release` from `unlock`. `release` exits with 73 if this holder no
/// longer holds the lock.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  leasehold release deploy --holder \"$holder\"          # the line that `leasehold hold` printed"
)]
pub(crate) struct ReleaseOptions {
    /// Name of the lock
    pub(crate) name: String,
    /// The line that `leasehold hold` printed
    #[arg(long, value_name = "ID")]
    pub(crate) holder: Option<String>,
}
