//! The rows of the table.

use crate::seen::Seen;
use crate::shown::shown;
use leasehold::inspect::FoundKind;
use std::time::Duration;

/// A lock in one look. All texts except the name are safe for a terminal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) kind: FoundKind,
    /// The ids of the listed holders.
    pub(crate) ids: Vec<String>,
    /// Whether `ids` is complete.
    pub(crate) is_listed_whole: bool,
    /// The holder, or the number of available permits.
    pub(crate) holder: String,
    /// The age of the hold from the holder's record.
    pub(crate) said: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    /// Number of clients that listen for a release. `None` for a fair lock.
    pub(crate) listeners: Option<u64>,
    /// Length of the queue of a fair lock.
    pub(crate) queue: Option<u64>,
    /// The longest wait in that queue.
    pub(crate) wait: Option<Duration>,
    pub(crate) problems: String,
}

impl Found {
    pub(crate) fn of(seen: &Seen) -> Self {
        let state = &seen.state;
        let is_fair = matches!(state.kind, FoundKind::FairLock | FoundKind::FencedFairLock);
        // The suffix of an id can change during a hold.
        let id = |id: &str| id.trim_end_matches(['!', '~']).to_owned();
        let ids: Vec<_> = seen.holds.iter().map(|hold| id(hold.holder.id.as_str())).collect();
        Self {
            name: state.name.clone(),
            kind: state.kind,
            is_listed_whole: u64::try_from(ids.len()).is_ok_and(|listed| listed >= state.held),
            ids,
            holder: seen.holder_as_text(),
            said: seen.age(),
            lease: state.remaining,
            listeners: state.waiters.filter(|_| !is_fair),
            queue: state.waiters.filter(|_| is_fair),
            wait: seen.queue.iter().filter_map(|(waiter, _)| waiter.waited).max(),
            problems: shown(&seen.problems().join("; ")),
        }
    }

    /// A copy with the state free.
    pub(crate) fn when_free(&self) -> Self {
        Self {
            ids: Vec::new(),
            holder: "free".to_owned(),
            said: None,
            lease: None,
            listeners: None,
            queue: None,
            wait: None,
            problems: String::new(),
            ..self.clone()
        }
    }

    /// Number of waiters, queued or listening.
    pub(crate) fn waiting(&self) -> u64 {
        self.queue.or(self.listeners).unwrap_or_default()
    }
}

/// The age of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The lock is free, or this is its first look.
    Unknown,
    /// From the holder's record.
    Said(Duration),
    /// Observed with one holder for this long.
    AtLeast(Duration),
}

impl Held {
    pub(crate) const fn time(self) -> Option<Duration> {
        match self {
            Self::Unknown => None,
            Self::Said(time) | Self::AtLeast(time) => Some(time),
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) found: Found,
    /// Whether the lock was free at the last look.
    pub(crate) is_gone: bool,
    /// New holders per second. `None` without a complete list of holders.
    pub(crate) grants: Option<f64>,
    pub(crate) held: Held,
}
