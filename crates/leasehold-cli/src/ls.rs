//! `leasehold ls`: the locks whose names fit a pattern.

use crate::args::{LsOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::duration::show;
use crate::failure::Failure;
use crate::output;
use crate::people::People;
use crate::seen::Seen;
use crate::shown::shown;
use crate::table::Table;
use leasehold::{Client, FoundKind};

const HEADER: [&str; 7] = ["NAME", "KIND", "HOLDER", "HELD FOR", "LEASE LEFT", "WAITERS", "PROBLEMS"];

/// Prints the locks, each as soon as it is found.
///
/// # Errors
///
/// The server gives no answer, or refuses.
pub(crate) async fn ls(options: &LsOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, "leasehold ls").await?;
    let result = with_client(&client, options, server.json).await;
    // Nothing is held, so nothing is left behind.
    let _ = client.shutdown(FAREWELL).await;
    result
}

async fn with_client(client: &Client, options: &LsOptions, json: bool) -> Result<u8, Failure> {
    let (kinds, mut search) = (options.kinds(), client.locks(&options.pattern));
    if options.foreign || kinds.contains(&FoundKind::Foreign) {
        search = search.with_foreign();
    }
    let mut people = People::new(client);
    let mut table = Table::new([24, 16, 36, 10, 10, 7, 0]);
    let (mut printed, mut ageless) = (0_u64, 0_u64);
    while let Some(found) = search.next().await {
        let state = found.map_err(Failure::of_a_look)?;
        if !kinds.is_empty() && !kinds.contains(&state.kind) {
            continue;
        }
        let seen = Seen::new(state, &mut people).await;
        match (options.held_longer_than, seen.age()) {
            (Some(_), None) => {
                ageless += u64::from(!seen.holds.is_empty());
                continue;
            }
            (Some(least), Some(age)) if age < least => continue,
            _ => {}
        }
        if json {
            output::print(&format!("{}\n", seen.as_json()))?;
        } else {
            // The header is made behind the first row, so that it is as wide.
            let row = table.row(cells(&seen));
            let header = if printed == 0 { table.row(HEADER) } else { String::new() };
            output::print(&format!("{header}{row}"))?;
        }
        printed += 1;
    }
    if printed == 0 {
        output::note(&format!("no lock was found that fits {:?}", options.pattern), json);
    }
    if let Some(refusal) = search.refusal() {
        output::note(&connection::unseen(search.unseen(), refusal), json);
    }
    if ageless > 0 {
        let locks = if ageless == 1 { "lock was" } else { "locks were" };
        output::note(&format!("{ageless} held {locks} left out, because no holder says since when"), json);
    }
    Ok(0)
}

fn cells(seen: &Seen) -> [String; 7] {
    let state = &seen.state;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        shown(&state.name),
        state.kind.word().to_owned(),
        seen.holder_as_text(),
        or_dash(seen.age().map(show)),
        or_dash(state.remaining.map(show)),
        or_dash(state.waiters.map(|waiters| waiters.to_string())),
        shown(&seen.problems().join("; ")),
    ]
}
