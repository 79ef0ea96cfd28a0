//! Inspects the visible rows of all browsers, because a scan of all locks can be slow.

use super::view::Lines;
use crate::overview::row::Found;
use crate::overview::scans::{Glance, Told, with_processes};
use crate::people::People;
use futures_util::future::join_all;
use leasehold::inspect::{FoundKind, LockState};
use leasehold::{Client, Error};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

/// Maximum number of concurrent inspections, which together block the server for under half a millisecond.
const AT_ONCE: usize = 16;

/// Lifetime of cached processes.
const REMEMBERED: Duration = Duration::from_secs(1);

/// The visible rows of all browsers.
#[derive(Debug, Default)]
pub(super) struct OnView {
    browsers: Mutex<Browsers>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Browsers {
    next: u64,
    lines: HashMap<u64, Arc<Lines>>,
}

/// The visible rows of one browser, until dropped.
#[derive(Debug)]
pub(super) struct Shown {
    all: Arc<OnView>,
    browser: u64,
}

impl OnView {
    /// Registers a browser without rows.
    pub(super) fn open(self: &Arc<Self>) -> Shown {
        let mut browsers = self.browsers();
        browsers.next += 1;
        Shown { all: self.clone(), browser: browsers.next }
    }

    fn names(&self) -> Vec<String> {
        let browsers = self.browsers();
        let lines = browsers.lines.values().flat_map(|lines| &lines.lines);
        let names: BTreeSet<&str> = lines.map(|line| line.key.as_str()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn browsers(&self) -> MutexGuard<'_, Browsers> {
        self.browsers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inspects the visible locks in a loop. Pauses for at least the duration of each pass.
    pub(super) async fn look_at_all(&self, client: &Client, every: Duration, told: mpsc::UnboundedSender<Told>) {
        let (mut people, mut met) = (People::new(client), Instant::now());
        loop {
            let names = self.names();
            if names.is_empty() {
                self.more.notified().await;
                continue;
            }
            let begun = Instant::now();
            if met.elapsed() >= REMEMBERED {
                (people, met) = (People::new(client), begun);
            }
            let mut found = Vec::new();
            for some in names.chunks(AT_ONCE) {
                found.extend(look(client, some, &mut people).await);
            }
            // At shutdown the receiver may be gone.
            let _ = told.send(Told::Some(Glance { begun, ended: Instant::now(), found }));
            let took = begun.elapsed();
            sleep(every.saturating_sub(took).max(took)).await;
        }
    }
}

impl Shown {
    /// Sets the visible rows.
    pub(super) fn are(&self, lines: &Arc<Lines>) {
        self.all.browsers().lines.insert(self.browser, lines.clone());
        if !lines.lines.is_empty() {
            self.all.more.notify_one();
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.all.browsers().lines.remove(&self.browser);
    }
}

/// Inspects some locks. Omits locks without a reply, because the scan of all locks reports outages.
async fn look(client: &Client, names: &[String], people: &mut People<'_>) -> Vec<(String, Option<Found>)> {
    let looks = join_all(names.iter().map(|name| client.inspect(name))).await;
    let (mut held, mut found) = (Vec::new(), Vec::new());
    for (name, look) in names.iter().zip(looks) {
        match kept(look) {
            Ok(Some(state)) => held.push(state),
            Ok(None) => found.push((name.clone(), None)),
            Err(_) => {}
        }
    }
    let held = with_processes(held, people).await;
    found.extend(held.into_iter().map(|lock| (lock.name.clone(), Some(lock))));
    found
}

/// Returns the lock, if a search would find it. A mere register of fencing tokens is not a lock.
fn kept(look: Result<Option<LockState>, Error>) -> Result<Option<LockState>, Error> {
    let is_there = |state: &LockState| state.held > 0 || state.available.is_some() || !state.queue.is_empty();
    Ok(look?.filter(|state| state.kind != FoundKind::Foreign && is_there(state)))
}

#[cfg(test)]
mod tests {
    use super::super::view::Line;
    use super::*;

    #[test]
    fn rows_are_looked_at_until_their_last_browser_leaves() {
        let lines = |names: &[&str]| {
            let line = |name: &&str| Line { key: (*name).to_owned(), class: "", cells: Vec::new() };
            Arc::new(Lines { lines: names.iter().map(line).collect(), ..Lines::default() })
        };
        let all = Arc::new(OnView::default());
        let (one, other) = (all.open(), all.open());
        one.are(&lines(&["b", "a"]));
        other.are(&lines(&["b", "c"]));
        assert_eq!(all.names(), ["a", "b", "c"]);
        one.are(&lines(&["d"]));
        assert_eq!(all.names(), ["b", "c", "d"]);
        drop(other);
        assert_eq!(all.names(), ["d"]);
        drop(one);
        assert!(all.names().is_empty());
    }
}
