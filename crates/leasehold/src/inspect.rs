//! Looking at a lock from outside, and ending a hold that is not one's own.

use crate::error::Error;
use crate::lock::Lock;
use leasehold_core::call::Call;
use leasehold_core::command::lock as command;
use leasehold_core::command::lock::{Forced, Inspected};
use leasehold_core::link::{Link as _, LinkError, Plane};
use leasehold_core::reply::{DecodeError, Reply};
use std::time::Duration;

/// Who holds a lock, as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's name in the lock's hash: `uuid:number`, where the UUID is a client's ([`Client::id`](crate::Client::id)), or that
    /// of an instance of Redisson.
    pub id: String,
    /// How often the lock is held.
    pub hold_count: u32,
    /// How long the lease still runs; `None` where the key has no time to live, which nobody who keeps to the layout leaves behind.
    pub remaining: Option<Duration>,
}

impl Lock {
    /// Who holds the lock; `None` where nobody does. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`] where the name holds something else; [`Error::Unreachable`], [`Error::Indeterminate`] or
    /// [`Error::Refused`] where the server gave no answer, within the command timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<Option<Holder>, Error> {
        let reply = self.ask(command::inspect(self.checked_name()?)).await?;
        match command::inspected(&reply).map_err(|error| self.misunderstood(&error))? {
            Inspected::Free => Ok(None),
            Inspected::Held { holder, count, left } => {
                Ok(Some(Holder { id: holder, hold_count: count, remaining: left }))
            }
            Inspected::Kind(kind) => Err(self.conflict(kind)),
        }
    }

    /// Ends whatever hold there is, whoever has it, and wakes the waiters. Returns the holder whose hold was ended; `None` where nobody
    /// held the lock, or the holder changed just then.
    ///
    /// **The holder is not asked.** It learns of it at its next renewal, a third of its lease later at the most, and until then may go
    /// on with its work beside the next holder. Its guard is then lost with the reason
    /// [`Removed`](crate::LossReason::Removed). A holder with a fixed lease renews nothing: it learns of it after a reconnect, and
    /// otherwise holds its guard for good until that lease has run out.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the hold was ended. The command names the holder that was seen, so a late copy
    /// cannot end a later hold.
    pub async fn force_release(&self) -> Result<Option<Holder>, Error> {
        let Some(holder) = self.inspect().await? else { return Ok(None) };
        let publish = self.handle().with(|session, _| session.settings().publish.clone());
        let reply = self.ask(command::force_release(self.checked_name()?, &holder.id, &publish)).await?;
        match command::forced(&reply).map_err(|error| self.misunderstood(&error))? {
            Forced::Ended => {
                // Guards of this very client need not wait for their next renewal.
                self.handle().with(|session, now| session.look_again(now, self.name()));
                tracing::warn!(lock = self.name(), holder = holder.id, "the lock was force-released");
                Ok(Some(holder))
            }
            Forced::Absent | Forced::Other => Ok(None),
            Forced::Kind => Err(self.conflict("key of another kind".to_owned())),
        }
    }

    /// Sends a call by the lifeline's connection, which bounds the wait.
    async fn ask(&self, call: Call) -> Result<Reply, Error> {
        let asked = self.handle().link.call(Plane::Lifeline, call).await;
        asked.map_err(|error| Error::from_link(self.name(), &error))
    }

    fn misunderstood(&self, error: &DecodeError) -> Error {
        Error::from_link(self.name(), &LinkError::Unknown(error.to_string()))
    }

    fn conflict(&self, kind: String) -> Error {
        Error::KeyConflict { lock: self.name().to_owned(), kind }
    }
}
