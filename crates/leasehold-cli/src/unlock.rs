//! `leasehold unlock`: ends the hold of another process, after a look at whom it hits.

use crate::args::{ServerOptions, UnlockOptions};
use crate::connection::{self, FAREWELL};
use crate::failure::{Exit, Failure};
use crate::look::{Kind, Seen, look};
use crate::output;
use crate::seen::Hold;
use crate::shown::shown;
use leasehold::{Client, Error, HolderId};
use rustix::termios::isatty;
use serde_json::json;
use std::io::stdin;
use std::time::Duration;

/// Frees a lock.
///
/// # Errors
///
/// Another process holds it than the one that was named, the question was not answered with yes, or the server gives no answer.
pub(crate) async fn unlock(options: &UnlockOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, "leasehold unlock").await?;
    let result = with_client(&client, options, server.json).await;
    // Nothing is held, so nothing is left behind.
    let _ = client.shutdown(FAREWELL).await;
    result
}

async fn with_client(client: &Client, options: &UnlockOptions, json: bool) -> Result<u8, Failure> {
    let name = &options.name;
    let Some(seen) = look(client, name).await? else { return free(name, json) };
    if matches!(seen.kind, Kind::Permits | Kind::Counter) {
        let text = format!("{name:?} is a {}, which has permits and no holder to free it from", seen.kind.word());
        return Err(Failure::new(Exit::Conflict, text).of_lock(name));
    }
    let hit: Vec<&Hold> = seen.holds.iter().filter(|hold| is_meant(hold, options)).collect();
    if hit.is_empty() && seen.holds.is_empty() && options.holder.is_none() {
        return free(name, json);
    }
    if hit.is_empty() {
        let holders = seen.holds.iter().map(Hold::as_text).collect::<Vec<_>>().join(" and ");
        let holders =
            if holders.is_empty() { "nothing is held".to_owned() } else { format!("the holder is {holders}") };
        return Err(Failure::new(Exit::Conflict, format!("the lock {name:?} is not held so: {holders}")).of_lock(name));
    }
    if !options.yes {
        ask(name, &hit).await?;
    }
    for hold in hit {
        free_from(client, name, &seen, hold, json).await?;
    }
    Ok(0)
}

fn is_meant(hold: &Hold, options: &UnlockOptions) -> bool {
    options.holder.as_ref().is_none_or(|holder| hold.holder.id == *holder)
}

fn free(name: &str, json: bool) -> Result<u8, Failure> {
    if json {
        output::print(&format!("{}\n", json!({ "name": name, "state": "free", "freed": null })))?;
    } else {
        output::print(&format!("{}: free, so there is nothing to do\n", shown(name)))?;
    }
    Ok(0)
}

/// Asks whether the lock is to be freed.
async fn ask(name: &str, hit: &[&Hold]) -> Result<(), Failure> {
    if !isatty(stdin()) {
        return Err(Failure::new(Exit::Usage, "unlock asks first, and stdin is no terminal; use --yes").of_lock(name));
    }
    for hold in hit {
        output::complain(&format!("{}: held by {}", shown(name), hold.as_text()));
    }
    output::complain("It is not asked, and may go on with its work beside the next holder. Free the lock? [y/N]");
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.ok().and_then(Result::ok).unwrap_or_default();
    if ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)) {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("the lock {name:?} was left alone")).of_lock(name))
}

/// Ends a hold, and says so.
async fn free_from(client: &Client, name: &str, seen: &Seen, hold: &Hold, json: bool) -> Result<(), Failure> {
    let id = &hold.holder.id;
    let ended = end(client, name, seen, hold).await?;
    if !ended {
        let text = format!("{id} did not hold the lock {name:?} any more; look again with `leasehold inspect`");
        return Err(Failure::new(Exit::Conflict, text).of_lock(name));
    }
    if json {
        output::print(&format!("{}\n", json!({ "name": name, "freed": hold.as_json() })))
    } else {
        output::print(&format!("{}: freed; it was held by {}\n", shown(name), hold.as_text()))
    }
}

/// Ends the hold that was seen, and no later one; `false` if it was over by then.
///
/// # Errors
///
/// The server refuses, or gives no answer.
pub(crate) async fn end(client: &Client, name: &str, seen: &Seen, hold: &Hold) -> Result<bool, Error> {
    let id = &hold.holder.id;
    match (seen.kind, hold.half) {
        (Kind::Simple, _) => client.simple_lock(name, Duration::from_secs(30)).force_release_holder(id).await,
        (_, Some("read")) => client.read_write_lock(name).read().force_release_holder(id).await,
        (_, Some(_)) => client.read_write_lock(name).write().force_release_holder(id).await,
        // The script of the plain lock needs no right to the keys of a queue.
        _ if !seen.has_queue => {
            let ended = client.lock(name).force_release_holder(id).await?;
            if ended {
                wake_a_queue(client, name, id).await;
            }
            Ok(ended)
        }
        _ => client.fair_lock(name).force_release_holder(id).await,
    }
}

/// Wakes the first waiter of a queue that was not there when the lock was looked at, perhaps before a question that took long to answer. It
/// listens for what the script of the plain lock does not say, and a JVM's thread would sleep on for the rest of the lease that it has seen.
async fn wake_a_queue(client: &Client, name: &str, freed_from: &HolderId) {
    let lock = client.fair_lock(name);
    // The lock is free by now. A user without the right to a queue has none to wake, and any other error leaves the waiter to its own next look.
    if lock.inspect().await.is_ok_and(|queue| !queue.waiters.is_empty()) {
        let _ = lock.force_release_holder(freed_from).await;
    }
}
