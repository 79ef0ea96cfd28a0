//! `leasehold watch`: prints the changes between scans.
//!
//! `watch/changes.rs` compares two scans. This file scans and prints in a loop.

mod changes;

use crate::args::{ServerOptions, WatchOptions};
use crate::connection::{self, FAREWELL};
use crate::failure::{Exit, Failure, passes, reason};
use crate::moment;
use crate::output;
use crate::people::People;
use crate::seen::{process_as_json, process_as_text};
use crate::shown::{counted, shown};
use changes::{Change, Event, Looked};
use leasehold::{Client, Error};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

/// The locks of one scan by name.
type Locks = BTreeMap<String, Looked>;

/// Prints a line for each change until SIGINT.
///
/// # Errors
///
/// The server refuses the search.
pub(crate) async fn watch(options: &WatchOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let interrupt = signal(SignalKind::interrupt());
    let mut interrupt =
        interrupt.map_err(|error| Failure::new(Exit::Other, format!("cannot handle signals: {error}")))?;
    let client = tokio::select! {
        _ = interrupt.recv() => return Ok(0),
        client = connection::connect_or_wait(server, "leasehold watch") => client?,
    };
    let result = tokio::select! {
        _ = interrupt.recv() => Ok(0),
        failure = go_on(&client, options, server.json) => failure,
    };
    // This command holds no lock.
    let _ = client.shutdown(FAREWELL).await;
    result
}

/// Scans, and prints the changes until a permanent error.
async fn go_on(client: &Client, options: &WatchOptions, json: bool) -> Result<u8, Failure> {
    let teller = Teller { json };
    let mut before: Option<(Instant, Locks)> = None;
    let (mut is_away, mut hidden) = (false, None);
    loop {
        let begun = Instant::now();
        match look(client, &options.pattern).await {
            Ok((now, unseen)) => {
                if std::mem::take(&mut is_away) {
                    teller.of_the_server("answers again", None)?;
                }
                let mut people = People::new(client);
                let changes = match &before {
                    // From the start of the last scan to the end of this scan. A shorter time could count an expired
                    // lease as a release.
                    Some((at, before)) => changes::between(before, &now, at.elapsed()),
                    None => changes::at_first(&now),
                };
                for change in changes {
                    teller.tell(&change, &mut people).await?;
                }
                if before.is_none() {
                    teller.of_the_server("answers", Some(&fitting(now.len())))?;
                }
                if unseen.is_some() && unseen != hidden {
                    teller.of_the_server("refuses scans", unseen.as_deref())?;
                }
                hidden = unseen;
                before = Some((begun, now));
            }
            Err(error) if passes(&error) => {
                if !std::mem::replace(&mut is_away, true) {
                    teller.of_the_server("does not answer", Some(&reason(&error)))?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        sleep(options.every).await;
    }
}

/// Returns the locks, and the message about names that this user may not inspect.
async fn look(client: &Client, pattern: &str) -> Result<(Locks, Option<String>), Error> {
    let (mut locks, mut search) = (Locks::new(), client.locks(pattern));
    while let Some(found) = search.next().await {
        let state = found?;
        locks.insert(state.name.clone(), Looked::new(&state));
    }
    let unseen = search.refusal().map(|refusal| connection::unseen(search.unseen(), refusal));
    Ok((locks, unseen))
}

/// Formats the number of locks in the first scan.
fn fitting(count: usize) -> String {
    counted(count as u64, "matching lock")
}

/// Prints events with their time.
struct Teller {
    json: bool,
}

impl Teller {
    fn of_the_server(&self, what: &str, why: Option<&str>) -> Result<(), Failure> {
        if self.json {
            let line = json!({ "at": moment::now(), "event": "server", "server": what, "message": why });
            return output::print(&format!("{line}\n"));
        }
        let why = why.map(|why| format!(": {}", shown(why))).unwrap_or_default();
        output::print(&format!("{}  the server {what}{why}\n", moment::now()))
    }

    async fn tell(&self, change: &Change, people: &mut People<'_>) -> Result<(), Failure> {
        let (word, id) = match &change.event {
            Event::Waiting { before, now } => return self.of_waiters(change, *before, *now),
            Event::Held(id) => ("held", id),
            Event::Granted(id) => ("granted", id),
            Event::Released(id) => ("released", id),
            Event::Lost(id) => ("lost", id),
        };
        let who = people.of(id).await;
        if self.json {
            let process = who.as_ref().map(|who| process_as_json(&who.record));
            let mut line = self.object(change, word);
            line["holder"] = json!(id);
            line["process"] = json!(process);
            return output::print(&format!("{line}\n"));
        }
        let who = who.map(|who| format!("; {}", process_as_text(&who.record))).unwrap_or_default();
        let between = match change.event {
            Event::Held(_) => "by",
            Event::Granted(_) => "to",
            Event::Lost(_) => "expired lease of",
            _ => "of",
        };
        self.line(change, word, &format!("{between} {}{who}", shown(id)))
    }

    fn of_waiters(&self, change: &Change, before: u64, now: u64) -> Result<(), Failure> {
        if self.json {
            let mut line = self.object(change, "waiters");
            line["before"] = json!(before);
            line["now"] = json!(now);
            return output::print(&format!("{line}\n"));
        }
        self.line(change, "waiters", &format!("{now}, was {before}"))
    }

    fn object(&self, change: &Change, event: &str) -> Value {
        json!({ "at": moment::now(), "event": event, "name": change.name, "kind": change.kind.word() })
    }

    fn line(&self, change: &Change, word: &str, text: &str) -> Result<(), Failure> {
        output::print(&format!("{}  {:<24}  {word:<8}  {text}\n", moment::now(), shown(&change.name)))
    }
}
