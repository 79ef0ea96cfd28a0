//! The fenced lock.

use crate::kind::Fenced;
use crate::lock::Lock;

/// A lock whose grants include a fencing token, which is greater than all earlier tokens.
///
/// **When to use it:** if a stale write must be impossible rather than unlikely: money, stock, any store that can compare a number. A holder
/// that was paused beyond its lease shows a lower token than its successor, and the store refuses it. [`fence`](crate::fence) implements
/// such stores for Redis and SQL. **When not:** if no store checks the token: the fenced lock is then a plain lock with an additional key.
///
/// The token is the maximum of the last token plus 1 and the server's time in microseconds. Tokens increase even if the server loses its last writes in a
/// failover, unless the clock of the new primary is behind. Re-entries share the token of the hold. No client of leasehold deletes its key,
/// `redisson_lock_token:{name}`; a JVM's `delete` of the lock does. On the server the lock is Redisson's `RFencedLock`. "How to do distributed
/// locking" (Kleppmann, 2016) explains why tokens are needed, and why the store must check them.
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
