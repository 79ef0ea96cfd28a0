//! The processes behind holders and waiters, as far as they have announced themselves.

use leasehold::{AnnouncedLock, Client, ClientRecord};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// How many clients are remembered. A search that meets more asks anew for those that come again.
const REMEMBERED: usize = 1_000;

/// A client that has announced itself.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) record: ClientRecord,
    locks: Vec<AnnouncedLock>,
}

impl Person {
    /// How long it says that it has held a lock under this id; it says so after a second.
    pub(crate) fn held(&self, id: &str) -> Option<Duration> {
        // An id belongs to one hold, whose lock may have another name here than its key, because of the prefix.
        let of_hold = |lock: &&AnnouncedLock| lock.holder.as_ref().is_some_and(|holder| holder.as_str() == id);
        self.locks.iter().find(of_hold).map(|lock| lock.lasted)
    }
}

/// Asks for each client once, and remembers the answer.
pub(crate) struct People<'a> {
    client: &'a Client,
    known: HashMap<String, Option<Rc<Person>>>,
}

impl<'a> People<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, known: HashMap::new() }
    }

    /// The client behind the id of a holder or a waiter; `None` if it has announced nothing, or this user may not read it.
    pub(crate) async fn of(&mut self, id: &str) -> Option<Rc<Person>> {
        let uuid = id.split(':').next().unwrap_or(id);
        if let Some(known) = self.known.get(uuid) {
            return known.clone();
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let person = self.ask(id).await.map(Rc::new);
        self.known.insert(uuid.to_owned(), person.clone());
        person
    }

    async fn ask(&self, id: &str) -> Option<Person> {
        let record = self.client.who_is(id).await.ok().flatten()?;
        let locks = self.client.locks_of(id).await.unwrap_or_default();
        Some(Person { record, locks })
    }
}
