//! Looking at a lock from outside, and ending a hold that is not one's own.

use crate::error::Error;
use crate::kind::PlainHash;
use crate::lock::Lock;
use leasehold_core::command::lock as command;
use leasehold_core::command::lock::{Forced, Inspected};
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

impl<K: PlainHash> Lock<K> {
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
        let target = self.target();
        match target.ask(command::inspect(target.checked_name()?), command::inspected).await? {
            Inspected::Free => Ok(None),
            Inspected::Held { holder, count, left } => {
                Ok(Some(Holder { id: holder, hold_count: count, remaining: left }))
            }
            Inspected::Kind(kind) => Err(target.conflict(kind)),
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
        let target = self.target();
        let call = command::force_release(target.checked_name()?, &holder.id, &target.publish());
        match target.ask(call, command::forced).await? {
            Forced::Ended => {
                // Guards of this very client need not wait for their next renewal.
                target.handle().with(|session, now| session.look_again(now, self.name()));
                tracing::warn!(lock = self.name(), holder = holder.id, "the lock was force-released");
                Ok(Some(holder))
            }
            Forced::Absent | Forced::Other => Ok(None),
            Forced::Kind => Err(target.conflict("key of another kind".to_owned())),
        }
    }
}
