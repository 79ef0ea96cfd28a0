//! The processes behind the permits of a semaphore.
//!
//! The server has the ids of permits that are leased, and of a bare semaphore no more than a number. Only the clients themselves say which of
//! them hold permits.

use crate::failure::reason;
use crate::people::Person;
use crate::seen::{Said, Seen};
use crate::shown::counted;
use leasehold::inspect::{AnnouncedClient, FoundKind};
use leasehold::{Client, Error, PermitId};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the records of clients are searched for. They stand among all other keys of the server, of which there may be millions.
const SEARCH: Duration = Duration::from_secs(5);

/// The rights that the search needs.
const RIGHTS: &str = "inspect needs +scan, +hlen, +hmget and ~leasehold:1:client:* for that";

/// Adds the processes that say to hold permits of this key. The text says of how many permits the process is not known, and why.
pub(crate) async fn find_holders(client: &Client, key: &str, seen: &mut Seen) -> Option<String> {
    let is_wanted = match seen.state.kind {
        FoundKind::Semaphore => !seen.holds.is_empty(),
        FoundKind::Counter => true,
        _ => false,
    };
    let why = if is_wanted { search(client, key, seen).await } else { return None };
    let unknown = seen.holds.iter().filter(|hold| hold.who.is_none()).count();
    let unknown = match seen.state.kind {
        FoundKind::Semaphore if unknown == 0 => return None,
        FoundKind::Semaphore => {
            format!("which process has {}", counted(u64::try_from(unknown).unwrap_or(u64::MAX), "permit"))
        }
        _ => "whether a process holds permits".to_owned(),
    };
    match why {
        Ended::Seen if seen.state.kind == FoundKind::Counter => None,
        Ended::Seen => {
            Some(format!("{unknown} is not known: it does not announce itself, or has them for less than two seconds"))
        }
        Ended::Cut => {
            Some(format!("{unknown} is not known: the search for what processes say was ended after {SEARCH:?}"))
        }
        Ended::Failed(why) => Some(format!("{unknown} is not known: {why}")),
    }
}

/// How a search has ended.
enum Ended {
    /// Everything that was wanted has been found, or everything has been seen.
    Seen,
    Cut,
    Failed(String),
}

async fn search(client: &Client, key: &str, seen: &mut Seen) -> Ended {
    let (mut clients, end) = (client.announced_clients(), Instant::now() + SEARCH);
    loop {
        match timeout_at(end, clients.next()).await {
            Ok(Some(Ok(found))) => add(seen, key, found),
            Ok(Some(Err(error))) => return Ended::Failed(why(&error)),
            Ok(None) => return Ended::Seen,
            Err(_) => return Ended::Cut,
        }
        if !seen.holds.is_empty() && seen.holds.iter().all(|hold| hold.who.is_some()) {
            return Ended::Seen;
        }
    }
}

fn why(error: &Error) -> String {
    match error {
        Error::SearchFailed { refusal: Some(refusal), .. } => format!("{refusal}; {RIGHTS}"),
        error => reason(error),
    }
}

/// Adds what a client says of the semaphore.
fn add(seen: &mut Seen, key: &str, found: AnnouncedClient) {
    let locks = found.locks.iter().filter(|lock| lock.key == key);
    let holds: Vec<_> = locks.filter_map(|lock| Some((lock.holder.clone()?, lock.lasted))).collect();
    if holds.is_empty() {
        return;
    }
    let who = Arc::new(Person::from(found));
    if seen.state.kind == FoundKind::Counter {
        seen.said.extend(holds.into_iter().map(|(id, lasted)| Said { id, lasted, who: who.clone() }));
        return;
    }
    for hold in seen.holds.iter_mut().filter(|hold| hold.who.is_none()) {
        let Ok(permit) = hold.holder.id.as_str().parse::<PermitId>() else { continue };
        if holds.iter().any(|(id, _)| id.has_permit(permit)) {
            hold.who = Some(who.clone());
        }
    }
}
