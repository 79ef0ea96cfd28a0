//! `leasehold inspect`: the state of one lock.

use crate::args::{InspectOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::duration::show;
use crate::failure::{Exit, Failure};
use crate::look::why_no_lock;
use crate::output;
use crate::people::{People, Person};
use crate::permits::find_holders;
use crate::seen::{Seen, with_process};
use crate::shown::shown;
use crate::similar;
use leasehold::Client;
use leasehold::inspect::{FoundKind, Waiter};
use serde_json::json;
use std::fmt::Write as _;

/// Prints the state of a lock.
///
/// # Errors
///
/// A key of another kind uses the name, or the server does not reply.
pub(crate) async fn inspect(options: &InspectOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, "leasehold inspect").await?;
    let key = format!("{}{}", connection::prefix(server), options.name);
    let seen = look(&client, &options.name, &key).await;
    // Scripts with --check run often and need no process names.
    let is_for_a_person = !options.check && !server.json && !options.name.contains('*');
    let hint = match seen {
        Ok(None) if is_for_a_person => similar::hint(&client, &options.name).await,
        _ => None,
    };
    // This command holds no lock.
    let _ = client.shutdown(FAREWELL).await;
    let seen = seen?;
    if let Some(unknown) = seen.as_ref().and_then(|(_, unknown)| unknown.as_ref()) {
        output::note(unknown, server.json);
    }
    let is_held = seen.as_ref().is_some_and(|(seen, _)| seen.is_held());
    let text = match seen {
        Some((seen, _)) if server.json => format!("{}\n", seen.as_json()),
        Some((seen, _)) => as_text(&seen),
        None => {
            refuse_pattern(&options.name)?;
            if server.json {
                format!("{}\n", json!({ "name": options.name, "state": "free" }))
            } else {
                format!("{}: free; there is no key {:?}\n", shown(&options.name), key)
            }
        }
    };
    output::print(&text)?;
    if let Some(hint) = hint {
        output::note(&hint, server.json);
    }
    Ok(if options.check && is_held { Exit::Busy as u8 } else { 0 })
}

/// Rejects a free name that contains `*`. The user may have meant a pattern.
///
/// # Errors
///
/// The name contains a `*`.
pub(crate) fn refuse_pattern(name: &str) -> Result<(), Failure> {
    if name.contains('*') {
        let text = format!(
            "no lock has the name {name:?}, which looks like a pattern; list matching locks with leasehold ls {name:?}"
        );
        return Err(Failure::new(Exit::Usage, text).of_lock(name));
    }
    Ok(())
}

/// Returns the state of a lock, and a message about unknown holders.
async fn look(client: &Client, name: &str, key: &str) -> Result<Option<(Seen, Option<String>)>, Failure> {
    let Some(state) = client.inspect(name).await.map_err(Failure::of_a_look)? else { return Ok(None) };
    if state.kind == FoundKind::Foreign {
        let why = state.problems.iter().map(why_no_lock).collect::<Vec<_>>().join("; ");
        return Err(Failure::new(Exit::Conflict, format!("{name:?} is in use by something else: {why}")).of_lock(name));
    }
    let mut seen = Seen::new(state, &mut People::new(client)).await;
    let unknown = find_holders(client, key, &mut seen).await;
    Ok(Some((seen, unknown)))
}

/// Returns the state of a lock as lines, or the error.
pub(crate) async fn as_lines(client: &Client, name: &str, key: &str) -> Vec<String> {
    match look(client, name, key).await {
        Ok(Some((seen, unknown))) => {
            let unknown = unknown.map(|unknown| shown(&unknown));
            as_text(&seen).lines().map(str::to_owned).chain(unknown).collect()
        }
        Ok(None) => vec![format!("{}: free; there is no key {key:?}", shown(name))],
        Err(failure) => vec![failure.to_string()],
    }
}

fn as_text(seen: &Seen) -> String {
    let mut text = format!("{}\n", headline(seen));
    for (label, line) in lines(seen) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {label:<8} {line}");
    }
    text
}

/// Returns the line with name, state and kind.
pub(crate) fn headline(seen: &Seen) -> String {
    format!("{}: {} ({})", shown(&seen.state.name), seen.word(), seen.state.kind)
}

/// Returns the other lines with their labels, escaped for a terminal.
pub(crate) fn lines(seen: &Seen) -> Vec<(&'static str, String)> {
    let state = &seen.state;
    let mut lines = Vec::new();
    let mut line = |label: &'static str, line: String| lines.push((label, line));
    let is_counted = state.kind == FoundKind::Semaphore;
    for hold in &seen.holds {
        line(if is_counted { "permit" } else { "holder" }, hold.as_text());
    }
    for hold in &seen.said {
        line("holder", hold.as_text());
    }
    let unlisted = state.held.saturating_sub(u64::try_from(seen.holds.len()).unwrap_or(u64::MAX));
    if unlisted > 0 && !seen.holds.is_empty() {
        line("", format!("and {unlisted} more"));
    }
    if let Some(available) = state.available {
        let held = if is_counted { format!(", {} held", state.held) } else { String::new() };
        line("permits", format!("{available} available{held}"));
    }
    if let Some(token) = state.fencing_token {
        line("token", format!("{token} (last grant)"));
    }
    for (at, (waiter, who)) in seen.queue.iter().enumerate() {
        line("waiter", format!("{}. {}", at + 1, waiter_as_text(waiter, who.as_deref())));
    }
    match state.waiters {
        Some(1..) if seen.queue.is_empty() => {
            let waiters = state.waiters.unwrap_or_default();
            line("waiters", format!("{waiters} (clients that listen for a release)"));
        }
        Some(all) if all > u64::try_from(seen.queue.len()).unwrap_or(u64::MAX) => {
            line("waiters", format!("{all} in all"));
        }
        _ => {}
    }
    for problem in seen.problems() {
        line("WARNING", shown(&problem));
    }
    lines
}

fn waiter_as_text(waiter: &Waiter, who: Option<&Person>) -> String {
    let waited = waiter.waited.map(|waited| format!(", for {}", show(waited))).unwrap_or_default();
    let silent = if waiter.is_alive { "" } else { ", SILENT" };
    with_process(&format!("{}{waited}{silent}", shown(waiter.id.as_str())), who, None)
}
