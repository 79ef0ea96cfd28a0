//! Look-up of the process behind a holder, and of its locks.

use crate::client::Client;
use crate::client::record::{AnnouncedLock, ClientRecord};
use crate::error::Error;
use crate::lock::spec::LockSpec;
use leasehold_core::command::Kind;
use leasehold_core::command::record as command;
use leasehold_core::command::record::Found;
use leasehold_core::command::record::uses::LockUse;
use leasehold_core::owner::ClientId;
use uuid::Uuid;

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
        Ok(found(self, id.as_ref()).await?.map(|(record, _)| record))
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
        let uses = found(self, id.as_ref()).await?.map_or_else(Vec::new, |(_, uses)| uses);
        Ok(uses.into_iter().map(AnnouncedLock::from_server).collect())
    }
}

/// Reads the record of the client with this id.
async fn found(client: &Client, id: &str) -> Result<Option<(ClientRecord, Vec<LockUse>)>, Error> {
    let Ok(uuid) = Uuid::try_parse(id.split(':').next().unwrap_or_default()) else { return Ok(None) };
    let spec = LockSpec::new(client.handle().clone(), Kind::Lock, id);
    match spec.call_once(command::get(&ClientId::new(uuid)), command::found).await? {
        Found::Absent => Ok(None),
        Found::Record { record, up, age, uses, .. } => Ok(Some((ClientRecord::from_server(record, up, age), uses))),
        Found::Kind(kind) => Err(spec.conflict(kind)),
    }
}
