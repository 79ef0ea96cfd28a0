//! All that the server knows of one name, of whichever kind it is.

use crate::failure::Failure;
use leasehold::{Client, ClientRecord, Error, Holder, PermitCounts, Waiter};
use std::time::Duration;

/// The kind of what stands under a name, as far as the server's data tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reentrant, fair, fenced and spin locks look the same.
    Lock,
    ReadWrite,
    Simple,
    Permits,
    /// A bare semaphore, a leased one of which nothing is held, or a latch.
    Counter,
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::ReadWrite => "read-write lock",
            Self::Simple => "simple lock",
            Self::Permits => "leased semaphore",
            Self::Counter => "counter of a semaphore or a latch",
        }
    }
}

/// A hold, and the process behind it where that has announced itself.
pub(crate) struct Hold {
    pub(crate) holder: Holder,
    /// The half of a read-write lock.
    pub(crate) half: Option<&'static str>,
    pub(crate) who: Option<ClientRecord>,
}

/// A name that is in use.
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) holds: Vec<Hold>,
    pub(crate) waiters: Vec<(Waiter, Option<ClientRecord>)>,
    pub(crate) counts: Option<PermitCounts>,
}

/// Looks at a name; `None` if it is free. This changes nothing.
///
/// # Errors
///
/// The name is in use by something that is no lock, or the server gives no answer.
pub(crate) async fn look(client: &Client, name: &str) -> Result<Option<Seen>, Failure> {
    let queue = match client.fair_lock(name).inspect().await {
        // A user who may see the lock need not have the right to the keys of a queue.
        Err(Error::Refused { .. }) => {
            client.lock(name).inspect().await.map(|holder| (holder.into_iter().collect(), Vec::new()))
        }
        other => other.map(|queue| (queue.holder.into_iter().collect(), queue.waiters)),
    };
    let (holders, waiters): (Vec<_>, _) = match queue {
        Ok(seen) => seen,
        Err(Error::KeyConflict { .. }) => return other(client, name).await.map(Some),
        Err(error) => return Err(error.into()),
    };
    if holders.is_empty() && waiters.is_empty() {
        return Ok(None);
    }
    let mut seen =
        Seen { kind: Kind::Lock, holds: holds(client, None, holders).await, waiters: Vec::new(), counts: None };
    for waiter in waiters {
        let who = who(client, waiter.id.as_str()).await;
        seen.waiters.push((waiter, who));
    }
    Ok(Some(seen))
}

/// Looks at a name that no plain lock has.
async fn other(client: &Client, name: &str) -> Result<Seen, Failure> {
    let seen = |kind, holds, counts| Seen { kind, holds, waiters: Vec::new(), counts };
    match client.read_write_lock(name).inspect().await {
        Ok(both) => {
            let mut all = holds(client, Some("write"), both.writer).await;
            all.extend(holds(client, Some("read"), both.readers).await);
            return Ok(seen(Kind::ReadWrite, all, None));
        }
        Err(Error::KeyConflict { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match client.leased_semaphore(name).inspect().await {
        Ok(Some(counts)) => {
            let kind = if counts.held > 0 { Kind::Permits } else { Kind::Counter };
            return Ok(seen(kind, Vec::new(), Some(counts)));
        }
        Ok(None) | Err(Error::KeyConflict { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // The lease of the handle is of no importance to an inspection.
    let holder = client.simple_lock(name, Duration::from_secs(30)).inspect().await?;
    Ok(seen(Kind::Simple, holds(client, None, holder).await, None))
}

async fn holds(client: &Client, half: Option<&'static str>, holders: impl IntoIterator<Item = Holder>) -> Vec<Hold> {
    let mut all = Vec::new();
    for holder in holders {
        let who = who(client, holder.id.as_str()).await;
        all.push(Hold { holder, half, who });
    }
    all
}

/// The process behind an id, where it has announced itself and this user may read that.
async fn who(client: &Client, id: &str) -> Option<ClientRecord> {
    client.who_is(id).await.ok().flatten()
}
