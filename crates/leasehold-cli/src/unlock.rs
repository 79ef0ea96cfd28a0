//! `leasehold unlock`: ends holds of other processes after a confirmation.

mod process;

use crate::args::{ServerOptions, UnlockOptions};
use crate::connection::{self, FAREWELL};
use crate::failure::{Exit, Failure};
use crate::inspect::refuse_pattern;
use crate::look::{Kind, Seen, look};
use crate::output;
use crate::people::Person;
use crate::seen::{Hold, permit_as_json, permit_as_text, unrenewed};
use crate::shown::{counted, shown};
use crate::similar;
use leasehold::inspect::HeldPermit;
use leasehold::{Client, Error, HolderId, PermitId};
use rustix::termios::isatty;
use serde_json::{Value, json};
use std::io::stdin;
use std::time::Duration;

/// Frees a lock, or all locks of a process.
///
/// # Errors
///
/// Another process holds the lock, the user did not confirm, or the server does not reply.
pub(crate) async fn unlock(options: &UnlockOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, "leasehold unlock").await?;
    let result = match (&options.process, &options.name) {
        (Some(process), _) => free_process(&client, process, options.yes, server).await,
        (None, name) => free_lock(&client, name.as_deref().unwrap_or_default(), options, server.json).await,
    };
    // This command holds no lock.
    let _ = client.shutdown(FAREWELL).await;
    result
}

/// A hold to end.
struct Hit {
    name: String,
    id: HolderId,
    way: Way,
    text: String,
    json: Value,
    /// Whether the process may be alive: it renewed recently, or publishes no renewals.
    may_live: bool,
}

impl Hit {
    fn of_hold(name: &str, seen: &Seen, hold: &Hold) -> Self {
        let (name, id) = (name.to_owned(), hold.holder.id.clone());
        let may_live = hold.unrenewed().is_none();
        Self { name, id, way: Way::of(seen, hold), text: hold.as_text(), json: hold.as_json(), may_live }
    }

    fn of_permit(name: &str, permit: &HeldPermit, who: Option<&Person>) -> Self {
        let (name, id) = (name.to_owned(), HolderId::from(permit.id.to_string()));
        let (text, json) = (permit_as_text(permit, who), permit_as_json(permit, who));
        let may_live = unrenewed(id.as_str(), permit.remaining, who).is_none();
        Self { name, id, way: Way::Permit(permit.id), text, json, may_live }
    }
}

/// How to end a hold, by the kind of its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Simple,
    Read,
    Write,
    /// A lock without waiters in a queue. Its script needs no rights to the queue's keys.
    Plain,
    Queued,
    Permit(PermitId),
}

impl Way {
    pub(crate) fn of(seen: &Seen, hold: &Hold) -> Self {
        match (seen.kind, hold.half) {
            (Kind::Simple, _) => Self::Simple,
            (_, Some("read")) => Self::Read,
            (_, Some(_)) => Self::Write,
            _ if seen.has_queue => Self::Queued,
            _ => Self::Plain,
        }
    }
}

/// Ends the holds of a lock, or only the hold that the options name.
///
/// # Errors
///
/// As [`unlock`].
pub(crate) async fn free_lock(client: &Client, name: &str, options: &UnlockOptions, json: bool) -> Result<u8, Failure> {
    let Some(seen) = look(client, name).await? else {
        refuse_pattern(name)?;
        let code = free(name, json)?;
        if let Some(hint) = similar::hint(client, name).await.filter(|_| !json) {
            output::note(&hint, json);
        }
        return Ok(code);
    };
    let hits = match (seen.kind, &options.holder) {
        (Kind::Permits, Some(id)) => permits(client, name, id).await?,
        (Kind::Permits, None) => {
            let text = format!(
                "{name:?} is a {}; select a permit with --holder; `leasehold inspect` shows the permits",
                seen.kind.word()
            );
            return Err(Failure::new(Exit::Conflict, text).of_lock(name));
        }
        (Kind::Counter, _) => {
            let text = format!("{name:?} is a {}, which stores no holders; nothing was freed", seen.kind.word());
            return Err(Failure::new(Exit::Conflict, text).of_lock(name));
        }
        (_, holder) => {
            let is_meant = |hold: &&Hold| holder.as_ref().is_none_or(|holder| hold.holder.id == *holder);
            seen.holds.iter().filter(is_meant).map(|hold| Hit::of_hold(name, &seen, hold)).collect()
        }
    };
    if hits.is_empty() && seen.holds.is_empty() && seen.kind != Kind::Permits && options.holder.is_none() {
        return free(name, json);
    }
    if hits.is_empty() {
        let holders = seen.holds.iter().map(Hold::as_text).collect::<Vec<_>>().join(" and ");
        let holders = match (seen.kind, holders.is_empty()) {
            (Kind::Permits, _) => "`leasehold inspect` shows the permits".to_owned(),
            (_, true) => "the lock is free".to_owned(),
            (_, false) => format!("the holder is {holders}"),
        };
        return Err(
            Failure::new(Exit::Conflict, format!("no such holder of the lock {name:?}: {holders}")).of_lock(name)
        );
    }
    if !options.yes {
        ask(&hits, None).await?;
    }
    let mut gone = None;
    for hit in &hits {
        // A hold that has just ended is no error.
        if !free_from(client, hit, json).await? {
            gone = Some(hit);
        }
    }
    gone.map_or(Ok(0), |Hit { id, name, .. }| {
        let text = format!("{id} no longer holds the lock {name:?}; check with `leasehold inspect`");
        Err(Failure::new(Exit::Conflict, text).of_lock(name))
    })
}

