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
  leasehold ls 'shop:*' --foreign        # include keys that are not locks
  leasehold ls '\\[a\\]*'                 # names that start with [a]

In a pattern, * matches any text, ? matches one byte, and [abc] or [a-z] matches one byte of a set. A backslash escapes the next character.";

/// List the locks whose names match a pattern
///
/// The command prints each lock as soon as the search finds it, or with --sort after the search. WAITERS is the length
/// of a fair lock's queue; for other locks, it counts the clients that listen for a release. HOLDER shows the host and
/// process of holders that announce themselves, such as `leasehold run`. Announced holders also publish the age of a
/// hold after its first second. A line on stderr counts the names that this user may not inspect. The exit code is 0
/// even if no lock matches.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LsOptions {
    /// Pattern of lock names; quote it for the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only list locks of this kind; separate kinds with commas
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindWord>,
    /// Only list locks held for longer than this, such as 30s or 5m, according to their holders
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) held_longer_than: Option<Duration>,
    /// Only list locks with a problem
    #[arg(long)]
    pub(crate) problems: bool,
    /// Also list keys that are not locks
    #[arg(long)]
    pub(crate) foreign: bool,
    /// Sort by name, and print after the search
    #[arg(long)]
    pub(crate) sort: bool,
    /// Print tab-separated columns: times in milliseconds, kinds as in --kind, - for unknown values
    #[arg(long, conflicts_with = "json")]
    pub(crate) tsv: bool,
}

impl LsOptions {
    /// The kinds to list. Empty means every kind.
    pub(crate) fn kinds(&self) -> Vec<FoundKind> {
        self.kind.iter().map(|kind| kind.found()).collect()
    }
}
