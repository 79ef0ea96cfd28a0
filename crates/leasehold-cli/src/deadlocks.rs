//! `leasehold deadlocks`: processes that wait for each other in a circle.

use crate::args::ServerOptions;
use crate::connection::{self, FAREWELL};
use crate::duration::show;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::seen::millis;
use crate::shown::shown;
use leasehold::{Deadlock, DeadlockedWait, Error};
use serde_json::{Value, json};

/// The exit code when there is a deadlock.
const FOUND: u8 = 1;

/// The rights that the search needs beside those of a lock.
const RIGHTS: &str = "deadlocks needs +scan, +hlen, +hmget and ~leasehold:1:client:*";

/// Prints a line for each deadlock.
///
/// # Errors
///
/// The server gives no answer, or refuses.
pub(crate) async fn deadlocks(server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, None, "leasehold deadlocks").await?;
    let found = client.deadlocks().await;
    // Nothing is held, so nothing is left behind.
    let _ = client.shutdown(FAREWELL).await;
    let found = found.map_err(failure)?;
    for deadlock in &found {
        let line = if server.json { as_json(deadlock).to_string() } else { as_text(deadlock) };
        output::print(&format!("{line}\n"))?;
    }
    if found.is_empty() {
        output::note("no deadlock was found among the processes that announce themselves", server.json);
    }
    Ok(if found.is_empty() { 0 } else { FOUND })
}

/// The failure of a look at the records of programs, whose names are none of locks. A lock at which the user may not look is passed over.
fn failure(error: Error) -> Failure {
    let of_records = |exit, why: &str, advice: &str| {
        Failure::new(exit, format!("what programs say of themselves cannot be read: {why}{advice}"))
    };
    match &error {
        Error::Refused { refusal, .. } | Error::SearchFailed { refusal: Some(refusal), .. } => {
            let advice = if refusal.is_transient() { String::new() } else { format!("; {RIGHTS}") };
            of_records(Exit::Refused, &refusal.to_string(), &advice)
        }
        Error::SearchFailed { message, .. }
        | Error::Unreachable { message, .. }
        | Error::OutcomeUnknown { message, .. } => of_records(Exit::Unreachable, message, ""),
        _ => Failure::of_a_look(error),
    }
}

fn as_text(deadlock: &Deadlock) -> String {
    let wait = |wait: &DeadlockedWait| {
        let (who, waited) =
            (format!("{}, process {} on {},", wait.application, wait.pid, wait.host), show(wait.waited));
        shown(&format!("{who} has waited {waited} for {}, which {} holds", wait.key, wait.holder))
    };
    deadlock.waits.iter().map(wait).collect::<Vec<_>>().join("; ")
}

fn as_json(deadlock: &Deadlock) -> Value {
    let wait = |wait: &DeadlockedWait| {
        json!({
            "client": wait.client.as_str(),
            "application": wait.application,
            "host": wait.host,
            "pid": wait.pid,
            "key": wait.key,
            "waited_ms": millis(wait.waited),
            "holder": wait.holder.as_str(),
        })
    };
    json!({ "waits": deadlock.waits.iter().map(wait).collect::<Vec<_>>() })
}
