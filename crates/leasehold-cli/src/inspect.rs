//! `leasehold inspect`: all that the server tells of one name.

use crate::args::{InspectOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::duration::show;
use crate::failure::Failure;
use crate::look::{Hold, Seen, look};
use crate::output;
use leasehold::{ClientRecord, Waiter};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// Prints what the server knows of a name.
///
/// # Errors
///
/// The name is in use by something that is no lock, or the server gives no answer.
pub(crate) async fn inspect(options: &InspectOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, None, "leasehold inspect").await?;
    let seen = look(&client, &options.name).await;
    // Nothing is held, so nothing is left behind.
    let _ = client.shutdown(FAREWELL).await;
    let seen = seen?;
    if server.json {
        output::print(&format!("{}\n", as_json(&options.name, seen.as_ref())))?;
    } else {
        output::print(&as_text(&options.name, seen.as_ref()))?;
    }
    Ok(0)
}

fn as_json(name: &str, seen: Option<&Seen>) -> Value {
    let Some(seen) = seen else { return json!({ "name": name, "state": "free" }) };
    json!({
        "name": name,
        "state": state(seen),
        "kind": seen.kind.word(),
        "holders": seen.holds.iter().map(hold_as_json).collect::<Vec<_>>(),
        "waiters": seen.waiters.iter().map(|(waiter, who)| json!({
            "id": waiter.id.as_str(),
            "waited_ms": waiter.waited.map(millis),
            "alive": waiter.is_alive,
            "process": who.as_ref().map(process_as_json),
        })).collect::<Vec<_>>(),
        "permits": seen.counts.as_ref().map(|counts| json!({ "available": counts.available, "held": counts.held })),
        "warnings": warnings(seen),
    })
}

pub(crate) fn hold_as_json(hold: &Hold) -> Value {
    json!({
        "id": hold.holder.id.as_str(),
        "half": hold.half,
        "hold_count": hold.holder.hold_count,
        "lease_left_ms": hold.holder.remaining.map(millis),
        "process": hold.who.as_ref().map(process_as_json),
    })
}

fn process_as_json(who: &ClientRecord) -> Value {
    let since = who.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    json!({ "application": who.application, "host": who.host, "pid": who.pid, "since_unix_ms": millis(since) })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One word for scripts.
fn state(seen: &Seen) -> &'static str {
    match &seen.counts {
        Some(counts) if counts.held > 0 => "held",
        Some(_) => "free",
        None if seen.holds.is_empty() => "waited for",
        None => "held",
    }
}

fn as_text(name: &str, seen: Option<&Seen>) -> String {
    let Some(seen) = seen else { return format!("{name}: free\n") };
    let mut text = format!("{name}: {} ({})\n", state(seen), seen.kind.word());
    // A string takes every text.
    for hold in &seen.holds {
        let _ = writeln!(text, "  holder   {}", hold_as_text(hold));
    }
    if let Some(counts) = &seen.counts {
        let _ = writeln!(text, "  permits  {} available, {} held", counts.available, counts.held);
        for permit in &counts.permits {
            let left = permit.remaining.map_or_else(|| "without an end".to_owned(), show);
            let _ = writeln!(text, "  permit   {}, lease left {left}", permit.id);
        }
    }
    for (at, (waiter, who)) in seen.waiters.iter().enumerate() {
        let _ = writeln!(text, "  waiter   {}. {}", at + 1, waiter_as_text(waiter, who.as_ref()));
    }
    for warning in warnings(seen) {
        let _ = writeln!(text, "  WARNING  {warning}");
    }
    text
}

/// A hold in one line: who, since when the process lives, and how long the lease still runs.
pub(crate) fn hold_as_text(hold: &Hold) -> String {
    let mut text = hold.holder.id.to_string();
    if let Some(half) = hold.half {
        let _ = write!(text, " ({half} half)");
    }
    if let Some(left) = hold.holder.remaining {
        let _ = write!(text, ", lease left {}", show(left));
    }
    if hold.holder.hold_count != 1 {
        let _ = write!(text, ", held {} times", hold.holder.hold_count);
    }
    let _ = write!(text, "{}", process_as_text(hold.who.as_ref()));
    text
}

fn waiter_as_text(waiter: &Waiter, who: Option<&ClientRecord>) -> String {
    let waited = waiter.waited.map(|waited| format!(", for {}", show(waited))).unwrap_or_default();
    format!("{}{waited}{}", waiter.id, process_as_text(who))
}

fn process_as_text(who: Option<&ClientRecord>) -> String {
    let Some(who) = who else { return String::new() };
    let age = SystemTime::now().duration_since(who.since).map(|age| format!(", for {}", show(age)));
    format!("; {}, process {} on {}{}", who.application, who.pid, who.host, age.unwrap_or_default())
}

/// A sentence for each thing that looks wrong.
fn warnings(seen: &Seen) -> Vec<String> {
    let endless = seen.holds.iter().filter(|hold| hold.holder.remaining.is_none()).map(|hold| {
        format!("the hold of {} has no lease: if its process is gone, only `leasehold unlock` frees it", hold.holder.id)
    });
    let silent = seen.waiters.iter().filter(|(waiter, _)| !waiter.is_alive);
    let silent =
        silent.map(|(waiter, _)| format!("the waiter {} was not heard of lately and is passed over", waiter.id));
    endless.chain(silent).collect()
}
