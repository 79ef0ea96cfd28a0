//! Inspection of locks, holders, waiters and the processes behind them, as the server sees them.
//!
//! [`Lock::inspect`](crate::Lock::inspect) and [`Client::inspect`](crate::Client::inspect) read one name,
//! [`Client::locks`](crate::Client::locks) searches names, [`Client::who_is`](crate::Client::who_is) identifies the process of a holder, and
//! [`Client::deadlocks`](crate::Client::deadlocks) finds deadlocks.

mod announced;
mod deadlocks;
mod keys;
mod search;
pub(crate) mod seen;
mod state;

pub use crate::client::record::{AnnouncedClient, AnnouncedLock, ClientRecord};
pub use crate::kinds::{HeldPermit, PermitCounts};
pub use announced::AnnouncedClients;
pub use deadlocks::{Deadlock, DeadlockedWait, Deadlocks, UnseenLock};
pub use search::Locks;
pub use seen::{FairQueue, Holder, ReadWriteHolders, Waiter};
pub use state::{FoundKind, LockProblem, LockState};

use crate::error::Error;
use crate::kind::{Exclusive, Fair, FencedFair, Inspectable, Owned, Read};
use crate::kinds::ReadWriteLock;
use crate::lock::Lock;
use crate::telemetry::event;
use leasehold_core::command::lock::{self, ForceReleased};
use leasehold_core::command::read_write::{self, Mode};
use leasehold_core::command::{Kind, fair, simple};

impl<K: Owned> Lock<K> {
    /// Ends the hold with this `id` on the server, even if another client acquired it, and wakes the waiters. Returns `false` if the server has
    /// no such hold. The `id` is a [`Holder::id`]; for a read-write lock, the id of a hold of this half.
    ///
    /// **This does not stop the holder**, like the `force_release` of each kind. This method compares only the id, so it also removes an entry that
    /// an inspection refuses to read. The text of that [`Error::KeyConflict`] contains the field of the entry, which is the `id`.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] if the key is of another kind; [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] if the
    /// server gave no result within the command timeout.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the hold may or may not be ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let report = client.lock("nightly-report");
    /// let guard = report.acquire().await?;
    /// assert!(report.force_release_holder(&guard.holder_id()).await?);
    /// assert!(!report.force_release_holder("6f0c0000-0000-4000-8000-000000000000:1").await?);
    /// assert_eq!(report.inspect().await?, None);
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn force_release_holder(&self, id: impl AsRef<str>) -> Result<bool, Error> {
        let id = id.as_ref();
        let spec = self.spec();
        let name = spec.checked_name()?;
        let call = match spec.kind() {
            Kind::Fair | Kind::FencedFair => {
                spec.handle().with(|session, _| fair::force_release(name, id, session.settings()))
            }
            Kind::Simple => simple::force_release(name, id),
            Kind::Read => read_write::force_release(name, Mode::Read, id, &spec.publish()),
            Kind::Write => read_write::force_release(name, Mode::Write, id, &spec.publish()),
            Kind::Lock | Kind::Fenced | Kind::Spin | Kind::Semaphore | Kind::Permits | Kind::Latch => {
                lock::force_release(name, id, &spec.publish())
            }
        };
        match spec.call_once(call, lock::forced).await? {
            ForceReleased::Ended => {
                // Guards of this client need not wait for their next renewal.
                spec.handle().with(|session, now| session.look_again(now, spec.name()));
                event!(warn, lock = spec.name(), holder = id, "the lock was force-released");
                Ok(true)
            }
            ForceReleased::Absent | ForceReleased::Other => Ok(false),
            ForceReleased::Kind => Err(spec.conflict("key of another kind".to_owned())),
        }
    }
}

impl<K: Exclusive> Lock<K> {
    /// Ends the current hold, even if another client acquired it, and wakes the waiters. Returns the former holder, or `None` if the lock was free
    /// or the holder has just changed. A writer that also holds the read half continues as a reader.
    ///
    /// **This does not stop the holder.** It detects the loss at its next renewal, at most a third of its lease later. Until then it may work
    /// concurrently with the next holder. Its guard is then lost with the reason [`Removed`](crate::LossReason::Removed). A holder with a fixed lease
    /// does not renew: it detects the loss after a reconnect, or considers its guard held until the lease ends.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the hold may or may not be ended. The command contains the id of the holder, so a late copy cannot end a
    /// later hold.
    pub async fn force_release(&self) -> Result<Option<Holder>, Error> {
        let Some(holder) = seen::look(self.spec()).await?.holder else { return Ok(None) };
        Ok(self.force_release_holder(&holder.id).await?.then_some(holder))
    }
}

impl<K: Inspectable> Lock<K> {
    /// Returns the holder of the lock, or `None` if the lock is free. This changes nothing. The hold count of a simple lock is 1.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] if the key is of another kind, or is a hash with an entry of another format; [`Error::Unreachable`],
    /// [`Error::OutcomeUnknown`] or [`Error::Refused`] if the server gave no result within the command timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<Option<Holder>, Error> {
        Ok(seen::look(self.spec()).await?.holder)
    }
}

