//! The records of announced clients.

use super::keys::Keys;
use crate::client::Client;
use crate::client::inner::Handle;
use crate::client::record::{AnnouncedClient, AnnouncedLock, ClientRecord};
use crate::error::Error;
use crate::lock::spec::LockSpec;
use futures_util::future::join_all;
use leasehold_core::command::Kind;
use leasehold_core::command::record as command;
use leasehold_core::command::record::uses::LockUse;
use leasehold_core::owner::ClientId;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// The pattern of all records.
const RECORDS: &str = "leasehold:1:client:*";

/// The number of records in flight. A server processes the commands of one connection in sequence, so this limits the delay of other
/// clients.
const AT_ONCE: usize = 32;

impl Client {
    /// Returns the process behind a [`Holder::id`](crate::inspect::Holder::id), a [`Waiter::id`](crate::inspect::Waiter::id) or a [`Client::id`].
    /// Returns `None` if the client does not announce itself, ended more than a minute ago, or uses another library.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] if the server gave no result within the command timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::embedded::EmbeddedServer;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = EmbeddedServer::new();
    /// let client = leasehold::Client::builder().announce("orders").embedded(&server)?;
    /// # while client.who_is(&client.id()).await?.is_none() { tokio::task::yield_now().await }
    /// let guard = client.lock("stock:1001").acquire().await?;
    /// let holder = client.lock("stock:1001").inspect().await?.expect("a holder");
    /// let who = client.who_is(&holder.id).await?.expect("a client that announced itself");
    /// assert_eq!((who.application.as_str(), who.pid), ("orders", std::process::id()));
    /// # guard.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn who_is(&self, id: impl AsRef<str>) -> Result<Option<ClientRecord>, Error> {
        Ok(record_of_id(self, id.as_ref()).await?.map(|found| found.record))
    }

    /// Returns the locks that the client behind an id has held or awaited for at least a second, from its record. Waits come first; the record has at
    /// most 64 locks. The list is empty if the client does not announce itself, or ended more than a minute ago.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::who_is`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::embedded::{EmbeddedServer, ManualClock};
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let clock = ManualClock::new();
    /// # let server = EmbeddedServer::with_clock(clock.clone());
    /// let client = leasehold::Client::builder().announce("orders").manual_clock(&clock).embedded(&server)?;
    /// let guard = client.lock("stock:1001").acquire().await?;
    /// clock.advance(Duration::from_secs(3));
    /// let locks = client.locks_of(client.id()).await?;
    /// assert_eq!((locks[0].key.as_str(), &locks[0].holder), ("stock:1001", &Some(guard.holder_id())));
    /// # guard.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn locks_of(&self, id: impl AsRef<str>) -> Result<Vec<AnnouncedLock>, Error> {
        let found = record_of_id(self, id.as_ref()).await?;
        Ok(found.map_or_else(Vec::new, |found| AnnouncedClient::from(found).locks))
    }

    /// Lists the clients that [announce](crate::ClientBuilder::announce) themselves on the server, or on all primaries of a cluster, with the
    /// locks that they hold and wait for. An operator can use it to find the holders of a semaphore's permits, for which the server stores
    /// only ids or a number.
    ///
    /// The search sends many short commands, like the search for [locks](Self::locks). The client's user needs the rights in the `record` block of
    /// [docs/security.md](https://github.com/leasehold/leasehold/blob/main/docs/security.md), and `+scan`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::embedded::{EmbeddedServer, ManualClock};
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let clock = ManualClock::new();
    /// # let server = EmbeddedServer::with_clock(clock.clone());
    /// let client = leasehold::Client::builder().announce("orders").manual_clock(&clock).embedded(&server)?;
    /// let supplier = client.semaphore("supplier");
    /// supplier.try_set_permits(3).await?;
    /// let guard = supplier.acquire().await?;
    /// clock.advance(Duration::from_secs(3));
    /// let permit = supplier.inspect().await?.expect("a semaphore").permits[0].id;
    /// let mut clients = client.announced_clients();
    /// while let Some(found) = clients.next().await {
    ///     let found = found?;
    ///     let mut holders = found.locks.iter().filter_map(|lock| lock.holder.as_ref());
    ///     assert!(holders.any(|holder| holder.has_permit(permit)));
    ///     println!("{} holds the permit {permit}", found.record.application);
    /// }
    /// # guard.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn announced_clients(&self) -> AnnouncedClients {
        let handle = self.handle().clone();
        let keys = Keys::new(handle.clone(), RECORDS.to_owned(), RECORDS);
        AnnouncedClients { handle, keys, seen: HashSet::new(), found: VecDeque::new(), is_over: false }
    }
}

