//! The simple lock.

use crate::error::Error;
use crate::kind::Simple;
use crate::lock::Lock;
use crate::settings;
use bytes::Bytes;
use leasehold_core::command::{HoldKey, ReleaseArgs, Released};
use std::time::Duration;

/// A lock that is one string with a lease: go-zero's `RedisLock`.
///
/// **When to use it:** to share locks with services that use go-zero, or any library that sets a string under the lock's own name; and for
/// a short section of known length, where a fixed lease is enough. **When not:** otherwise. Its waiters poll, they get
/// no release notices, and the server keeps no hold count.
///
/// The lease is set when the lock is created, and is not renewed unless the acquire uses
/// [`renewed`](crate::Acquire::renewed). go-zero adds 500 ms to its setting in seconds; use an equal length here. Every
/// hold has its own id, unless [`with_id`](Lock::with_id) sets one: a process with an equal id acquires the lock again
/// and refreshes its lease.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let lock = client.simple_lock("report", Duration::from_millis(5_500)); // go-zero: SetExpire(5)
/// let Some(guard) = lock.try_acquire().await? else { return Ok(()) };
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type SimpleLock = Lock<Simple>;

impl SimpleLock {
    /// Holds the lock under this id. All processes with an equal id are one holder: an acquire refreshes the lease, and
    /// a release ends the hold, in any process.
    #[must_use]
    pub fn with_id(&self, id: impl Into<String>) -> Self {
        let id = Bytes::from(id.into());
        let owner = self.spec().handle().with(|session, _| session.new_owner());
        Self::of(self.spec().with_options(|options| {
            options.field = Some(id);
            options.owner = Some(owner);
        }))
    }

    /// Ends the hold of this lock's id, even if another process acquired it, and returns whether the hold existed. A
    /// second release returns `false`.
    ///
    /// Guards of this very client that have the id learn of it when they look, or at the end of their lease. A lock without an id of
    /// its own holds nothing that could be named: `false`.
    ///
    /// # Errors
    ///
    /// Those of the server, and [`Error::Invalid`] where the name or the lease cannot be used.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the hold was ended. A copy that comes late may end a later hold of the same id.
    pub async fn release(&self) -> Result<bool, Error> {
        let spec = self.spec();
        let Some(field) = spec.options().field.clone() else { return Ok(false) };
        let (name, protocol) = (spec.checked_name()?, spec.kind().protocol());
        if let Some(lease) = spec.options().lease {
            settings::check_lease(lease)?;
        }
        let call = spec.handle().with(|session, _| {
            let keys = protocol.keys(name, &session.client());
            let hold = HoldKey::new(field, 1);
            let settings = session.settings();
            protocol.release(&ReleaseArgs {
                name,
                keys: &keys,
                hold: &hold,
                count: 0,
                granted: true,
                keep: Duration::ZERO,
                settings,
            })
        });
        let released = spec.call_once(call, |reply| protocol.released(reply)).await?;
        spec.handle().with(|session, now| session.look_again(now, self.name()));
        Ok(released == Released::Ended)
    }
}
