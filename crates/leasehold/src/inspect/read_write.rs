//! Looking at both halves of a read-write lock from outside, and ending holds of either.

use super::seen::halves;
use super::{Holder, ReadWriteHolders};
use crate::error::Error;
use crate::kind::{Read, Write};
use crate::kinds::ReadWriteLock;
use crate::lock::Lock;

impl ReadWriteLock {
    /// The holders of both halves. Nothing is changed.
    ///
    /// # Errors
    ///
    /// As for a plain lock: [`Error::KeyConflict`], and those of the server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<ReadWriteHolders, Error> {
        halves(self.read().spec()).await
    }
}

impl Lock<Read> {
    /// The holders of the read half; an empty list if it is free. Nothing is changed.
    ///
    /// # Errors
    ///
    /// As for a plain lock: [`Error::KeyConflict`], and those of the server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<Vec<Holder>, Error> {
        Ok(halves(self.spec()).await?.readers)
    }

    /// Ends the holds of all readers, and returns those whose hold was ended. Writers are woken.
    ///
    /// **This does not stop the readers**: each reader detects the loss at its next renewal, and may read concurrently
    /// with a writer until then.
    ///
    /// # Errors
    ///
    /// As the inspection. Some may have been ended before an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whose hold was ended. Each command names the holder that was seen.
    pub async fn force_release(&self) -> Result<Vec<Holder>, Error> {
        let mut ended = Vec::new();
        for holder in self.inspect().await? {
            ended.extend(self.force_release_holder(&holder.id).await?.then_some(holder));
        }
        Ok(ended)
    }
}

impl Lock<Write> {
    /// The holder of the write half; `None` if it is free. Nothing is changed.
    ///
    /// # Errors
    ///
    /// As for a plain lock: [`Error::KeyConflict`], and those of the server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<Option<Holder>, Error> {
        Ok(halves(self.spec()).await?.writer)
    }

    /// Ends the hold of the current writer, and wakes the waiters. A writer that also holds the read half continues as
    /// a reader. Returns the former holder; `None` if there was no writer, or if the writer just changed.
    ///
    /// **This does not stop the writer**: it detects the loss at its next renewal, and may write concurrently with
    /// others until then.
    ///
    /// # Errors
    ///
    /// As the inspection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the hold was ended. The command names the holder that was seen.
    pub async fn force_release(&self) -> Result<Option<Holder>, Error> {
        let Some(holder) = self.inspect().await? else { return Ok(None) };
        Ok(self.force_release_holder(&holder.id).await?.then_some(holder))
    }
}
