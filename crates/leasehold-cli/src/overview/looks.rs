//! Looks at the server, one after the other, in short steps.

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

/// How many locks a look finds at the most, so that a server with millions of them does not fill the memory of this process.
pub(crate) const MOST: usize = 20_000;

/// How many locks are gathered before their processes are asked for.
const AT_ONCE: usize = 32;

/// How often a look under way says how far it is.
const PROGRESS: Duration = Duration::from_millis(250);

/// The shortest pause after a look that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Something that is told of the looks.
#[derive(Debug)]
pub(crate) enum Told {
    /// A look has begun.
    Begun(Instant),
    /// The look under way has found so many locks.
    Progress(usize),
    Done(Look),
    /// Some locks were looked at by themselves.
    Some(Glance),
    /// The server did not answer, and may do so later.
    Failed {
        at: Instant,
        why: String,
    },
}

/// All that a look has found.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    pub(crate) found: Vec<Found>,
    /// Whether the look ended early, because there are too many locks.
    pub(crate) is_cut: bool,
    /// The words for names at which this user may not look, if there are some.
    pub(crate) unseen: Option<String>,
}

/// A look at some locks and no others.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    /// Each lock by its name; `None` where it is free.
    pub(crate) found: Vec<(String, Option<Found>)>,
}

/// The locks that are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) pattern: String,
    /// All kinds of locks if there is none.
    pub(crate) kinds: Vec<FoundKind>,
    /// The time between the begins of two looks.
    pub(crate) every: Duration,
}

/// Looks again and again, as long as there are viewers, until the server refuses to be looked at. It rests for at least as long as it has looked,
/// so that it takes no more than half of what one connection can ask of the server.
pub(crate) async fn repeat(
    client: &Client,
    wanted: &Wanted,
    foreign: &Foreign,
    mut viewers: watch::Receiver<usize>,
    told: mpsc::UnboundedSender<Told>,
) -> Failure {
    loop {
        if viewers.wait_for(|viewers| *viewers > 0).await.is_err() {
            // The table is gone, and with it this future.
            std::future::pending::<()>().await;
        }
        let begun = Instant::now();
        tell(&told, Told::Begun(begun));
        let rest = match look(client, wanted, foreign, begun, &told).await {
            Ok(look) => {
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
    // The table may have been left meanwhile, and then this future is dropped.
    let _ = told.send(what);
}

async fn look(
    client: &Client,
    wanted: &Wanted,
    foreign: &Foreign,
    begun: Instant,
    told: &mpsc::UnboundedSender<Told>,
) -> Result<Look, Error> {
    let mut people = People::new(client);
    let (mut found, mut said) = (BTreeMap::new(), begun);
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
        found.extend(with_processes(some, &mut people).await.into_iter().map(|seen| (seen.name.clone(), seen)));
        if said.elapsed() >= PROGRESS {
            said = Instant::now();
            tell(told, Told::Progress(found.len()));
        }
    };
    let unseen = search.refusal().map(|refusal| unseen(search.unseen(), refusal));
    Ok(Look { begun, ended: Instant::now(), found: found.into_values().collect(), is_cut, unseen })
}

/// The next locks of a search that are wanted; none behind the last one. A name without a lock is remembered.
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
    // The ids of permits name no clients.
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
