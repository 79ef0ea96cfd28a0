//! The status lines of `top` and `serve`.

use super::{Picture, Server, Table};
use crate::duration::show;
use crate::shown::counted;
use std::time::{Duration, Instant};

/// Formats the age and totals of the table. `None` before the end of the first scan.
pub(crate) fn summary(picture: &Picture, now: Instant) -> Option<String> {
    let table = picture.table.as_ref()?;
    let totals = picture.totals();
    let age = age(now.saturating_duration_since(table.begun));
    let problems = if totals.problems > 0 { format!(", {} with problems", totals.problems) } else { String::new() };
    let locks = if totals.locks == 1 { "lock" } else { "locks" };
    let (count, held, waiting) = (totals.locks, totals.held, totals.waiting);
    Some(format!("{age} old: {count} {locks}, {held} held, {waiting} waiting{problems}"))
}

/// Formats the duration and reason of an outage. `None` if the server answers.
pub(crate) fn outage(server: &Server, now: Instant) -> Option<String> {
    let Server::Away { since, why } = server else { return None };
    Some(format!("NO ANSWER for {}: {why}", age(now.saturating_duration_since(*since))))
}

/// Formats the progress of the first scan.
pub(crate) fn first_scan((since, found): (Instant, usize), now: Instant) -> String {
    format!(
        "first scan running for {}, {} so far",
        age(now.saturating_duration_since(since)),
        counted(found as u64, "lock")
    )
}

/// Returns warnings about an incomplete table.
pub(crate) fn gaps(table: &Table) -> Vec<String> {
    let cut = table.is_cut.then(|| "TOO MANY LOCKS: the table is incomplete; use a narrower pattern".to_owned());
    table.unseen.clone().into_iter().chain(cut).collect()
}

/// Formats the duration and interval of the scans.
pub(crate) fn pace(took: Duration, every: Duration) -> String {
    // The pause after a scan is at least as long as the scan.
    format!("scan takes {}, interval {}", show(took), show(every.max(2 * took)))
}

/// Formats an age in whole seconds, to change the line at most once a second.
pub(crate) fn age(time: Duration) -> String {
    match time.as_secs() {
        0 => "<1 s".to_owned(),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds => show(Duration::from_secs(seconds)),
    }
}
