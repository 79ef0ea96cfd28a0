//! Looking up the process behind a holder.

use crate::client::Client;
use crate::error::Error;
use crate::lock_spec::LockSpec;
use crate::record::ClientRecord;
use leasehold_core::command::Kind;
use leasehold_core::command::record as command;
use leasehold_core::command::record::Found;
use leasehold_core::owner::ClientId;
use uuid::Uuid;

impl Client {
    /// The process behind a [`Holder::id`](crate::Holder::id), a [`Waiter::id`](crate::Waiter::id) or a [`Client::id`]; `None` if the
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
        let id = id.as_ref();
        let Ok(uuid) = Uuid::try_parse(id.split(':').next().unwrap_or_default()) else { return Ok(None) };
        let spec = LockSpec::new(self.handle().clone(), Kind::Lock, id);
        match spec.call_once(command::get(&ClientId::new(uuid)), command::found).await? {
            Found::Absent => Ok(None),
            Found::Record { record, .. } => Ok(Some(ClientRecord::from_server(record))),
            Found::Kind(kind) => Err(spec.conflict(kind)),
        }
    }
}
