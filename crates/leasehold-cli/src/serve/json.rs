//! The views as JSON documents.

use super::app::App;
use super::command;
use super::details::Detail;
use super::past::{LATELY, as_json as past_as_json, process_as_json};
use super::query::Query;
use super::sample::Sample;
use super::view::{order, page_of};
use crate::moment;
use crate::overview::journal::Past;
use crate::overview::row::{Held, Holding, Row};
use crate::overview::{Server, Totals};
use crate::seen::millis;
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};

/// Returns the table of all locks.
pub(super) fn of_table(app: &App, sample: &Sample, query: &Query) -> Value {
    let (picture, rows) = (&sample.picture, &sample.picture.rows);
    let Totals { locks, held, waiting, problems, grants } = picture.totals();
    let lost = app.journal.lock().unwrap_or_else(PoisonError::into_inner).lost_within(LATELY);
    let order = order(rows, query);
    let (visible, _, pages) = page_of(&order, query);
    json!({
        "pattern": app.pattern,
        "age_ms": picture.table.as_ref().map(|table| millis(table.begun.elapsed())),
        "error": error(&picture.server),
        "is_cut": picture.table.as_ref().is_some_and(|table| table.is_cut),
        "totals": {
            "locks": locks, "held": held, "waiting": waiting, "problems": problems,
            "lost_last_hour": lost, "grants_per_second": grants,
        },
        "matches": order.len(),
        "page": query.page.min(pages),
        "pages": pages,
        "locks": visible.iter().map(|at| row(&rows[*at], &app.prefix)).collect::<Vec<_>>(),
    })
}

fn row(row: &Row, prefix: &str) -> Value {
    let found = &row.found;
    let hold = |hold: &Holding| {
        json!({
            "id": hold.id,
            "half": hold.half,
            "process": hold.process.as_deref().map(process_as_json),
            "held_ms": hold.said.map(millis),
            "lease_left_ms": hold.lease.map(millis),
        })
    };
    json!({
        "name": found.name,
        "kind": found.kind.word(),
        "is_free": row.is_gone,
        "held": found.held,
        "holders": found.holds.iter().map(hold).collect::<Vec<_>>(),
        "since": row.since.map(moment::written),
        "held_ms": row.held.time().map(millis),
        "held_ms_is_lower_bound": matches!(row.held, Held::AtLeast(_)),
        "lease_left_ms": found.lease.map(millis),
        "waiting": found.waiting(),
        "longest_wait_ms": found.wait.map(millis),
        "grants_per_second": row.grants,
        "problem": if found.problems.is_empty() { Value::Null } else { json!(found.problems) },
        "unlock": command::of_lock(prefix, found),
    })
}

/// Returns one lock as `inspect --json` prints it, with its past holds.
pub(super) fn of_lock(detail: &Detail, past: &[Arc<Past>]) -> Value {
    let free = || json!({ "name": detail.name, "state": if detail.is_known { "free" } else { "unknown" } });
    let mut object = detail.seen.as_deref().map_or_else(free, crate::seen::Seen::as_json);
    object["age_ms"] = json!(millis(detail.looked.elapsed()));
    object["error"] = error(&detail.server);
    object["past"] = past.iter().map(|past| past_as_json(past)).collect();
    object
}

/// Returns past holds.
pub(super) fn of_past(past: &[Arc<Past>]) -> Value {
    json!({ "past": past.iter().map(|past| past_as_json(past)).collect::<Vec<_>>() })
}

fn error(server: &Server) -> Value {
    if let Server::Away { why, .. } = server { json!(why) } else { Value::Null }
}
