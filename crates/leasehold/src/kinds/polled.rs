//! The locks whose waiters poll.

use crate::client::settings;
use crate::error::Error;
use crate::kind::{Simple, Spin};
use crate::lock::Lock;
use bytes::Bytes;
use leasehold_core::command::{HoldKey, ReleaseArgs, Released};
use std::time::Duration;

/// A lock whose waiters poll.
///
/// **When to use it:** if holds last a few milliseconds and waits are rare, or if the server has no Pub/Sub. A release publishes nothing. **When not:** for
/// long waits: every waiter sends a command after each pause, and is up to one pause late.
/// [`Acquire::backoff`](crate::Acquire::backoff) sets the pauses.
///
/// On the server the lock is Redisson's `RSpinLock`, which has the layout of `RLock` but announces no release.
///
/// # Examples
///
/// ```
/// # use leasehold::Backoff;
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let counter = client.spin_lock("counter");
/// let ms = Duration::from_millis;
/// let guard = counter.acquire().backoff(Backoff::exponential(ms(1), ms(20))).wait(ms(500)).await?;
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type SpinLock = Lock<Spin>;

/// A lock stored as a string with a lease, like go-zero's `RedisLock`.
///
/// **When to use it:** to share locks with go-zero, or with any library that sets a string under the lock's name. It also suits a short section of
/// known length, for which a fixed lease suffices. **When not:** in all other cases. Its waiters poll without release notices, and the server keeps
/// no hold count.
///
/// The server sets the lease at the grant. The client does not renew it unless the acquire uses [`renewed`](crate::Acquire::renewed). go-zero adds
/// 500 ms to its setting in seconds; use an equal lease here. Every hold has its own id, unless [`with_id`](Lock::with_id) sets an id: a
/// process with this id acquires the lock again and refreshes its lease.
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
    /// Sets the id of the holder. All processes with this id are one holder: in any process, an acquire refreshes the lease, and a release
    /// ends the hold.
    #[must_use]
    pub fn with_id(&self, id: impl Into<String>) -> Self {
        let id = Bytes::from(id.into());
        let owner = self.spec().handle().with(|session, _| session.new_owner());
        Self::of(self.spec().with(|options| options.holder = Some(Box::new((id, owner)))))
    }

    /// Ends the hold of this lock's id, even if another process acquired it, and returns whether the hold existed. A second release returns
    /// `false`.
    ///
    /// Guards of this client with the id detect the end at their next renewal, or at the end of their lease. Without an id from
    /// [`with_id`](Lock::with_id), this returns `false`.
    ///
    /// # Errors
    ///
    /// The errors of the server, and [`Error::Invalid`] if the name or the lease is invalid.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the hold may or may not be ended. A late copy of the command may end a later hold of this id.
    pub async fn release(&self) -> Result<bool, Error> {
        let spec = self.spec();
        let Some((field, _)) = spec.options().holder.as_deref().cloned() else { return Ok(false) };
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
