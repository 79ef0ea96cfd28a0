//! A guarded value on the lock's own server.

use super::FencingToken;
use crate::error::Error;
use crate::guard::Guard;
use crate::kind::Fencing;
use crate::lock_spec::LockSpec;
use bytes::Bytes;
use leasehold_core::command::store::{self as command, Claim, Fenced, Written};
use std::fmt;

/// A value on the server of the lock, which only the newest holder can read and write.
///
/// **When to use it:** for the small state that a fenced lock protects: a cursor, a balance, a generation. **When not:** where the data
/// lives in another database: [`sql`](super::sql) puts the same check there.
///
/// Every call shows the guard's fencing token, and the first one registers it: from then on, guards with a lower token are refused with
/// [`Error::StaleToken`]. Guards of one name of a lock have tokens that can be compared; those of two names have not, so **one value
/// belongs to one lock**. The value is the string under the key, with the client's prefix; the register is
/// `leasehold:1:fence:{key}`, and is kept for ever. Programs that write the key past the register are not stopped.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let account = client.fenced_lock("account:7");
/// let balance = client.fenced_value("balance:7");
///
/// let guard = account.acquire().await?;
/// let old = balance.read(&guard).await?;
/// assert_eq!(old, None);
/// balance.write(&guard, "90").await?; // Err(StaleToken) where another holder has read meanwhile
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct FencedValue(LockSpec);

impl FencedValue {
    pub(crate) const fn new(spec: LockSpec) -> Self {
        Self(spec)
    }

    /// The key as the caller gave it, without the client's prefix.
    pub fn key(&self) -> &str {
        self.0.name()
    }

    /// Registers the guard's token, and reads the value; `None` if there is no value.
    ///
    /// # Errors
    ///
    /// [`Error::StaleToken`] and [`Error::DuplicateToken`]; [`Error::KeyConflict`] where the key holds no string; [`Error::Invalid`]; and
    /// [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] where the server gave no answer within
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after), for which the command is repeated.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the token was registered, which does no harm.
    pub async fn read<K: Fencing>(&self, guard: &Guard<K>) -> Result<Option<Bytes>, Error> {
        let owner = guard.cell().field();
        let call = command::read(self.0.checked_name()?, &claim(guard, &owner));
        self.admitted(guard, self.0.call_until_known(call, command::read_done).await?)
    }

    /// Registers the guard's token, and writes the value. Of two concurrent writes of one guard, the later call wins.
    ///
    /// # Errors
    ///
    /// As [`FencedValue::read`]. After [`Error::OutcomeUnknown`] it is not known whether the value was written; it may be written again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the value was written. It is not written after a later write of the same guard.
    pub async fn write<K: Fencing>(&self, guard: &Guard<K>, value: impl Into<Bytes>) -> Result<(), Error> {
        let number = self.0.handle().with(|session, _| session.new_number());
        let owner = guard.cell().field();
        let call = command::write(self.0.checked_name()?, &claim(guard, &owner), number, value.into(), None);
        let written = self.0.call_until_known(call, command::written).await?;
        self.admitted(guard, written).map(|(Written::Now | Written::Before)| ())
    }

    /// Registers the guard's token without reading or writing: for what is guarded by the register, and stored elsewhere. A read or write
    /// by other means afterwards is not checked again: a holder may become stale in between.
    ///
    /// # Errors
    ///
    /// As [`FencedValue::read`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the token was registered, which does no harm.
    pub async fn check<K: Fencing>(&self, guard: &Guard<K>) -> Result<(), Error> {
        let owner = guard.cell().field();
        let call = command::check(self.0.checked_name()?, &claim(guard, &owner));
        self.admitted(guard, self.0.call_until_known(call, command::checked).await?)
    }

    fn admitted<K: Fencing, T>(&self, guard: &Guard<K>, fenced: Fenced<T>) -> Result<T, Error> {
        let (name, token) = (self.key().to_owned(), guard.fencing_token());
        match fenced {
            Fenced::Admitted(value) => Ok(value),
            Fenced::Stale { registered } => {
                Err(Error::StaleToken { name, token, registered: FencingToken::told(registered) })
            }
            Fenced::Twice { .. } => Err(Error::DuplicateToken { name, token }),
            Fenced::Kind(kind) => Err(self.0.conflict(kind)),
        }
    }
}

fn claim<'a, K: Fencing>(guard: &Guard<K>, owner: &'a Bytes) -> Claim<'a> {
    Claim { token: guard.fencing_token().as_u64(), owner, keep: None }
}

impl fmt::Debug for FencedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedValue").field("key", &self.key()).finish_non_exhaustive()
    }
}
