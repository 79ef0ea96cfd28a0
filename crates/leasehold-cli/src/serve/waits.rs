//! The waits between processes: a search for announced processes, and the tree of their waits.

use super::cell::Cell;
use super::query::address_of;
use super::sample::Sample;
use super::view::{Line, Lines, View, outage};
use super::viewers::{Viewer, Viewers};
use crate::duration::show;
use crate::failure::Failure;
use crate::overview::Server;
use crate::overview::row::{Process, Row};
use crate::people::{Person, client_of};
use crate::seen::millis;
use crate::shown::{counted, shown};
use leasehold::inspect::{AnnouncedClient, FoundKind};
use leasehold::{Client, Error};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Maximum number of lines.
const MOST: usize = 500;

/// Maximum age of a recent result, in addition to two search intervals.
const FRESH: Duration = Duration::from_secs(2);

/// Timeout of the wait for a recent result.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum depth of the tree.
const DEEPEST: usize = 8;

/// The search for all browsers, which runs only while there are viewers.
pub(super) struct Waits {
    viewers: Viewers,
    found: watch::Sender<Option<Arc<Found>>>,
}

/// The result of a search.
pub(super) struct Found {
    server: Server,
    clients: Vec<AnnouncedClient>,
    /// The start of the last successful search.
    looked: Instant,
    /// The start of the last search.
    searched: Instant,
}

/// A browser that follows the waits, until dropped.
pub(super) struct Following {
    _viewer: Viewer,
    pub(super) found: watch::Receiver<Option<Arc<Found>>>,
}

impl Waits {
    pub(super) fn new() -> Self {
        Self { viewers: Viewers::new(), found: watch::Sender::new(None) }
    }

    /// Searches until the result is dropped.
    pub(super) fn follow(&self) -> Following {
        Following { _viewer: self.viewers.join(), found: self.found.subscribe() }
    }

    /// Returns a recent result, shared by all viewers. `None` after a timeout.
    pub(super) async fn recent(&self, every: Duration) -> Option<Arc<Found>> {
        let (mut following, limit) = (self.follow(), FRESH + 2 * every);
        let is_recent =
            |found: &Option<Arc<Found>>| found.as_ref().is_some_and(|found| found.searched.elapsed() < limit);
        match timeout(PATIENCE, following.found.wait_for(is_recent)).await {
            Ok(Ok(found)) => found.clone(),
            _ => None,
        }
    }

    /// Searches in a loop while there are viewers. Pauses for at least the duration of each search.
    pub(super) async fn look(&self, client: &Client, every: Duration) {
        let mut viewers = self.viewers.count();
        loop {
            if viewers.wait_for(|viewers| *viewers > 0).await.is_err() {
                std::future::pending::<()>().await;
            }
            let begun = Instant::now();
            // End the borrow here, because a `send` during the borrow would deadlock this thread.
            let last = self.found.borrow().clone();
            let found = search(client, last).await;
            self.found.send_replace(Some(Arc::new(found)));
            let took = begun.elapsed();
            sleep(every.saturating_sub(took).max(took)).await;
        }
    }
}

/// Reads the records of all processes. After a failure, returns the last records and the error.
async fn search(client: &Client, last: Option<Arc<Found>>) -> Found {
    let (looked, mut clients, mut all) = (Instant::now(), Vec::new(), client.announced_clients());
    let failure: Error = loop {
        match all.next().await {
            Some(Ok(found)) => clients.push(found),
            Some(Err(error)) => break error,
            None => return Found { server: Server::Answers, clients, looked, searched: looked },
        }
    };
    let since = match last.as_deref().map(|last| &last.server) {
        Some(Server::Away { since, .. }) => *since,
        _ => looked,
    };
    let server = Server::Away { since, why: Failure::of_a_look(failure).to_string() };
    let (clients, looked, searched) = match last {
        Some(last) => (last.clients.clone(), last.looked, looked),
        None => (Vec::new(), looked, looked),
    };
    Found { server, clients, looked, searched }
}

/// A process that holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq)]
struct Party {
    id: String,
    process: Option<Process>,
    lasted: Option<Duration>,
}

/// A lock with waiters.
#[derive(Clone, Debug, Default, PartialEq)]
struct Awaited {
    name: String,
    holders: Vec<Party>,
    waiters: Vec<Party>,
    /// Number of waiters whose process is unknown.
    unknown: u64,
}

/// Returns the locks with waiters by key.
#[derive(Debug, Default)]
struct Graph(BTreeMap<String, Awaited>);

