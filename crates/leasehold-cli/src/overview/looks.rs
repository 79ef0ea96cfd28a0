//! Looks at the server with many short commands.

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

/// Maximum number of locks in a look, which bounds the memory of this process.
pub(crate) const MOST: usize = 20_000;

/// Number of locks in a batch of process requests.
const AT_ONCE: usize = 32;

/// Interval of progress events.
const PROGRESS: Duration = Duration::from_millis(250);

/// Minimum pause after a failed look.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// An event of the looks.
#[derive(Debug)]
pub(crate) enum Told {
    /// A look started.
    Begun(Instant),
    /// The number of locks so far in the current look.
    Progress(usize),
    Done(Look),
    /// The result of a look at some locks.
    Some(Glance),
    /// The look failed temporarily.
    Failed {
        at: Instant,
        why: String,
    },
}

/// The result of a look.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    pub(crate) found: Vec<Found>,
    /// Whether the look ended early because of too many locks.
    pub(crate) is_cut: bool,
    /// The message about names that this user may not inspect.
    pub(crate) unseen: Option<String>,
}

/// The result of a look at some locks.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    /// The locks by name. `None` for a free lock.
    pub(crate) found: Vec<(String, Option<Found>)>,
}

/// The settings of the looks.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) pattern: String,
    /// Empty means all kinds of locks.
    pub(crate) kinds: Vec<FoundKind>,
    /// The interval between the starts of two looks.
    pub(crate) every: Duration,
}

/// Looks at the server while there are viewers, until a permanent failure. Rests for at least the duration of each look,
/// so that looks use at most half of the capacity of one connection.
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
            // The table has gone, and the caller drops this future.
            std::future::pending::<()>().await;
        }
        let begun = Instant::now();
        tell(&told, Told::Begun(begun));
        let rest = match look(client, wanted, foreign, begun, is_first, &told).await {
            Ok(look) => {
                is_first = false;
                let took = begun.elapsed();
                tell(&told, Told::Done(look));
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

async fn look(
    client: &Client,
    wanted: &Wanted,
    foreign: &Foreign,
    begun: Instant,
    is_first: bool,
    told: &mpsc::UnboundedSender<Told>,
) -> Result<Look, Error> {
    let mut people = People::new(client);
    let (mut found, mut said) = (BTreeMap::new(), begun);
    // A first look may take long, and its viewer has no other rows.
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
        // A search may find a lock twice.
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
    Ok(Look { begun, ended: Instant::now(), found: found.into_values().collect(), is_cut, unseen })
}

/// The next matching locks of a search. Empty at its end. Caches names without a lock.
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