/// A search for announced clients, from [`Client::announced_clients`]. It sends nothing before the first call of `next`.
#[must_use = "a search does nothing until `next` is called"]
pub struct AnnouncedClients {
    handle: Arc<Handle>,
    keys: Keys,
    /// The clients of earlier pages, because `SCAN` may repeat a key.
    seen: HashSet<Uuid>,
    /// The unread part of the page.
    found: VecDeque<Announced>,
    is_over: bool,
}

impl AnnouncedClients {
    /// Returns the next client, or `None` after the last client and after an error.
    ///
    /// # Errors
    ///
    /// [`Error::SearchFailed`] if a server did not reply within the command timeout, or refused. The search returns the error last, after the clients of the
    /// other nodes of a cluster.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future skips no client: the next call repeats the pending commands.
    pub async fn next(&mut self) -> Option<Result<AnnouncedClient, Error>> {
        if self.is_over {
            return None;
        }
        let found = self.next_record().await;
        self.is_over = !matches!(found, Ok(Some(_)));
        found.map(|found| found.map(AnnouncedClient::from)).map_err(|error| error.in_a_search(RECORDS)).transpose()
    }

    /// Returns the next record, or `None` after the last. The page advances only after its last record, so a dropped future skips no client.
    pub(super) async fn next_record(&mut self) -> Result<Option<Announced>, Error> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(Some(found));
            }
            let Some(page) = self.keys.page().await else { return self.keys.failure().map(|()| None) };
            let names = page.names.iter().filter_map(|key| std::str::from_utf8(key).ok());
            let uuids = names.filter_map(|key| Uuid::try_parse(key.rsplit(':').next()?).ok());
            let uuids: HashSet<Uuid> = uuids.filter(|uuid| !self.seen.contains(uuid)).collect();
            let (uuids, mut found) = (Vec::from_iter(uuids), VecDeque::new());
            for some in uuids.chunks(AT_ONCE) {
                for record in join_all(some.iter().map(|uuid| record_of(&self.handle, *uuid))).await {
                    match record {
                        Err(Error::KeyConflict { .. }) => {}
                        record => found.extend(record?),
                    }
                }
            }
            self.seen.extend(uuids);
            self.found = found;
            self.keys.turn(page);
        }
    }
}

impl fmt::Debug for AnnouncedClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnnouncedClients").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// A client with the locks that it holds and waits for.
pub(super) struct Announced {
    pub(super) client: ClientId,
    pub(super) record: ClientRecord,
    pub(super) uses: Vec<LockUse>,
}

impl From<Announced> for AnnouncedClient {
    fn from(found: Announced) -> Self {
        let locks = found.uses.into_iter().map(AnnouncedLock::from_server).collect();
        Self { id: found.client.to_string().into(), record: found.record, locks }
    }
}

/// Reads the record of the client behind the id of a holder, a waiter or a client.
async fn record_of_id(client: &Client, id: &str) -> Result<Option<Announced>, Error> {
    let Ok(uuid) = Uuid::try_parse(id.split(':').next().unwrap_or_default()) else { return Ok(None) };
    record_of(client.handle(), uuid).await
}

async fn record_of(handle: &Arc<Handle>, uuid: Uuid) -> Result<Option<Announced>, Error> {
    let client = ClientId::new(uuid);
    let spec = LockSpec::new(handle.clone(), Kind::Lock, &client.to_string());
    let found = spec.call_once(command::get(&client), command::found).await?;
    Ok(found.map(|found| Announced {
        client,
        record: ClientRecord::from_server(found.record, found.up, found.age),
        uses: found.uses,
    }))
}