impl Graph {
    fn of(clients: &[AnnouncedClient], rows: &[Row], prefix: &str) -> Self {
        let by_name: HashMap<&str, &Row> = rows.iter().map(|row| (row.found.name.as_str(), row)).collect();
        let awaited = clients.iter().flat_map(|client| &client.locks).filter(|lock| lock.holder.is_none());
        let mut keys: BTreeSet<String> = awaited.map(|lock| lock.key.clone()).collect();
        let crowded = rows.iter().filter(|row| row.found.waiting() > 0);
        keys.extend(crowded.map(|row| format!("{prefix}{}", row.found.name)));
        let mut graph: BTreeMap<String, Awaited> = keys.into_iter().map(|key| (key, Awaited::default())).collect();
        for client in clients {
            let process = Process::from(&Person::from(client.clone()));
            for lock in &client.locks {
                let Some(into) = graph.get_mut(&lock.key) else { continue };
                let id = client.id.to_string();
                let party = Party { id, process: Some(process.clone()), lasted: Some(lock.lasted) };
                if lock.holder.is_some() { into.holders.push(party) } else { into.waiters.push(party) }
            }
        }
        for (key, awaited) in &mut graph {
            awaited.name = key.strip_prefix(prefix).unwrap_or(key).to_owned();
            awaited.waiters.sort_by_key(|party| std::cmp::Reverse(party.lasted));
            let Some(row) = by_name.get(awaited.name.as_str()) else { continue };
            // Permit ids do not contain a client.
            let is_named = row.found.kind != FoundKind::Semaphore || awaited.holders.is_empty();
            for hold in row.found.holds.iter().filter(|_| is_named) {
                if !awaited.holders.iter().any(|party| party.id == client_of(&hold.id)) {
                    let process = hold.process.as_deref().cloned();
                    awaited.holders.push(Party { id: hold.id.clone(), process, lasted: hold.said });
                }
            }
            awaited.unknown = row.found.waiting().saturating_sub(awaited.waiters.len() as u64);
        }
        Self(graph)
    }

    /// Returns the contended locks that a client holds.
    fn held_by<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a String> {
        let holds = move |awaited: &Awaited| awaited.holders.iter().any(|party| client_of(&party.id) == client_of(id));
        self.0.iter().filter(move |(_, awaited)| holds(awaited)).map(|(key, _)| key)
    }

    fn waits(&self, id: &str) -> bool {
        self.0.values().flat_map(|awaited| &awaited.waiters).any(|party| client_of(&party.id) == client_of(id))
    }

    /// Returns the tree as lines: first the locks whose holders do not wait, then the cycles.
    fn lines(&self) -> Vec<Line> {
        let (mut tree, mut seen) = (Vec::new(), BTreeSet::new());
        let is_root = |awaited: &Awaited| !awaited.holders.iter().any(|party| self.waits(&party.id));
        let mut roots: Vec<_> = self.0.iter().filter(|(_, awaited)| is_root(awaited)).collect();
        roots.sort_by_key(|(_, awaited)| std::cmp::Reverse(awaited.waiters.len() as u64 + awaited.unknown));
        for (key, _) in roots {
            self.branch(key, 0, "", &mut seen, &mut tree);
        }
        for key in self.0.keys() {
            self.branch(key, 0, "its waiters wait in a cycle; see leasehold deadlocks", &mut seen, &mut tree);
        }
        tree
    }

    fn branch(&self, key: &str, depth: usize, note: &str, seen: &mut BTreeSet<String>, tree: &mut Vec<Line>) {
        let Some(awaited) = self.0.get(key) else { return };
        let is_new = seen.insert(key.to_owned());
        if tree.len() >= MOST || (!is_new && depth == 0) {
            return;
        }
        let count = awaited.waiters.len() as u64 + awaited.unknown;
        let note = match note {
            _ if !is_new => "shown above".to_owned(),
            "" => format!("{} waiting", count),
            note => format!("{count} waiting; {note}"),
        };
        let nobody = Party { id: "free".to_owned(), process: None, lasted: None };
        let holder = awaited.holders.first().unwrap_or(&nobody);
        let mut parts = Cell::of_process(holder.process.as_ref(), &holder.id, None);
        if let more @ 1.. = awaited.holders.len().saturating_sub(1) {
            parts[0].text += &format!(" and {more} more");
        }
        let name = Cell::link(&awaited.name, address_of("lock", &[("name", &awaited.name)]));
        let held = Cell::or_nothing(holder.lasted.map(|lasted| format!("holds {}", show(lasted))));
        tree.push(line(tree.len(), LOCK[depth.min(DEEPEST)], name, parts, held, note));
        if !is_new {
            return;
        }
        for waiter in &awaited.waiters {
            if tree.len() >= MOST {
                return;
            }
            let parts = Cell::of_process(waiter.process.as_ref(), &waiter.id, None);
            let waits = Cell::or_nothing(waiter.lasted.map(|lasted| format!("waits {}", show(lasted))));
            let class = WAITER[(depth + 1).min(DEEPEST)];
            tree.push(line(tree.len(), class, Cell::text("waits"), parts, waits, String::new()));
            for held in self.held_by(&waiter.id) {
                self.branch(held, depth + 2, "", seen, tree);
            }
        }
        if awaited.unknown > 0 {
            let text = format!("{} without a record", counted(i128::from(awaited.unknown), "waiter"));
            let parts = [Cell::or_nothing(None), Cell::or_nothing(None), Cell::or_nothing(None)];
            let class = WAITER[(depth + 1).min(DEEPEST)];
            tree.push(line(tree.len(), class, Cell::text(text), parts, Cell::or_nothing(None), String::new()));
        }
    }
}