/// Both fair locks have the same inspection.
macro_rules! fair {
    ($($kind:ident),*) => {$(
        impl Lock<$kind> {
            /// Returns the holder of the lock and its waiters, in order. This changes nothing.
            ///
            /// # Errors
            ///
            /// [`Error::KeyConflict`] if the name is in use by other data; [`Error::Unreachable`], [`Error::OutcomeUnknown`] or
            /// [`Error::Refused`] if the server gave no result within the command timeout.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future leaves nothing behind.
            ///
            /// # Examples
            ///
            /// ```
            /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            /// # let client = leasehold::Client::embedded();
            /// let till = client.fair_lock("till:3");
            /// let guard = till.acquire().await?;
            /// let queue = till.inspect().await?;
            /// assert_eq!(queue.holder.map(|holder| holder.id), Some(guard.holder_id()));
            /// assert!(queue.waiters.is_empty());
            /// # guard.release().await?;
            /// # Ok::<(), leasehold::Error>(()) }).unwrap();
            /// ```
            pub async fn inspect(&self) -> Result<FairQueue, Error> {
                let seen = seen::look(self.spec()).await?;
                Ok(FairQueue { holder: seen.holder, waiters: seen.waiters })
            }
        }
    )*};
}

fair!(Fair, FencedFair);

impl ReadWriteLock {
    /// Returns the holders of both halves. This changes nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<ReadWriteHolders, Error> {
        let seen = seen::look(self.read().spec()).await?;
        Ok(ReadWriteHolders { writer: seen.holder, readers: seen.readers })
    }
}

impl Lock<Read> {
    /// Returns the holders of the read half. This changes nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`] of the write half.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<Vec<Holder>, Error> {
        Ok(seen::look(self.spec()).await?.readers)
    }

    /// Ends the holds of all readers, wakes writers, and returns the former holders.
    ///
    /// **This does not stop the readers**: each reader detects the loss at its next renewal, and may read concurrently with a writer until then.
    ///
    /// # Errors
    ///
    /// The errors of the inspection. An error may follow after some holds have ended.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future some holds may be ended. Each command contains the id of the holder.
    pub async fn force_release(&self) -> Result<Vec<Holder>, Error> {
        let mut ended = Vec::new();
        for holder in self.inspect().await? {
            ended.extend(self.force_release_holder(&holder.id).await?.then_some(holder));
        }
        Ok(ended)
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;
    use crate::inspect::{AnnouncedClient, AnnouncedLock, ClientRecord, HeldPermit, PermitCounts};
    use crate::{ClientStats, ServerInfo};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use std::time::{Duration, SystemTime};

    fn survives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
        let text = serde_json::to_string(value).expect("a text");
        assert_eq!(serde_json::from_str::<T>(&text).expect("the value of the text"), *value, "{text}");
    }

    #[test]
    fn what_an_inspection_tells_goes_through_serde_and_back() {
        let holder = || Holder { id: "a:1".into(), hold_count: 2, remaining: Some(Duration::from_millis(1_500)) };
        let text = serde_json::to_string(&holder()).expect("a text");
        assert_eq!(text, r#"{"id":"a:1","hold_count":2,"remaining":{"secs":1,"nanos":500000000}}"#);
        let waiter = Waiter { id: "b:2".into(), waited: None, is_alive: true };
        survives(&FairQueue { holder: Some(holder()), waiters: vec![waiter] });
        survives(&ReadWriteHolders { writer: None, readers: vec![holder()] });
        let id = "00112233445566778899aabbccddeeff".parse().expect("an id");
        survives(&PermitCounts { available: -1, held: 1, permits: vec![HeldPermit { id, remaining: None }] });
        assert_eq!(serde_json::to_string(&id).expect("a text"), format!("\"{id}\""));
        let (host, application) = ("vm".to_owned(), "orders".to_owned());
        let (up, written_ago, within) = (Duration::from_secs(7), Duration::from_secs(3), vec!["a:1".into()]);
        let since = SystemTime::UNIX_EPOCH;
        let note = "nightly dump".to_owned();
        let record = ClientRecord { host, pid: 7, application, since, up, written_ago, within, note };
        survives(&record);
        let mut state = LockState::foreign("stock".to_owned(), LockProblem::NotALock { what: "list".to_owned() });
        state.problems.extend([LockProblem::NoTimeToLive, LockProblem::SilentWaiter { id: "a:1".into() }]);
        survives(&state);
        let unseen = vec![UnseenLock { key: "stock".to_owned(), refusal: "NOPERM".to_owned() }];
        survives(&Deadlocks { found: vec![Deadlock { waits: Vec::new() }], unseen });
        let (key, lasted, lease) = ("stock".to_owned(), Duration::from_secs(2), Some(Duration::from_secs(30)));
        let lock = AnnouncedLock { key, holder: Some("a:1".into()), lasted, lease };
        survives(&lock);
        survives(&AnnouncedClient { id: "a".into(), record, locks: vec![lock] });
        survives(&ClientStats::default());
        survives(&ServerInfo::default());
    }
}
