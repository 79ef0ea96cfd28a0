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
  n k o g h l w u t !   sort by name, kind, holder, grants, held, lease, waiters, queue, wait, problems; once more turns the order round
  /                     show only rows that have a text in name, kind, holder or problems; * stands for any text
  arrows, PageUp, PageDown, Home, End   scroll
  p                     pause: no look is taken until p is pressed again
  ?                     what the columns mean
  q, Esc, Ctrl-C        end";

/// Show the locks in a table that is kept up to date
///
/// It looks again and again, and draws on the terminal: the locks that changed hands most often, were held longest, or are waited for most.
/// GRANTS/S counts new holders between two looks, over the last ten seconds or so: a lock changes hands at least so often, and what came
/// and went between two looks is not seen. HELD FOR is what holders say of themselves, and with a > in front how long it was seen. QUEUE is the
/// queue of a fair lock, and LONGEST WAIT the wait of its waiter that says to have waited longest; WAITERS counts for other locks the
/// clients that listen for a release. A lock that is free stays in the table for ten seconds. The first line says how old the table is. If
/// the server goes away, the second line says so and why, and the table goes on when it is back. NO_COLOR takes the colours away.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopOptions {
    /// The pattern of the names, in quotes because of the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only locks of this kind, or of these with commas between
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindWord>,
    /// The time between two looks, 10ms at the least
    ///
    /// After a look it rests for at least as long as the look took, so that a server with many keys is not kept busy.
    #[arg(long, value_name = "TIME", value_parser = at_least_10ms, default_value = "1s")]
    pub(crate) every: Duration,
    /// The column by which the table is sorted at first
    #[arg(long, value_name = "COLUMN", default_value = "grants")]
    pub(crate) sort: Column,
}

impl TopOptions {
    /// The kinds that are wanted; all of them if there is none.
    pub(crate) fn kinds(&self) -> Vec<FoundKind> {
        self.kind.iter().map(|kind| kind.found()).collect()
    }
}
