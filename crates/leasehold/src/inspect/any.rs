//! Inspection of a name whose kind is unknown.

use super::state::{FoundKind, LockState};
use crate::client::Client;
use crate::error::{Error, InvalidInput};
use crate::lock::spec::LockSpec;
use leasehold_core::command::Kind;
use leasehold_core::command::any::{self as command, Inspected};
use leasehold_core::name::LockName;

impl Client {
    /// Returns the state of a lock of any kind: holders with their counts, the queue with the age of each waiter, leases, the last fencing token, and
    /// problems. Returns `None` if the key does not exist. This changes nothing.
    ///
    /// The lists contain at most 128 holders and 128 waiters. A key with other data is [`FoundKind::Foreign`]. The client's user needs the rights
    /// of the block `locks` in [docs/security.md](https://github.com/leasehold/leasehold/blob/main/docs/security.md).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for an invalid lock name; [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] if the server gave no
    /// result within the command timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::inspect::FoundKind;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let guard = client.fenced_lock("stock:1001").acquire().await?;
    /// let seen = client.inspect("stock:1001").await?.expect("a lock");
    /// assert_eq!((seen.kind, seen.held), (FoundKind::FencedLock, 1));
    /// assert_eq!(seen.holders[0].id, guard.holder_id());
    /// assert!(seen.problems.is_empty());
    /// # guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Option<LockState>, Error> {
        look(&spec(self, name.as_ref())?, command::MOST).await
    }
}

/// Returns the specification of the name, if it is valid.
fn spec(client: &Client, name: &str) -> Result<LockSpec, InvalidInput> {
    let spec = LockSpec::found(client.handle().clone(), Kind::Lock, name);
    spec.checked_name()?;
    Ok(spec)
}

/// Reads the state of a lock, with at most `most` holders and waiters.
pub(super) async fn look(spec: &LockSpec, most: u32) -> Result<Option<LockState>, Error> {
    look_at(spec, spec.checked_name()?, most).await
}

/// Reads the state of a lock that may have another prefix than the client's. Errors contain the name of `spec`.
pub(super) async fn look_at(spec: &LockSpec, name: &LockName, most: u32) -> Result<Option<LockState>, Error> {
    let call = spec.handle().with(|session, _| command::inspect(name, session.settings(), most));
    let own = || spec.name().to_owned();
    Ok(match spec.call_once(call, command::inspected).await? {
        Inspected::Absent { token: None } => None,
        Inspected::Absent { token } => {
            Some(LockState { fencing_token: token, ..LockState::empty(own(), FoundKind::FencedLock) })
        }
        Inspected::Found(found) => Some(LockState::of(own(), *found)),
        Inspected::Kind(what) => Some(LockState::foreign(own(), what)),
    })
}
