//! The announced processes behind holders and waiters.

use leasehold::inspect::{AnnouncedClient, AnnouncedLock, ClientRecord};
use leasehold::{Client, HolderId, PermitId};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Maximum number of cached clients.
const REMEMBERED: usize = 1_000;

/// Maximum number of concurrent requests. The server runs one connection's pipeline without a break, so this limit
/// bounds the delay of other programs.
const AT_ONCE: usize = 32;

/// Maximum age of a live process's record, which the process rewrites every 20 s.
const SILENT: Duration = Duration::from_secs(25);

/// An announced client.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) record: ClientRecord,
    /// When this process requested the record.
    asked: Instant,
    locks: Vec<AnnouncedLock>,
}

impl Person {
    /// Returns the uptime of the client.
    pub(crate) fn up(&self) -> Duration {
        self.record.up + self.asked.elapsed()
    }

    /// Returns the age of its record, if a live process would have rewritten the record.
    pub(crate) fn silent(&self) -> Option<Duration> {
        Some(self.seen_ago()).filter(|ago| *ago > SILENT)
    }

    /// Returns the age of its record.
    pub(crate) fn seen_ago(&self) -> Duration {
        self.record.written_ago + self.asked.elapsed()
    }

    /// Returns the age of a hold or permit, which the record lists after the first second.
    pub(crate) fn held(&self, id: &str) -> Option<Duration> {
        self.lock_of(id).map(|lock| lock.lasted + self.asked.elapsed())
    }

    /// Returns the lease with which the client renews a hold, according to its record.
    pub(crate) fn lease(&self, id: &str) -> Option<Duration> {
        self.lock_of(id)?.lease
    }

    fn lock_of(&self, id: &str) -> Option<&AnnouncedLock> {
        let permit = id.parse::<PermitId>().ok();
        // Ids are unique, so names and keys need no comparison.
        let of_hold = |lock: &&AnnouncedLock| {
            let is_of = |permit| lock.holder.as_ref().is_some_and(|holder| holder.has_permit(permit));
            lock.holder.as_ref().is_some_and(|holder| holder.as_str() == id) || permit.is_some_and(is_of)
        };
        self.locks.iter().find(of_hold)
    }

    /// Returns whether its record lists this permit.
    pub(crate) fn has_permit(&self, permit: PermitId) -> bool {
        self.holders().any(|holder| holder.has_permit(permit))
    }

    /// Returns whether its record lists a hold of the lock with this key.
    pub(crate) fn holds(&self, key: &str) -> bool {
        self.locks.iter().any(|lock| lock.key == key && lock.holder.is_some())
    }

    /// Returns whether its record lists no hold.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.holders().next().is_none()
    }

    fn holders(&self) -> impl Iterator<Item = &HolderId> {
        self.locks.iter().filter_map(|lock| lock.holder.as_ref())
    }
}

impl From<AnnouncedClient> for Person {
    fn from(found: AnnouncedClient) -> Self {
        Self { record: found.record, asked: Instant::now(), locks: found.locks }
    }
}

/// Fetches client records, and caches them.
pub(crate) struct People<'a> {
    client: &'a Client,
    known: HashMap<String, Option<Arc<Person>>>,
}

impl<'a> People<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, known: HashMap::new() }
    }

    /// Returns the client of a holder or waiter. `None` if the client has no record, or this user may not read it.
    pub(crate) async fn of(&mut self, id: &str) -> Option<Arc<Person>> {
        if let Some(known) = self.known.get(client_of(id)) {
            return known.clone();
        }
        let person = ask(self.client, id).await;
        self.remember(client_of(id), person)
    }

    /// Fetches the uncached records of several clients concurrently.
    pub(crate) async fn meet(&mut self, ids: impl Iterator<Item = String>) {
        let strangers: BTreeSet<_> = ids.map(|id| client_of(&id).to_owned()).collect();
        let mut strangers = strangers.into_iter().filter(|one| !self.known.contains_key(one)).collect::<Vec<_>>();
        let mut asked = JoinSet::new();
        loop {
            while asked.len() < AT_ONCE
                && let Some(stranger) = strangers.pop()
            {
                let client = self.client.clone();
                asked.spawn(async move { (ask(&client, &stranger).await, stranger) });
            }
            match asked.join_next().await {
                Some(Ok((person, id))) => drop(self.remember(&id, person)),
                // After a panic, `of` fetches this record again.
                Some(Err(_)) => {}
                None => return,
            }
        }
    }

    fn remember(&mut self, client: &str, person: Option<Person>) -> Option<Arc<Person>> {
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let person = person.map(Arc::new);
        self.known.insert(client.to_owned(), person.clone());
        person
    }
}

/// Returns the client part of a hold's id.
pub(crate) fn client_of(id: &str) -> &str {
    id.split(':').next().unwrap_or(id)
}

/// Reads the record of a client.
pub(crate) async fn ask(client: &Client, id: &str) -> Option<Person> {
    let asked = Instant::now();
    let record = client.who_is(id).await.ok().flatten()?;
    let locks = client.locks_of(id).await.unwrap_or_default();
    Some(Person { record, asked, locks })
}
