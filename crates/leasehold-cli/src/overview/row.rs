//! The rows of the table.

use crate::people::Person;
use crate::seen::{Hold, Seen};
use crate::shown::shown;
use leasehold::inspect::FoundKind;
use std::sync::Arc;
use std::time::Duration;

/// The process of a hold. All texts are escaped for a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) application: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// The text of `run --note`. Empty without a note.
    pub(crate) note: String,
}

/// A listed hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Holding {
    /// The id without the suffix, which can change during a hold.
    pub(crate) id: String,
    /// The half of a read-write lock.
    pub(crate) half: Option<&'static str>,
    pub(crate) process: Option<Arc<Process>>,
    /// The age from the record of the holder.
    pub(crate) said: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    /// Whether a live holder would have renewed the lease since.
    pub(crate) is_late: bool,
}

impl From<&Person> for Process {
    fn from(who: &Person) -> Self {
        let record = &who.record;
        let [application, host, note] = [&record.application, &record.host, &record.note].map(|text| shown(text));
        Self { application, host, pid: record.pid, note }
    }
}

/// A lock in one scan. All texts except the name are escaped for a terminal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) kind: FoundKind,
    /// The listed holds.
    pub(crate) holds: Vec<Holding>,
    /// Whether `holds` is complete.
    pub(crate) is_listed_whole: bool,
    /// Number of holds or permits.
    pub(crate) held: u64,
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
        let holding = |hold: &Hold| Holding {
            id: hold.holder.id.as_str().trim_end_matches(['!', '~']).to_owned(),
            half: hold.half,
            process: hold.who.as_deref().map(|who| Arc::new(Process::from(who))),
            said: hold.age(),
            lease: hold.holder.remaining,
            is_late: hold.unrenewed().is_some(),
        };
        let holds: Vec<_> = seen.holds.iter().map(holding).collect();
        Self {
            name: state.name.clone(),
            kind: state.kind,
            is_listed_whole: u64::try_from(holds.len()).is_ok_and(|listed| listed >= state.held),
            holds,
            held: state.held,
            holder: seen.holder_as_text(),
            said: seen.age(),
            lease: state.remaining,
            listeners: state.waiters.filter(|_| !is_fair),
            queue: state.waiters.filter(|_| is_fair),
            wait: seen.queue.iter().filter_map(|(waiter, _)| waiter.waited).max(),
            problems: shown(&seen.problems().join("; ")),
        }
    }

    /// Returns a copy with the state free.
    pub(crate) fn when_free(&self) -> Self {
        Self {
            holds: Vec::new(),
            held: 0,
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

    /// Returns the number of waiters, queued or listening.
    pub(crate) fn waiting(&self) -> u64 {
        self.queue.or(self.listeners).unwrap_or_default()
    }
}

/// The age of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The lock is free, or found for the first time.
    Unknown,
    /// From the holder's record.
    Said(Duration),
    /// Time since the first scan that found the holder.
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
    /// Whether the lock was free at the last scan.
    pub(crate) is_gone: bool,
    /// New holders per second. `None` without a complete list of holders.
    pub(crate) grants: Option<f64>,
    pub(crate) held: Held,
    /// The start of the hold in milliseconds since 1970, with the accuracy of `held`.
    pub(crate) since: Option<u64>,
    /// Whether the hold began before `since`.
    pub(crate) is_older: bool,
}