const LOCK: [&str; DEEPEST + 1] = [
    "lock depth-0",
    "lock depth-1",
    "lock depth-2",
    "lock depth-3",
    "lock depth-4",
    "lock depth-5",
    "lock depth-6",
    "lock depth-7",
    "lock depth-8",
];
const WAITER: [&str; DEEPEST + 1] =
    ["depth-0", "depth-1", "depth-2", "depth-3", "depth-4", "depth-5", "depth-6", "depth-7", "depth-8"];

fn line(at: usize, class: &'static str, name: Cell, parts: [Cell; 3], time: Cell, note: String) -> Line {
    let cells = std::iter::once(name).chain(parts).chain([time, Cell::text(note)]).collect();
    Line { key: at.to_string(), class, cells }
}

/// Returns the texts of the page.
pub(super) fn view(found: &Found, sample: &Sample, prefix: &str) -> View {
    let graph = Graph::of(&found.clients, &sample.picture.rows, prefix);
    let lines = graph.lines();
    let count = graph.0.len();
    let outage = outage(&found.server, Instant::now());
    View {
        summary: format!("{} with waiters", counted(count as u64, "lock")),
        is_warning: outage.is_some(),
        status: outage.unwrap_or_else(|| {
            if lines.len() >= MOST { "TOO MANY WAITS: the tree is incomplete".to_owned() } else { String::new() }
        }),
        looked: Some(found.looked),
        tables: vec![("waits", Arc::new(Lines { counts: String::new(), pages: 1, lines }))],
        ..View::default()
    }
}

/// Returns the locks with waiters.
pub(super) fn as_json(found: &Found, sample: &Sample, prefix: &str) -> Value {
    let party = |party: &Party| {
        let process = party.process.as_ref().map(super::past::process_as_json);
        json!({ "id": party.id, "process": process, "ms": party.lasted.map(millis) })
    };
    let awaited = |(key, awaited): (&String, &Awaited)| {
        json!({
            "key": key,
            "name": awaited.name,
            "holders": awaited.holders.iter().map(party).collect::<Vec<_>>(),
            "waiters": awaited.waiters.iter().map(party).collect::<Vec<_>>(),
            "waiters_without_record": awaited.unknown,
        })
    };
    let graph = Graph::of(&found.clients, &sample.picture.rows, prefix);
    let why = if let Server::Away { why, .. } = &found.server { Some(shown(why)) } else { None };
    json!({ "age_ms": millis(found.looked.elapsed()), "error": why, "locks": graph.0.iter().map(awaited).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(id: &str) -> Party {
        Party { id: id.to_owned(), process: None, lasted: Some(Duration::from_secs(1)) }
    }

    fn graph(locks: &[(&str, &str, &[&str])]) -> Graph {
        let awaited = |(name, holder, waiters): &(&str, &str, &[&str])| Awaited {
            name: (*name).to_owned(),
            holders: vec![party(holder)],
            waiters: waiters.iter().map(|id| party(id)).collect(),
            unknown: 0,
        };
        Graph(locks.iter().map(|lock| (lock.0.to_owned(), awaited(lock))).collect())
    }

    fn shape(graph: &Graph) -> Vec<String> {
        graph
            .lines()
            .iter()
            .map(|line| format!("{} {} {}", line.class, line.cells[0].text, line.cells[1].text))
            .collect()
    }

    #[test]
    fn chain_of_waits_is_one_branch() {
        let graph = graph(&[("b", "two", &["three"]), ("a", "one", &["two"])]);
        let expected = ["lock depth-0 a one", "depth-1 waits two", "lock depth-2 b two", "depth-3 waits three"];
        assert_eq!(shape(&graph), expected);
    }

    #[test]
    fn circle_is_shown_once_and_ends() {
        let graph = graph(&[("a", "one", &["two"]), ("b", "two", &["one"])]);
        let shape = shape(&graph);
        assert_eq!(shape.len(), 5, "{shape:?}");
        assert_eq!(shape[4], "lock depth-4 a one");
        assert!(graph.lines()[0].cells[5].text.contains("cycle"));
    }
}
