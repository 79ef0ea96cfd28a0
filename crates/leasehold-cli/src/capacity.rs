//! `leasehold permits`: shows or changes the number of permits of a semaphore.

use crate::args::{PermitsOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::shown::{counted, shown};
use leasehold::Client;
use leasehold::inspect::PermitCounts;
use serde_json::json;

/// Shows the number of permits, or changes it.
///
/// # Errors
///
/// The semaphore does not exist, another kind of key uses the name, or the server does not reply.
pub(crate) async fn permits(options: &PermitsOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, "leasehold permits").await?;
    let result = with_client(&client, options, server.json).await;
    // This command holds no permit.
    let _ = client.shutdown(FAREWELL).await;
    result
}

async fn with_client(client: &Client, options: &PermitsOptions, json: bool) -> Result<u8, Failure> {
    let (name, semaphore) = (&options.name, client.semaphore(&options.name));
    let before = semaphore.inspect().await.map_err(Failure::of_a_look)?;
    let Some(permits) = options.permits else {
        let Some(counts) = before else {
            let text = format!("no semaphore {name:?}; create it with leasehold permits NAME N");
            return Err(Failure::new(Exit::Conflict, text).of_lock(name));
        };
        return told(name, &counts, None, json);
    };
    semaphore.resize(permits).await?;
    let Some(counts) = semaphore.inspect().await.map_err(Failure::of_a_look)? else {
        return Err(Failure::new(
            Exit::Conflict,
            format!("another client deleted the semaphore {name:?} during the change"),
        )
        .of_lock(name));
    };
    told(name, &counts, Some(before.as_ref()), json)
}

/// Returns the numbers of available and held permits.
pub(crate) fn capacity(counts: &PermitCounts) -> i64 {
    counts.available.saturating_add_unsigned(counts.held)
}

/// Prints the number of permits, and the previous number after a change.
fn told(name: &str, counts: &PermitCounts, before: Option<Option<&PermitCounts>>, json: bool) -> Result<u8, Failure> {
    let (permits, available, held) = (capacity(counts), counts.available, counts.held);
    let before = before.map(|before| before.map(capacity));
    let text = if json {
        let object = json!({ "name": name, "permits": permits, "available": available, "held": held, "before": before.flatten() });
        format!("{object}\n")
    } else {
        let before = match before {
            Some(Some(before)) => format!(", was {before}"),
            Some(None) => ", new".to_owned(),
            None => String::new(),
        };
        format!("{}: {}{before}; {available} available, {held} held\n", shown(name), counted(permits, "permit"))
    };
    output::print(&text)?;
    Ok(0)
}
