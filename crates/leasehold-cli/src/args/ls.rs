//! `leasehold ls`.

use super::KindWord;
use crate::duration;
use clap::Args;
use leasehold::inspect::FoundKind;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  leasehold ls
  leasehold ls 'stock:*' --held-longer-than 1h
  leasehold ls --kind fair,fenced-fair --json | jq 'select(.waiting > 10) | .name'
  leasehold ls --problems --sort --tsv | cut -f 1,8
  leasehold ls 'shop:*' --foreign        # also what is no lock
  leasehold ls '\\[a\\]*'                 # names that begin with [a]

In the pattern, * stands for any text, ? for one byte, [abc] or [a-z] for one byte of a set; a backslash takes the special meaning away.";

/// List the locks whose names fit a pattern
///
/// The command prints each lock as soon as it is found, unless --sort waits for all of them. The column WAITERS counts
/// the queue of a fair lock, and for other locks the clients that listen for a release. Host and process are known for
/// holders that announce themselves, as `leasehold run` does. Such a holder also publishes the age of its hold, after
/// the first second. A line on stderr counts the names that this user may not inspect. The exit code is 0 even if no
/// lock is found.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LsOptions {
    /// The pattern of the names, in quotes because of the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only locks of this kind; separate several kinds with commas
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindWord>,
    /// Only locks that have been held for longer than this, such as 30s or 5m, according to their holder
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) held_longer_than: Option<Duration>,
    /// Only locks with a problem
    #[arg(long)]
    pub(crate) problems: bool,
    /// Also keys that are not locks
    #[arg(long)]
    pub(crate) foreign: bool,
    /// Sort the locks by name; prints nothing until the search is complete
    #[arg(long)]
    pub(crate) sort: bool,
    /// Print tab-separated columns for scripts: times in milliseconds, kinds as in --kind, and a dash for unknown
    /// values
    #[arg(long, conflicts_with = "json")]
    pub(crate) tsv: bool,
}

impl LsOptions {
    /// The kinds that are wanted; all of them if there is none.
    pub(crate) fn kinds(&self) -> Vec<FoundKind> {
        self.kind.iter().map(|kind| kind.found()).collect()
    }
}
