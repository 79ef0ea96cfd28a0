//! The tables of past holds.

use super::cell::Cell;
use super::query::address_of;
use super::view::{Line, Lines};
use crate::duration::show;
use crate::moment;
use crate::overview::journal::{Outcome, Past};
use crate::overview::row::Process;
use crate::seen::millis;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Returns the past holds of one lock, or of all locks with their names.
pub(super) fn lines(all: &[Arc<Past>], has_names: bool) -> Lines {
    let lines = all.iter().map(|past| line(past, has_names)).collect();
    Lines { counts: String::new(), pages: 1, lines }
}

fn line(past: &Past, has_names: bool) -> Line {
    let [holder, host, pid] = Cell::of_process(past.process.as_deref(), &past.id, past.half);
    let longer = if past.is_longer { "> " } else { "" };
    let lasted = format!("{longer}{}", show(past.lasted));
    let name = has_names.then(|| Cell::link(&past.name, address_of("lock", &[("name", &past.name)])));
    let rest = [Cell::time(Some(past.ended)), holder, host, pid, Cell::text(lasted), Cell::text(past.outcome.word())];
    let class = if past.outcome == Outcome::Lost { "problem" } else { "" };
    Line { key: past.number.to_string(), class, cells: name.into_iter().chain(rest).collect() }
}

pub(super) fn as_json(past: &Past) -> Value {
    let lasted = u64::try_from(past.lasted.as_millis()).unwrap_or(u64::MAX);
    json!({
        "name": &*past.name,
        "kind": past.kind.word(),
        "holder": past.id,
        "half": past.half,
        "process": past.process.as_deref().map(process_as_json),
        "granted": moment::written(past.ended.saturating_sub(lasted)),
        "ended": moment::written(past.ended),
        "held_ms": millis(past.lasted),
        "is_lower_bound": past.is_longer,
        "outcome": past.outcome.word(),
    })
}

pub(super) fn process_as_json(process: &Process) -> Value {
    let note = Some(&process.note).filter(|note| !note.is_empty());
    json!({ "application": process.application, "host": process.host, "pid": process.pid, "note": note })
}

/// The period that the tile of lost holds covers.
pub(super) const LATELY: Duration = Duration::from_secs(3_600);
