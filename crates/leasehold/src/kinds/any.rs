//! A lock whose kind is chosen at run time.

use crate::fence::FencingToken;
use crate::kind::{Any, Fair, Fenced, FencedFair, Owned, Read, Reentrant, Simple, Spin, Write};
use crate::lock::Lock;
use crate::lock::guard::Guard;

/// A lock whose kind is chosen at run time.
///
/// **When to use it:** if a setting or an argument chooses the kind, or if one collection contains locks of several kinds. **When not:** if
/// the kind is known: the lock's type then offers the methods of that kind, such as an infallible `fencing_token`.
///
/// [`Lock::erase`] and `From` create an `AnyLock`. It refers to the original lock on the server, with its class, fallback and other settings. Its
/// guard has a fencing token if the kind has tokens. Semaphores and latches cannot be erased.
///
/// # Examples
///
/// ```
/// use leasehold::{AnyLock, Client};
///
/// fn lock_of(client: &Client, kind: &str, name: &str) -> Option<AnyLock> {
///     Some(match kind {
///         "reentrant" => client.lock(name).into(),
///         "fair" => client.fair_lock(name).into(),
///         "fenced" => client.fenced_lock(name).into(),
///         "read" => client.read_write_lock(name).read().into(),
///         _ => return None,
///     })
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let stock = lock_of(&client, "fenced", "stock:1001").expect("a known kind");
/// let guard = stock.acquire().await?;
/// assert!(guard.fencing_token().is_some());
/// guard.release().await?;
///
/// let orders = lock_of(&client, "fair", "orders").expect("a known kind");
/// assert_eq!(orders.with(async |held| held.fencing_token()).await?, None);
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type AnyLock = Lock<Any>;

impl<K: Owned> Lock<K> {
    /// Erases the kind of this lock from its type.
    #[must_use]
    pub fn erase(&self) -> AnyLock {
        Lock::of(self.spec().clone())
    }
}

macro_rules! from {
    ($($kind:ident),*) => {$(
        impl From<Lock<$kind>> for AnyLock {
            fn from(lock: Lock<$kind>) -> Self {
                lock.erase()
            }
        }
    )*};
}

from!(Reentrant, Fair, FencedFair, Fenced, Spin, Simple, Read, Write);

impl Guard<Any> {
    /// Returns the fencing token of this hold, if its kind has tokens: see [`Fencing`](crate::kind::Fencing).
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.cell().token().map(FencingToken::told)
    }
}
