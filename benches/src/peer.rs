//! The libraries that are measured, and the rows that each has.

use crate::row::Row::{self, Beside, Contended, Held, Hot, Pairs, Queue, Waiters, Wake};

/// A library, in one of its settings.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// The word by which its program knows it.
    pub(crate) library: &'static str,
    /// The commands that it sends. The server counts those that scripts run as well, which are part of the time of their scripts.
    pub(crate) sends: &'static [&'static str],
    pub(crate) waits: Waits,
    /// The longest line that it can have, of those that are measured.
    pub(crate) longest_line: usize,
    pub(crate) rows: &'static [Row],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    Rust,
    Go,
    Java,
}

/// The way in which a waiter learns of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    ByMessage,
    Polling,
}

const SCRIPTS: &[&str] = &["eval", "evalsha"];
const SET_AND_SCRIPTS: &[&str] = &["set", "eval", "evalsha"];

const fn rust(name: &'static str, library: &'static str, rows: &'static [Row]) -> Peer {
    Peer {
        name,
        language: Language::Rust,
        library,
        sends: SCRIPTS,
        waits: Waits::ByMessage,
        longest_line: usize::MAX,
        rows,
    }
}

pub(crate) static PEERS: [Peer; 16] = [
    rust("bare fred", "fred", &[Pairs, Beside, Wake]),
    rust("tokio's mutex", "tokio", &[Hot]),
    rust("leasehold", "leasehold", &[Pairs, Beside, Wake, Hot, Contended, Held, Waiters]),
    rust("leasehold, no batches", "leasehold-alone", &[Pairs, Beside]),
    rust("leasehold, no hand-over", "leasehold-no-hand-over", &[Hot, Contended, Queue]),
    rust("leasehold, hand_over", "leasehold-hand-over", &[Contended]),
    rust("leasehold, linger", "leasehold-linger", &[Pairs, Contended]),
    Peer { sends: SET_AND_SCRIPTS, ..rust("leasehold, simple lock", "leasehold-simple", &[Pairs]) },
    rust("leasehold, fair lock", "leasehold-fair", &[Wake, Hot, Contended, Queue, Waiters]),
    Peer {
        sends: SET_AND_SCRIPTS,
        waits: Waits::Polling,
        ..rust("rslock", "rslock", &[Pairs, Beside, Wake, Hot, Contended])
    },
    Peer {
        sends: SET_AND_SCRIPTS,
        waits: Waits::Polling,
        ..rust("rlock", "rlock", &[Pairs, Beside, Wake, Hot, Contended, Held])
    },
    Peer {
        language: Language::Go,
        sends: SET_AND_SCRIPTS,
        waits: Waits::Polling,
        ..rust("redsync", "redsync", &[Pairs, Wake, Hot, Contended])
    },
    Peer {
        language: Language::Go,
        waits: Waits::Polling,
        ..rust("bsm/redislock", "redislock", &[Pairs, Wake, Hot, Contended])
    },
    Peer {
        language: Language::Go,
        ..rust("rueidislock", "rueidislock", &[Pairs, Wake, Hot, Contended, Held, Waiters])
    },
    Peer { language: Language::Java, ..rust("Redisson", "redisson", &[Pairs, Wake, Hot, Contended, Held, Waiters]) },
    Peer {
        language: Language::Java,
        // Each of its waiters has a subscription of its own, and by default there is room for 250.
        longest_line: 10,
        ..rust("Redisson, fair lock", "redisson-fair", &[Wake, Hot, Contended, Queue])
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn every_row_has_its_base() {
        for row in Row::value_variants() {
            let base = PEERS.iter().find(|peer| peer.name == row.base()).expect("a peer");
            assert!(base.rows.contains(row), "{row:?} is measured for {}", base.name);
        }
    }
}
