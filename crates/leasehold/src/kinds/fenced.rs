//! The fenced lock.

use crate::kind::Fenced;
use crate::lock::Lock;

/// A lock whose every grant carries a number that is greater than all before it: the fencing token.
///
/// **When to use it:** where a stale write must be impossible rather than unlikely: money, stock, anything whose store can compare a
/// number. A holder that was paused beyond its lease shows a token that is lower than that of its successor, and the store refuses it;
/// [`fence`](crate::fence) has such stores for Redis and for SQL. **When not:** where nothing checks the token: then this is a plain lock
/// with one more key.
///
/// The token is the greater of the last one plus 1 and the server's time in microseconds, so that it grows even if the server loses its
/// last writes in a failover, as long as the clock of the new primary is not behind. Re-entries have the token of the hold. No client of
/// leasehold deletes its key, `redisson_lock_token:{name}`; a JVM's `delete` of the lock does. On the server the lock is Redisson's
/// `RFencedLock`. The need for tokens, and why they must be checked by the store, is set out in "How to do distributed locking"
/// (Kleppmann, 2016).
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let account = client.fenced_lock("account:7");
/// let first = account.acquire().await?;
/// let token = first.fencing_token();
/// first.release().await?;
///
/// let second = account.acquire().await?;
/// assert!(second.fencing_token() > token);
/// # second.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type FencedLock = Lock<Fenced>;
