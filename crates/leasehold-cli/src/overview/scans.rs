//! Scans the server with many short commands.

use super::foreign::Foreign;
use super::row::Found;
use crate::connection::unseen;
use crate::failure::{Failure, passes, reason};
use crate::people::People;
use crate::seen::Seen;
use leasehold::inspect::{FoundKind, LockProblem, LockState, Locks};
use leasehold::{Client, Error};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// Maximum number of locks in a scan, which bounds the memory of this process.
pub(crate) const MOST: usize = 20_000;

/// Number of locks for which one batch requests the processes.
const AT_ONCE: usize = 32;

/// Interval of progress events.
const PROGRESS: Duration = Duration::from_millis(250);

/// Minimum pause after a failed scan.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// An event of the scans.
#[derive(Debug)]
pub(crate) enum Told {
    /// A scan started.
    Begun(Instant),
    /// The number of locks so far in the current scan.
    Progress(usize),
    Done(Scan),
    /// Some locks were inspected.
    Some(Glance),
    /// The scan failed temporarily.
    Failed {
        at: Instant,
        why: String,
    },
}

/// The result of a scan.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    pub(crate) found: Vec<Found>,
    /// Whether the scan stopped at the maximum number of locks.
    pub(crate) is_cut: bool,
    /// The message about names that this user may not inspect.
    pub(crate) unseen: Option<String>,
}

/// An inspection of some locks.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    /// The locks by name. `None` for a free lock.
    pub(crate) found: Vec<(String, Option<Found>)>,
}

/// The settings of the scans.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) pattern: String,
    /// The kinds of locks. Empty means all kinds.
    pub(crate) kinds: Vec<FoundKind>,
    /// The interval between the starts of two scans.
    pub(crate) every: Duration,
}

/// Scans the server while there are viewers, until a permanent failure. Pauses after each scan for at least its
/// duration, so scans use at most half the capacity of one connection.
pub(crate) async fn repeat(
    client: &Client,
    wanted: &Wanted,
    foreign: &Foreign,
    mut viewers: watch::Receiver<usize>,
    told: mpsc::UnboundedSender<Told>,
) -> Failure {
    let mut is_first = true;
    loop {
        if viewers.wait_for(|viewers| *viewers > 0).await.is_err() {
            // The table has ended, and the caller drops this future.
            std::future::pending::<()>().await;
        }
        let begun = Instant::now();
        tell(&told, Told::Begun(begun));
        let rest = match scan(client, wanted, foreign, begun, is_first, &told).await {
            Ok(scan) => {
                is_first = false;
                let took = begun.elapsed();
                tell(&told, Told::Done(scan));
                wanted.every.saturating_sub(took).max(took)
            }
            Err(error) if passes(&error) => {
                tell(&told, Told::Failed { at: Instant::now(), why: reason(&error) });
                wanted.every.max(AFTER_FAILURE)
            }
            Err(error) => return Failure::of_a_look(error),
        };
        sleep(rest).await;
    }
}

fn tell(told: &mpsc::UnboundedSender<Told>, what: Told) {
    // After the end of the table, the caller drops this future.
    let _ = told.send(what);
}

async fn scan(
    client: &Client,
    wanted: &Wanted,
    foreign: &Foreign,
    begun: Instant,
    is_first: bool,
    told: &mpsc::UnboundedSender<Told>,
) -> Result<Scan, Error> {
    let mut people = People::new(client);
    let (mut found, mut said) = (BTreeMap::new(), begun);
    // The first scan may be slow, and the viewer has no rows yet.
    let mut early = Vec::new();
    let known = foreign.clone();
    let leaves_out = !wanted.kinds.contains(&FoundKind::Foreign);
    let search = client.locks(&wanted.pattern).with_foreign();
    let mut search = search.only(move |name| !(leaves_out && known.has(name, begun)));
    let is_cut = loop {
        let room = MOST - found.len();
        if room == 0 {
            break true;
        }
        let some = next(&mut search, wanted, foreign, room.min(AT_ONCE)).await?;
        if some.is_empty() {
            break false;
        }
        // SCAN may return a key twice.
        let some = with_processes(some, &mut people).await;
        if is_first {
            early.extend(some.iter().map(|seen| (seen.name.clone(), Some(seen.clone()))));
        }
        found.extend(some.into_iter().map(|seen| (seen.name.clone(), seen)));
        if said.elapsed() >= PROGRESS {
            said = Instant::now();
            tell(told, Told::Progress(found.len()));
            if !early.is_empty() {
                let found = std::mem::take(&mut early);
                tell(told, Told::Some(Glance { begun, ended: said, found }));
            }
        }
    };
    let unseen = search.refusal().map(|refusal| unseen(search.unseen(), refusal));
    Ok(Scan { begun, ended: Instant::now(), found: found.into_values().collect(), is_cut, unseen })
}

/// Returns the next locks of a search, and caches names that are not locks. Empty at the end.
///
/// # Errors
///
/// The search failed.
pub(crate) async fn next(
    search: &mut Locks,
    wanted: &Wanted,
    foreign: &Foreign,
    most: usize,
) -> Result<Vec<LockState>, Error> {
    let mut some = Vec::new();
    while some.len() < most
        && let Some(state) = search.next().await
    {
        let state = state?;
        let is_lock = state.kind != FoundKind::Foreign;
        if !is_lock && !state.problems.iter().any(|problem| matches!(problem, LockProblem::NotSeen { .. })) {
            foreign.add(&state.name, Instant::now());
        }
        if if wanted.kinds.is_empty() { is_lock } else { wanted.kinds.contains(&state.kind) } {
            some.push(state);
        }
    }
    Ok(some)
}

/// Adds the processes behind locks.
pub(crate) async fn with_processes(some: Vec<LockState>, people: &mut People<'_>) -> Vec<Found> {
    // The ids of permits do not contain clients.
    let of_clients = some.iter().filter(|state| state.kind != FoundKind::Semaphore);
    let ids = of_clients.flat_map(|state| {
        let holders = state.holders.iter().chain(&state.readers).map(|holder| holder.id.to_string());
        holders.chain(state.queue.iter().map(|waiter| waiter.id.to_string()))
    });
    people.meet(ids).await;
    let mut found = Vec::new();
    for state in some {
        found.push(Found::of(&Seen::new(state, people).await));
    }
    found
}
