//! `leasehold top`.

use super::every::at_least_10ms;
use super::{Column, KindWord};
use clap::Args;
use leasehold::inspect::FoundKind;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  leasehold top
  leasehold top 'stock:*' --sort held
  leasehold top --kind fair,fenced-fair --sort queue --every 5s

Keys:
  n k o g h l w u t !   sort by name, kind, holder, grants, held, lease, waiters, queue, wait, problems; again: reverse the order
  /                     filter by a text in name, kind, holder or problems; * matches any text
  arrows, PageUp, PageDown, Home, End   scroll
  p                     pause or resume
  ?                     explain the columns
  q, Esc, Ctrl-C        quit";

/// Show a live table of the locks
///
/// GRANTS/S counts the new holders between two looks, over the last ten seconds. It is a lower bound, because `top` misses
/// holds that start and end between two looks. HELD FOR is the holder's own statement; with a > it is the time that `top`
/// has seen the hold. QUEUE is the queue of a fair lock, and LONGEST WAIT the longest wait in this queue. WAITERS counts,
/// for other locks, the clients that listen for a release. A free lock stays in the table for ten seconds. The first line
/// shows the age of the table. During an outage the second line shows its reason, and the table resumes afterwards.
/// NO_COLOR removes the colours.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopOptions {
    /// Pattern of lock names; quote it for the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only show locks of this kind; separate kinds with commas
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindWord>,
    /// Interval between two looks, at least 10ms
    ///
    /// `top` rests after each look for at least the duration of the look, so a server with many keys gets a longer
    /// interval.
    #[arg(long, value_name = "TIME", value_parser = at_least_10ms, default_value = "1s")]
    pub(crate) every: Duration,
    /// Initial sort column
    #[arg(long, value_name = "COLUMN", default_value = "grants")]
    pub(crate) sort: Column,
}

impl TopOptions {
    /// The kinds to show. Empty means every kind.
    pub(crate) fn kinds(&self) -> Vec<FoundKind> {
        self.kind.iter().map(|kind| kind.found()).collect()
    }
}
