//! The locks that were not there at the last look at all of them. The names of all keys are read for that, and the new ones alone are looked at.

use super::sample::Sample;
use crate::overview::foreign::Foreign;
use crate::overview::looks::{Glance, MOST, Told, Wanted, next, with_processes};
use crate::overview::row::Found;
use crate::people::People;
use leasehold::{Client, Error};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// How many locks are gathered before their processes are asked for.
const AT_ONCE: usize = 32;

/// Looks for new locks again and again, as long as there are viewers. It rests for at least as long as it has looked.
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
            // The program is at its end.
            return;
        }
        let begun = Instant::now();
        // The borrow ends here: who shares a sample meanwhile would wait for ever, on this thread.
        let known = known(&samples.borrow());
        if let Some(known) = known {
            // Looks at all locks tell of an outage.
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

/// The names of the locks that are there; `None` before the first look. It is also `None` where that look has left something out, which would be
/// taken for new every time.
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