/// Returns the held permits with this id, which names one permit or a hold of several permits.
async fn permits(client: &Client, name: &str, id: &str) -> Result<Vec<Hit>, Failure> {
    let ids: Vec<PermitId> = match id.parse() {
        Ok(permit) => vec![permit],
        Err(_) => {
            let (hold, state) = (HolderId::from(id), client.inspect(name).await.map_err(Failure::of_a_look)?);
            let holders = state.map(|state| state.holders).unwrap_or_default();
            let all = holders.iter().filter_map(|holder| holder.id.as_str().parse().ok());
            all.filter(|permit| hold.has_permit(*permit)).collect()
        }
    };
    let mut hits = Vec::new();
    for permit in ids {
        let held = client.semaphore(name).lease_of(permit).await.map_err(Failure::of_a_look)?;
        hits.extend(held.map(|held| Hit::of_permit(name, &held, None)));
    }
    Ok(hits)
}

async fn free_process(client: &Client, process: &str, yes: bool, server: &ServerOptions) -> Result<u8, Failure> {
    let process::Found { hits, notes } = process::find(client, process, &connection::prefix(server)).await?;
    for note in notes {
        output::note(&note, server.json);
    }
    if hits.is_empty() {
        output::print(&if server.json {
            format!("{}\n", json!({ "process": process, "freed": null }))
        } else {
            format!("{} holds no lock; nothing to do\n", shown(process))
        })?;
        return Ok(0);
    }
    if !yes {
        ask(&hits, Some(process)).await?;
    }
    for hit in &hits {
        if !free_from(client, hit, server.json).await? {
            output::note(&format!("{}: {} no longer holds the lock", shown(&hit.name), hit.id), server.json);
        }
    }
    Ok(0)
}

fn free(name: &str, json: bool) -> Result<u8, Failure> {
    if json {
        output::print(&format!("{}\n", json!({ "name": name, "state": "free", "freed": null })))?;
    } else {
        output::print(&format!("{}: already free\n", shown(name)))?;
    }
    Ok(0)
}

/// Asks for confirmation to end these holds.
async fn ask(hits: &[Hit], process: Option<&str>) -> Result<(), Failure> {
    let (what, left) = match (process, hits) {
        (Some(process), _) => (
            format!("these {}", counted(hits.len() as u64, "hold")),
            format!("not confirmed; the locks of {process} were not freed"),
        ),
        (None, [hit, ..]) => ("the lock".to_owned(), format!("not confirmed; the lock {:?} was not freed", hit.name)),
        (None, []) => return Ok(()),
    };
    let named = |failure: Failure| match (process, hits) {
        (None, [hit, ..]) => failure.of_lock(&hit.name),
        _ => failure,
    };
    if !isatty(stdin()) {
        return Err(named(Failure::new(
            Exit::Usage,
            "unlock asks for confirmation, and stdin is not a terminal; use --yes",
        )));
    }
    for Hit { name, text, .. } in hits {
        output::complain(&format!("{}: held by {text}", shown(name)));
    }
    let living = hits.iter().filter(|hit| hit.may_live).count();
    let told = if living == 0 {
        ""
    } else {
        "The holder receives no notice, and may keep working at the same time as the next holder. "
    };
    output::complain(&format!("{told}Free {what}? [y/N]"));
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.ok().and_then(Result::ok).unwrap_or_default();
    if ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)) {
        return Ok(());
    }
    Err(named(Failure::new(Exit::Declined, left)))
}

/// Ends a hold and prints it. Returns `false` if the hold had already ended.
async fn free_from(client: &Client, hit: &Hit, json: bool) -> Result<bool, Failure> {
    let Hit { name, id, way, text, json: hold, .. } = hit;
    if !end(client, name, id, *way).await? {
        return Ok(false);
    }
    output::print(&if json {
        format!("{}\n", json!({ "name": name, "freed": hold }))
    } else {
        format!("{}: freed; it was held by {text}\n", shown(name))
    })?;
    Ok(true)
}

/// Ends this hold, never a later hold. Returns `false` if the hold had already ended.
///
/// # Errors
///
/// The server refuses or does not reply.
pub(crate) async fn end(client: &Client, name: &str, id: &HolderId, way: Way) -> Result<bool, Error> {
    match way {
        Way::Simple => client.simple_lock(name, Duration::from_secs(30)).force_release_holder(id).await,
        Way::Read => client.read_write_lock(name).read().force_release_holder(id).await,
        Way::Write => client.read_write_lock(name).write().force_release_holder(id).await,
        Way::Plain => {
            let ended = client.lock(name).force_release_holder(id).await?;
            if ended {
                wake_a_queue(client, name, id).await;
            }
            Ok(ended)
        }
        Way::Queued => client.fair_lock(name).force_release_holder(id).await,
        Way::Permit(permit) => Ok(client.semaphore(name).release_ids(&[permit]).await? == [true]),
    }
}

/// Wakes the first waiter of a queue that formed after the inspection, for example during the confirmation. The plain
/// lock's script does not notify a queue, so a waiting JVM would sleep until the old lease ends.
async fn wake_a_queue(client: &Client, name: &str, freed_from: &HolderId) {
    let lock = client.fair_lock(name);
    // The lock is free. Ignore an error, because the waiter still polls.
    if lock.inspect().await.is_ok_and(|queue| !queue.waiters.is_empty()) {
        let _ = lock.force_release_holder(freed_from).await;
    }
}
