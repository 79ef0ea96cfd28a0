//! A lock in the table.

use crate::seen::Seen;
use crate::shown::shown;
use leasehold::inspect::FoundKind;
use std::time::Duration;

/// A lock as one look has found it. Texts that people read are harmless to a terminal, except for the name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) kind: FoundKind,
    /// The ids of the listed holders.
    pub(crate) ids: Vec<String>,
    /// Whether all holders are listed. Otherwise nothing follows from one that is not.
    pub(crate) is_listed_whole: bool,
    /// The holder, or what there is instead.
    pub(crate) holder: String,
    /// How long a holder says that it has held the lock.
    pub(crate) said: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    /// How many clients listen for a release; `None` for a fair lock, whose waiters have places in a queue.
    pub(crate) listeners: Option<u64>,
    /// How many wait in the queue of a fair lock.
    pub(crate) queue: Option<u64>,
    /// The longest wait in that queue.
    pub(crate) wait: Option<Duration>,
    pub(crate) problems: String,
}

impl Found {
    pub(crate) fn of(seen: &Seen) -> Self {
        let state = &seen.state;
        let is_fair = matches!(state.kind, FoundKind::FairLock | FoundKind::FencedFairLock);
        // The end of an id says what becomes of the hold after its release, and changes with that.
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

    /// The same lock when it is free.
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

    /// How many wait, in a queue or not.
    pub(crate) fn waiting(&self) -> u64 {
        self.queue.or(self.listeners).unwrap_or_default()
    }
}

/// How long a lock has been held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The lock is free, or was not seen held before.
    Unknown,
    /// The holder says so.
    Said(Duration),
    /// It was seen held for this long, by one holder.
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
    /// Whether the lock was gone at the last look.
    pub(crate) is_gone: bool,
    /// New holders a second; `None` where not all holders are listed.
    pub(crate) grants: Option<f64>,
    pub(crate) held: Held,
}
