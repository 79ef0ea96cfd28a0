//! A look at a name by whom it can be freed from, with no more rights than its own kind of lock needs.

use crate::failure::Failure;
use crate::people::People;
use crate::seen::Hold;
use leasehold::{Client, Error, Holder};
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

/// A name that is in use.
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) holds: Vec<Hold>,
    /// Whether holds wait in a queue.
    pub(crate) has_queue: bool,
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
    let holds = holds(client, None, holders).await;
    Ok(Some(Seen { kind: Kind::Lock, holds, has_queue: !waiters.is_empty() }))
}

/// Looks at a name that no plain lock has.
async fn other(client: &Client, name: &str) -> Result<Seen, Failure> {
    let seen = |kind, holds| Seen { kind, holds, has_queue: false };
    match client.read_write_lock(name).inspect().await {
        Ok(both) => {
            let mut all = holds(client, Some("write"), both.writer).await;
            all.extend(holds(client, Some("read"), both.readers).await);
            return Ok(seen(Kind::ReadWrite, all));
        }
        Err(Error::KeyConflict { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match client.leased_semaphore(name).inspect().await {
        Ok(Some(counts)) => {
            let kind = if counts.held > 0 { Kind::Permits } else { Kind::Counter };
            return Ok(seen(kind, Vec::new()));
        }
        Ok(None) | Err(Error::KeyConflict { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // The lease of the handle is of no importance to an inspection.
    let holder = client.simple_lock(name, Duration::from_secs(30)).inspect().await?;
    Ok(seen(Kind::Simple, holds(client, None, holder).await))
}

async fn holds(client: &Client, half: Option<&'static str>, holders: impl IntoIterator<Item = Holder>) -> Vec<Hold> {
    let (mut all, mut people) = (Vec::new(), People::new(client));
    for holder in holders {
        let who = people.of(holder.id.as_str()).await;
        all.push(Hold { holder, half, who });
    }
    all
}
