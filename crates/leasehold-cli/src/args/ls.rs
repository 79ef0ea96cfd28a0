//! `leasehold ls`.

use super::KindWord;
use crate::duration;
use clap::Args;
use leasehold::FoundKind;
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
/// Each lock is printed as soon as it is found, unless --sort waits for all of them. The column WAITERS counts the queue of a fair lock, and of other locks the clients that listen
/// for a release. Host and process are those of holders that announce themselves, as `leasehold run` does; such a holder also says for how
/// long it has held a lock, once that is a second. A line on stderr counts the names at which this user may not look. The exit code is 0 also if no
/// lock is found.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LsOptions {
    /// The pattern of the names, in quotes because of the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only locks of this kind, or of these with commas between
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindWord>,
    /// Only locks that have been held for longer than this, such as 30s or 5m; the holder must say so
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) held_longer_than: Option<Duration>,
    /// Only locks of which something looks wrong
    #[arg(long)]
    pub(crate) problems: bool,
    /// Also keys that are no locks
    #[arg(long)]
    pub(crate) foreign: bool,
    /// Sort the locks by name; none is printed before all are found
    #[arg(long)]
    pub(crate) sort: bool,
    /// Print columns with tabs between, for scripts: times in milliseconds, kinds as in --kind, and a dash for what is not known
    #[arg(long, conflicts_with = "json")]
    pub(crate) tsv: bool,
}

impl LsOptions {
    /// The kinds that are wanted; all of them if there is none.
    pub(crate) fn kinds(&self) -> Vec<FoundKind> {
        self.kind.iter().map(|kind| kind.found()).collect()
    }
}
