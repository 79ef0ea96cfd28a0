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
/// GRANTS/S is the rate of new holders over the last ten seconds. It is a lower bound, because `top` misses holds that
/// start and end between two scans. HELD FOR is published by the holder; a > marks the time since `top` first saw the
/// hold. QUEUE is the length of a fair lock's queue, and LONGEST WAIT its longest wait. For other locks, WAITERS counts
/// the clients that listen for a release. A free lock stays in the table for ten seconds. The first line shows the age
/// of the table. During an outage, the second line shows the reason, and the table resumes afterwards. NO_COLOR removes
/// the colours.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopOptions {
    /// Pattern of lock names; quote it for the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only show locks of this kind; separate kinds with commas
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindWord>,
    /// Scan interval, at least 10ms
    ///
    /// `top` pauses after each scan for at least the duration of the scan, so a server with many keys has a longer
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
