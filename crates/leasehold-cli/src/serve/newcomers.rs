//! Searches for new locks: scans the names of all keys, and only inspects new names.

use super::sample::Sample;
use crate::overview::foreign::Foreign;
use crate::overview::row::Found;
use crate::overview::scans::{Glance, MOST, Told, Wanted, next, with_processes};
use crate::people::People;
use leasehold::{Client, Error};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// Number of locks for which one batch requests the processes.
const AT_ONCE: usize = 32;

/// Searches for new locks while there are viewers. Pauses for at least the duration of each search.
pub(super) async fn look_for_all(
    client: &Client,
    wanted: &Wanted,
    every: Duration,
    foreign: &Foreign,
    mut viewers: watch::Receiver<usize>,
    (samples, told): (watch::Receiver<Sample>, mpsc::UnboundedSender<Told>),
) {
    loop {
        if viewers.wait_for(|viewers| *viewers > 0).await.is_err() {
            // The program ends.
            return;
        }
        let begun = Instant::now();
        // End the borrow here, because a `send` during the borrow would deadlock this thread.
        let known = known(&samples.borrow());
        if let Some(known) = known {
            // The scan of all locks reports outages.
            if let Ok(found) = look(client, wanted, foreign, known).await
                && !found.is_empty()
            {
                let found = found.into_iter().map(|lock| (lock.name.clone(), Some(lock))).collect();
                let _ = told.send(Told::Some(Glance { begun, ended: Instant::now(), found }));
            }
        }
        let took = begun.elapsed();
        sleep(every.saturating_sub(took).max(took)).await;
    }
}

/// Returns the names of the known locks. `None` before the first scan, and after an incomplete scan, whose missing
/// locks would always count as new.
fn known(sample: &Sample) -> Option<HashSet<String>> {
    let table = sample.picture.table.as_ref()?;
    if table.is_cut || table.unseen.is_some() {
        return None;
    }
    let there = sample.picture.rows.iter().filter(|row| !row.is_gone);
    Some(there.map(|row| row.found.name.clone()).collect())
}

async fn look(
    client: &Client,
    wanted: &Wanted,
    foreign: &Foreign,
    known: HashSet<String>,
) -> Result<Vec<Found>, Error> {
    let (begun, remembered, room) = (Instant::now(), foreign.clone(), MOST.saturating_sub(known.len()));
    let is_new = move |name: &str| !known.contains(name) && !remembered.has(name, begun);
    let mut search = client.locks(&wanted.pattern).with_foreign().only(is_new);
    let (mut people, mut found) = (People::new(client), Vec::new());
    while found.len() < room {
        let some = next(&mut search, wanted, foreign, AT_ONCE.min(room - found.len())).await?;
        if some.is_empty() {
            break;
        }
        found.extend(with_processes(some, &mut people).await);
    }
    Ok(found)
}
