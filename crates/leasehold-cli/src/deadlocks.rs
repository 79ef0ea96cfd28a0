//! `leasehold deadlocks`: processes that wait for each other in a circle.

use crate::args::ServerOptions;
use crate::connection::{self, FAREWELL};
use crate::duration::show;
use crate::failure::Failure;
use crate::output;
use crate::seen::millis;
use crate::shown::shown;
use leasehold::{Deadlock, DeadlockedWait};
use serde_json::{Value, json};

/// The exit code when there is a deadlock.
const FOUND: u8 = 1;

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
    let found = found.map_err(Failure::of_a_look)?;
    for deadlock in &found {
        let line = if server.json { as_json(deadlock).to_string() } else { as_text(deadlock) };
        output::print(&format!("{line}\n"))?;
    }
    if found.is_empty() {
        output::note("no deadlock was found among the processes that announce themselves", server.json);
    }
    Ok(if found.is_empty() { 0 } else { FOUND })
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
