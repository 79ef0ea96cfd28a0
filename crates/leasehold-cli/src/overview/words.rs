//! The sentences about a picture: what there is, how old that is, and whether the server answers.

use super::{Picture, Server, Table};
use crate::duration::show;
use crate::shown::counted;
use std::time::{Duration, Instant};

/// How old the table is and what there is in it; `None` before the first look has ended.
pub(crate) fn summary(picture: &Picture, now: Instant) -> Option<String> {
    let table = picture.table.as_ref()?;
    let totals = picture.totals();
    let age = age(now.saturating_duration_since(table.begun));
    let problems = if totals.problems > 0 { format!(", {} with problems", totals.problems) } else { String::new() };
    let locks = if totals.locks == 1 { "lock" } else { "locks" };
    let (count, held, waiting) = (totals.locks, totals.held, totals.waiting);
    Some(format!("{age} old: {count} {locks}, {held} held, {waiting} waiting{problems}"))
}

/// For how long the server has not answered, and why; `None` if it answers.
pub(crate) fn outage(server: &Server, now: Instant) -> Option<String> {
    let Server::Away { since, why } = server else { return None };
    Some(format!("NO ANSWER for {}: {why}", age(now.saturating_duration_since(*since))))
}

/// The first look, which is under way, and how far it is.
pub(crate) fn first_look((since, found): (Instant, usize), now: Instant) -> String {
    format!(
        "the first look goes on for {}, {} so far",
        age(now.saturating_duration_since(since)),
        counted(found as u64, "lock")
    )
}

/// What a table leaves out. A table without the locks that are looked for must not look like a server without them.
pub(crate) fn gaps(table: &Table) -> Vec<String> {
    let cut = table.is_cut.then(|| "TOO MANY LOCKS: some are left out, name a narrower pattern".to_owned());
    table.unseen.clone().into_iter().chain(cut).collect()
}

/// The cost of a look, and how often one is taken.
pub(crate) fn pace(took: Duration, every: Duration) -> String {
    // After a look comes a pause of at least equal length.
    format!("a look takes {}, one every {}", show(took), show(every.max(2 * took)))
}

/// An age to the second, so that the line stands still in between.
pub(crate) fn age(time: Duration) -> String {
    match time.as_secs() {
        0 => "<1 s".to_owned(),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds => show(Duration::from_secs(seconds)),
    }
}
