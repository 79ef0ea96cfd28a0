//! The view of one lock: holders, queue, facts and past holds.

use super::cell::Cell;
use super::command;
use super::details::Detail;
use super::past;
use super::view::{Line, Lines, View, outage};
use crate::duration::show;
use crate::inspect::{headline, lines};
use crate::moment;
use crate::overview::journal::Past;
use crate::overview::row::Process;
use crate::people::Person;
use crate::seen::{Hold, Seen, millis, process_as_text};
use crate::shown::shown;
use leasehold::inspect::FoundKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the texts of a lock.
pub(super) fn view(detail: &Detail, past: &[Arc<Past>], prefix: &str) -> View {
    let outage = outage(&detail.server, Instant::now());
    let seen = detail.seen.as_deref();
    let summary = seen.map_or_else(|| shown(&format!("{}: free", detail.name)), |seen| shown(&headline(seen)));
    let holders = seen.map_or_else(Vec::new, |seen| holders(seen, prefix));
    let tables = [
        ("facts", seen.map_or_else(Vec::new, |seen| facts(seen, detail.unknown.as_deref()))),
        ("holders", holders),
        ("queue", seen.map_or_else(Vec::new, queue)),
    ];
    let table = |(id, lines)| (id, Arc::new(Lines { counts: String::new(), pages: 1, lines }));
    let mut tables: Vec<_> = tables.into_iter().map(table).collect();
    tables.push(("past", Arc::new(past::lines(past, false))));
    View {
        summary: if detail.is_known { summary } else { shown(&detail.name) },
        is_warning: outage.is_some(),
        status: outage.unwrap_or_default(),
        looked: Some(detail.looked),
        tables,
        holders: detail.holders().map(|(id, _)| id).collect(),
        ..View::default()
    }
}

impl Detail {
    /// Returns the ids and texts of the holders that the page can free.
    pub(super) fn holders(&self) -> impl Iterator<Item = (String, String)> {
        let is_counted = |kind| matches!(kind, FoundKind::Semaphore | FoundKind::Counter | FoundKind::Foreign);
        let seen = self.seen.as_deref().filter(|seen| !is_counted(seen.state.kind));
        let holds = seen.into_iter().flat_map(|seen| &seen.holds);
        holds.map(|hold| {
            let id = hold.holder.id.as_str();
            (id.to_owned(), with_process(&shown(id), hold.who.as_deref()))
        })
    }
}

/// Formats an id with its process.
fn with_process(id: &str, who: Option<&Person>) -> String {
    who.map_or_else(|| id.to_owned(), |who| format!("{}; {id}", process_as_text(&who.record)))
}

/// Returns the output of `inspect` except holders and waiters.
fn facts(seen: &Seen, unknown: Option<&str>) -> Vec<Line> {
    let of_parties = ["holder", "permit", "waiter"];
    let lines = lines(seen).into_iter().filter(|(label, _)| !of_parties.contains(label));
    let unknown = unknown.map(|unknown| ("note", shown(unknown)));
    let line = |(at, (label, text)): (usize, (&str, String))| Line {
        key: at.to_string(),
        class: if label == "WARNING" { "problem" } else { "" },
        cells: vec![Cell::text(label), Cell::text(text)],
    };
    lines.chain(unknown).enumerate().map(line).collect()
}

fn holders(seen: &Seen, prefix: &str) -> Vec<Line> {
    let name = &seen.state.name;
    let mut lines: Vec<_> = seen.holds.iter().map(|hold| holder(name, hold, prefix)).collect();
    for said in &seen.said {
        let [holder, host, pid] = Cell::of_process(Some(&Process::from(&*said.who)), said.id.as_str(), None);
        let [since, held] = times(Some(said.lasted));
        let rest = [Cell::or_nothing(None), Cell::command(None), Cell::text("according to its process")];
        let cells = [holder, host, pid, since, held].into_iter().chain(rest).collect();
        lines.push(Line { key: said.id.to_string(), class: "", cells });
    }
    lines
}

fn holder(name: &str, hold: &Hold, prefix: &str) -> Line {
    let id = hold.holder.id.as_str();
    let process = hold.who.as_deref().map(Process::from);
    let [holder, host, pid] = Cell::of_process(process.as_ref(), id, hold.half);
    let [since, held] = times(hold.age());
    let mut notes = Vec::new();
    if let Some(since) = hold.unrenewed() {
        notes.push(format!("no renewal for {}: probably dead", show(since)));
    }
    if hold.holder.hold_count > 1 {
        notes.push(format!("held {} times", hold.holder.hold_count));
    }
    if hold.holder.is_kept() {
        notes.push("released, but busy because of --at-least".to_owned());
    }
    let class = if hold.unrenewed().is_some() { "problem" } else { "" };
    let rest = [
        Cell::or_nothing(hold.holder.remaining.map(show)),
        Cell::command(Some(command::unlock(prefix, name, Some(id)))),
        Cell::text(notes.join("; ")),
    ];
    Line { key: id.to_owned(), class, cells: [holder, host, pid, since, held].into_iter().chain(rest).collect() }
}

/// Returns the cells for start and duration of a hold.
fn times(age: Option<Duration>) -> [Cell; 2] {
    let since = age.map(|age| moment::millis_at(Instant::now()).saturating_sub(millis(age)));
    [Cell::time(since), Cell::or_nothing(age.map(show))]
}

fn queue(seen: &Seen) -> Vec<Line> {
    let line = |(at, (waiter, who)): (usize, &(leasehold::inspect::Waiter, Option<Arc<Person>>))| {
        let process = who.as_deref().map(Process::from);
        let [name, host, pid] = Cell::of_process(process.as_ref(), waiter.id.as_str(), None);
        let note = if waiter.is_alive { "" } else { "silent: missed its heartbeats, and is skipped" };
        let waited = Cell::or_nothing(waiter.waited.map(show));
        let class = if waiter.is_alive { "" } else { "problem" };
        let cells = vec![Cell::text((at + 1).to_string()), name, host, pid, waited, Cell::text(note)];
        Line { key: waiter.id.to_string(), class, cells }
    };
    seen.queue.iter().enumerate().map(line).collect()
}
