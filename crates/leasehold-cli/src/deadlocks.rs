//! `leasehold deadlocks`: deadlocks between announced processes.

use crate::args::ServerOptions;
use crate::connection::{self, FAREWELL};
use crate::duration::show;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::seen::millis;
use crate::shown::{counted, shown};
use leasehold::Error;
use leasehold::inspect::{Deadlock, DeadlockedWait, UnseenLock};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The exit code for a deadlock.
const FOUND: u8 = 1;

/// The rights of the search, in addition to those of a lock.
const RIGHTS: &str = "this user needs +scan, +hlen, +hmget and ~leasehold:1:client:*";

/// The rights to inspect a lock with the key NAME.
const RIGHTS_TO_LOOK: &str = "for each lock, this user needs the commands of the block locks in docs/security.md, and the keys ~NAME ~{NAME}:* \
    ~redisson_lock_queue:{NAME} ~redisson_lock_timeout:{NAME} ~redisson_lock_token:{NAME} ~leasehold:1:fair:{NAME} \
    ~leasehold:1:rw_readers:{NAME}, without the braces if NAME contains braces";

/// Maximum number of locks in the message about missing rights.
const NAMED: usize = 20;

/// Prints a line for each deadlock.
///
/// # Errors
///
/// The server does not reply, refuses a command, or hides some locks from this user while no deadlock was found.
pub(crate) async fn deadlocks(server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, "leasehold deadlocks").await?;
    let found = client.deadlocks().await;
    // This command holds no lock.
    let _ = client.shutdown(FAREWELL).await;
    let all = found.map_err(failure)?;
    for deadlock in &all.found {
        let line = if server.json { as_json(deadlock).to_string() } else { as_text(deadlock) };
        output::print(&format!("{line}\n"))?;
    }
    match (all.found.is_empty(), all.unseen.is_empty()) {
        (false, false) => output::note(&unseen(&all.unseen), server.json),
        (false, true) => {}
        (true, false) => {
            return Err(Failure::new(Exit::Refused, format!("no deadlock found, but {}", unseen(&all.unseen))));
        }
        (true, true) => {
            output::note("no deadlock found between announced processes", server.json);
        }
    }
    Ok(if all.found.is_empty() { 0 } else { FOUND })
}

/// The message about locks that this user may not inspect.
fn unseen(locks: &[UnseenLock]) -> String {
    let names: Vec<_> = locks.iter().take(NAMED).map(|lock| format!("{:?}", lock.key)).collect();
    let more = locks.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let refusals: BTreeSet<&str> = locks.iter().map(|lock| lock.refusal.as_str()).collect();
    let refusals = refusals.into_iter().collect::<Vec<_>>().join("; ");
    let (locks, names) = (counted(locks.len() as u64, "lock"), names.join(", "));
    format!(
        "cannot inspect {locks} with waiters, which may be part of a deadlock: {names}{more}: {refusals}; {RIGHTS_TO_LOOK}"
    )
}

/// Converts an error from the search for client records.
fn failure(error: Error) -> Failure {
    let of_records =
        |exit, why: &str, advice: &str| Failure::new(exit, format!("cannot read the client records: {why}{advice}"));
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
