//! The changes between two scans of the same locks.

use super::Locks;
use leasehold::inspect::{FoundKind, LockState};
use std::collections::BTreeMap;
use std::time::Duration;

/// A lock in one scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Looked {
    kind: FoundKind,
    /// The listed holders, with the remaining time of their leases.
    holders: BTreeMap<String, Option<Duration>>,
    waiters: Option<u64>,
}

impl Looked {
    pub(super) fn new(state: &LockState) -> Self {
        let holders = state.holders.iter().chain(&state.readers);
        let holders = holders.map(|holder| (holder.id.to_string(), holder.remaining)).collect();
        Self { kind: state.kind, holders, waiters: state.waiters }
    }
}

/// A change of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) kind: FoundKind,
    pub(super) event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The first scan found this holder.
    Held(String),
    Granted(String),
    Released(String),
    /// The lease may have expired since the last scan.
    Lost(String),
    /// The number of waiters has changed.
    Waiting {
        before: u64,
        now: u64,
    },
}

/// Returns the locks of the first scan as changes.
pub(super) fn at_first(now: &Locks) -> Vec<Change> {
    let held = |change: Change| match change.event {
        Event::Granted(id) => Change { event: Event::Held(id), ..change },
        _ => change,
    };
    between(&Locks::new(), now, Duration::ZERO).into_iter().map(held).collect()
}

/// Returns the changes between two scans. The end of a hold precedes the start of the next hold.
pub(super) fn between(before: &Locks, now: &Locks, elapsed: Duration) -> Vec<Change> {
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let mut changes = Vec::new();
    for name in now.keys().chain(gone) {
        let (old, new) = (before.get(name), now.get(name));
        let Some(kind) = new.or(old).map(|lock| lock.kind) else { continue };
        let mut add = |event| changes.push(Change { name: name.clone(), kind, event });
        let has = |lock: Option<&Looked>, id: &String| lock.is_some_and(|lock| lock.holders.contains_key(id));
        for (id, left) in old.iter().flat_map(|lock| &lock.holders).filter(|(id, _)| !has(new, id)) {
            let ran_out = left.is_some_and(|left| left <= elapsed);
            add(if ran_out { Event::Lost(id.clone()) } else { Event::Released(id.clone()) });
        }
        for id in new.iter().flat_map(|lock| lock.holders.keys()).filter(|id| !has(old, id)) {
            add(Event::Granted(id.clone()));
        }
        if let Some(event) = waiting(old, new) {
            add(event);
        }
    }
    changes
}

/// Returns a change of the number of waiters.
fn waiting(old: Option<&Looked>, new: Option<&Looked>) -> Option<Event> {
    let count = |lock: Option<&Looked>| lock.and_then(|lock| lock.waiters).unwrap_or_default();
    let (before, now) = (count(old), count(new));
    (before != now).then_some(Event::Waiting { before, now })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(holders: &[(&str, u64)], waiters: u64) -> Locks {
        let holders = holders.iter().map(|(id, left)| ((*id).to_owned(), Some(Duration::from_secs(*left)))).collect();
        let lock = Looked { kind: FoundKind::Lock, holders, waiters: Some(waiters) };
        Locks::from([("stock".to_owned(), lock)])
    }

    fn events(before: &Locks, now: &Locks) -> Vec<Event> {
        between(before, now, Duration::from_secs(1)).into_iter().map(|change| change.event).collect()
    }

    #[test]
    fn each_change_between_two_looks_is_one_event() {
        let (a, b) = (|| "a".to_owned(), || "b".to_owned());
        assert_eq!(events(&locks(&[("a", 9)], 1), &locks(&[("a", 8)], 1)), []);
        assert_eq!(events(&Locks::new(), &locks(&[("a", 9)], 0)), [Event::Granted(a())]);
        assert_eq!(events(&locks(&[("a", 9)], 0), &Locks::new()), [Event::Released(a())]);
        assert_eq!(events(&locks(&[("a", 1)], 0), &Locks::new()), [Event::Lost(a())]);
        let handed_over = [Event::Released(a()), Event::Granted(b()), Event::Waiting { before: 2, now: 1 }];
        assert_eq!(events(&locks(&[("a", 9)], 2), &locks(&[("b", 9)], 1)), handed_over);
        let at_first: Vec<_> = at_first(&locks(&[("a", 9)], 2)).into_iter().map(|change| change.event).collect();
        assert_eq!(at_first, [Event::Held(a()), Event::Waiting { before: 0, now: 2 }]);
    }
}
