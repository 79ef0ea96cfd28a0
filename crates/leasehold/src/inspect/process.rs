//! Looking up the process behind a holder, and its locks.

use crate::client::Client;
use crate::error::Error;
use crate::lock_spec::LockSpec;
use crate::record::{AnnouncedLock, ClientRecord};
use leasehold_core::command::Kind;
use leasehold_core::command::record as command;
use leasehold_core::command::record::Found;
use leasehold_core::command::record::uses::LockUse;
use leasehold_core::owner::ClientId;
use uuid::Uuid;

impl Client {
    /// The process behind a [`Holder::id`](crate::inspect::Holder::id), a [`Waiter::id`](crate::inspect::Waiter::id) or a [`Client::id`]; `None` if the
    /// client announced nothing, is gone for a minute, or is none of this library.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] where the server gave no answer, within the command timeout.
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

    /// The locks that the client behind an id holds and waits for, as it says in its record: what has lasted for a second, waits first,
    /// and 64 locks at the most. It is empty if the client announced nothing, or is gone for a minute.
    ///
    /// # Errors
    ///
    /// As [`Client::who_is`].
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

/// The record of the client that an id names.
async fn found(client: &Client, id: &str) -> Result<Option<(ClientRecord, Vec<LockUse>)>, Error> {
    let Ok(uuid) = Uuid::try_parse(id.split(':').next().unwrap_or_default()) else { return Ok(None) };
    let spec = LockSpec::new(client.handle().clone(), Kind::Lock, id);
    match spec.call_once(command::get(&ClientId::new(uuid)), command::found).await? {
        Found::Absent => Ok(None),
        Found::Record { record, up, age, uses, .. } => Ok(Some((ClientRecord::from_server(record, up, age), uses))),
        Found::Kind(kind) => Err(spec.conflict(kind)),
    }
}
