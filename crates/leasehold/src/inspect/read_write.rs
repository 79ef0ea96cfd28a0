//! Inspection and force release of both halves of a read-write lock.

use super::seen::halves;
use super::{Holder, ReadWriteHolders};
use crate::error::Error;
use crate::kind::{Read, Write};
use crate::kinds::ReadWriteLock;
use crate::lock::Lock;

impl ReadWriteLock {
    /// Returns the holders of both halves. This changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`], and the errors of the server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<ReadWriteHolders, Error> {
        halves(self.read().spec()).await
    }
}

impl Lock<Read> {
    /// Returns the holders of the read half. This changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`], and the errors of the server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<Vec<Holder>, Error> {
        Ok(halves(self.spec()).await?.readers)
    }

    /// Ends the holds of all readers, wakes writers, and returns the former holders.
    ///
    /// **This does not stop the readers**: each reader detects the loss at its next renewal, and may read concurrently with a writer until then.
    ///
    /// # Errors
    ///
    /// The errors of the inspection. Some holds may be ended before an error.
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

impl Lock<Write> {
    /// Returns the holder of the write half, or `None` if it is free. This changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::KeyConflict`], and the errors of the server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self) -> Result<Option<Holder>, Error> {
        Ok(halves(self.spec()).await?.writer)
    }

    /// Ends the hold of the current writer, and wakes the waiters. A writer that also holds the read half continues as a reader. Returns the former
    /// holder, or `None` if the half was free or the writer has just changed.
    ///
    /// **This does not stop the writer**: it detects the loss at its next renewal, and may write concurrently with other holders until then.
    ///
    /// # Errors
    ///
    /// The errors of the inspection.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the hold may or may not be ended. The command contains the id of the holder.
    pub async fn force_release(&self) -> Result<Option<Holder>, Error> {
        let Some(holder) = self.inspect().await? else { return Ok(None) };
        Ok(self.force_release_holder(&holder.id).await?.then_some(holder))
    }
}
