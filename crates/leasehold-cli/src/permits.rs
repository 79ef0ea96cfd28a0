//! The processes behind the permits of a semaphore. For a leased semaphore, the server stores the ids of held permits;
//! for a bare semaphore, only their number. Clients publish their permits in their records.

use crate::failure::reason;
use crate::people::Person;
use crate::seen::{Said, Seen};
use crate::shown::counted;
use leasehold::inspect::{AnnouncedClient, FoundKind};
use leasehold::{Client, Error, PermitId};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Timeout of the search for client records, which scans all keys of the server.
const SEARCH: Duration = Duration::from_secs(5);

/// The rights of the search.
const RIGHTS: &str = "this user needs +scan, +hlen, +hmget and ~leasehold:1:client:*";

/// Adds the processes that hold permits of this key. Returns a message about permits whose process is unknown.
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
            format!("unknown process of {}", counted(u64::try_from(unknown).unwrap_or(u64::MAX), "permit"))
        }
        _ => "unknown holders".to_owned(),
    };
    match why {
        Ended::Seen if seen.state.kind == FoundKind::Counter => None,
        Ended::Seen => {
            Some(format!("{unknown}: the process is not announced, or acquired the permit within the last two seconds"))
        }
        Ended::Cut => Some(format!("{unknown}: the search for client records ended after {SEARCH:?}")),
        Ended::Failed(why) => Some(format!("{unknown}: {why}")),
    }
}

/// How a search ended.
enum Ended {
    /// The search found every permit, or read every record.
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

/// Adds the permits of the semaphore that a client's record lists.
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
