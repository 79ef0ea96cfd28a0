//! Looking at a name without knowing which kind of lock stands there.

use super::state::{FoundKind, LockState};
use crate::client::Client;
use crate::error::{Error, InvalidInput};
use crate::lock_spec::LockSpec;
use leasehold_core::command::Kind;
use leasehold_core::command::any::{self as command, Inspected};
use leasehold_core::name::LockName;

impl Client {
    /// Everything that the server knows of a name, of whichever kind its lock is: holders with their counts, the queue with the age of each
    /// waiter, leases, the last fencing token, and what looks wrong. It is `None` if nothing stands there. This changes nothing.
    ///
    /// At most 128 holders and 128 waiters are listed. A name that something else has is [`FoundKind::Foreign`]. The user of the client
    /// needs the rights of the block `locks` in [docs/security.md](https://github.com/leasehold/leasehold/blob/main/docs/security.md).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where the name cannot be that of a lock; [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] where
    /// the server gave no answer, within the command timeout.
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

/// The name, if the server can be asked for it.
fn spec(client: &Client, name: &str) -> Result<LockSpec, InvalidInput> {
    let spec = LockSpec::found(client.handle().clone(), Kind::Lock, name);
    spec.checked_name()?;
    Ok(spec)
}

/// Asks the server for what it knows of a name, and lists at most `most` holders and waiters.
pub(super) async fn look(spec: &LockSpec, most: u32) -> Result<Option<LockState>, Error> {
    look_at(spec, spec.checked_name()?, most).await
}

/// The same of a name that may have another prefix than those of the client; `spec` names it in errors.
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
