//! A fenced value on the lock's own server.

use super::FencingToken;
use crate::error::Error;
use crate::kind::Fencing;
use crate::lock::guard::Guard;
use crate::lock::spec::LockSpec;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::store::{self as command, Claim, Fenced, Written};
use leasehold_core::name::LockName;
use leasehold_core::reply::{DecodeError, Reply};
use std::fmt;

/// A value on the lock's server that only the newest holder can read and write.
///
/// **When to use it:** for the small state that a fenced lock protects: a cursor, a balance, a generation. **When not:** if the data is in
/// another database: use [`sql`](super::sql).
///
/// Every call shows the guard's fencing token, and the first call registers it. From then on, guards with a lower token fail with
/// [`Error::StaleToken`]. Only tokens of one lock are comparable, so **one value belongs to one lock**. The value is the string under the
/// key, with the client's prefix. The register is `leasehold:1:fence:{key}`, which never expires. It does not stop programs that write
/// the key directly.
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
/// balance.write(&guard, "90").await?; // Err(StaleToken) if another holder has read in between
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct FencedValue(LockSpec);

impl FencedValue {
    pub(crate) const fn new(spec: LockSpec) -> Self {
        Self(spec)
    }

    /// Returns the key without the client's prefix.
    pub fn key(&self) -> &str {
        self.0.name()
    }

    /// Registers the guard's token and reads the value. Returns `None` if the value does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::StaleToken`] and [`Error::DuplicateToken`]; [`Error::KeyConflict`] if the key is not a string; [`Error::Invalid`]; and
    /// [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] if the server gave no result within
    /// [`unreachable_after`](crate::ClientBuilder::unreachable_after). During that time the client retries.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the token may or may not be registered, which is harmless.
    pub async fn read<K: Fencing>(&self, guard: &Guard<K>) -> Result<Option<Bytes>, Error> {
        self.show(guard, command::read, command::read_done).await
    }

    /// Registers the guard's token and writes the value. Of two concurrent writes of a guard, the later call wins.
    ///
    /// # Errors
    ///
    /// The errors of [`FencedValue::read`]. After [`Error::OutcomeUnknown`] the value may or may not be written; the caller may write again.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the value may or may not be written. A delayed write never overwrites a later write of this guard.
    pub async fn write<K: Fencing>(&self, guard: &Guard<K>, value: impl Into<Bytes>) -> Result<(), Error> {
        let number = self.0.handle().with(|session, _| session.new_number());
        let write = |name: &LockName, claim: &Claim<'_>| command::write(name, claim, number, value.into(), None);
        self.show(guard, write, command::written).await.map(|(Written::Now | Written::Before)| ())
    }

    /// Registers the guard's token without reading or writing, for data that is stored elsewhere. No store checks the
    /// holder's later accesses to that data: the holder may become stale after this call.
    ///
    /// # Errors
    ///
    /// The errors of [`FencedValue::read`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the token may or may not be registered, which is harmless.
    pub async fn check<K: Fencing>(&self, guard: &Guard<K>) -> Result<(), Error> {
        self.show(guard, command::check, command::checked).await
    }

    /// Sends a call that shows the token of the guard.
    async fn show<K: Fencing, T>(
        &self,
        guard: &Guard<K>,
        call: impl FnOnce(&LockName, &Claim<'_>) -> Call,
        decode: impl Fn(&Reply) -> Result<Fenced<T>, DecodeError>,
    ) -> Result<T, Error> {
        let (name, token) = (self.key().to_owned(), guard.fencing_token());
        let claim = Claim { token: token.as_u64(), owner: &guard.cell().field(), keep: None };
        let call = call(self.0.checked_name()?, &claim);
        match self.0.call_until_known(call, decode).await? {
            Fenced::Admitted(value) => Ok(value),
            Fenced::Stale { registered } => {
                Err(Error::StaleToken { name, token, registered: FencingToken::told(registered) })
            }
            Fenced::Twice { .. } => Err(Error::DuplicateToken { name, token }),
        }
    }
}

impl fmt::Debug for FencedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedValue").field("key", &self.key()).finish_non_exhaustive()
    }
}
