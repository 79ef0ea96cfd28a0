//! Inspects a name for `unlock` and `run`. Needs only the rights for the lock's own kind. With the rights for all
//! kinds, the reply is bounded.

use crate::failure::{Exit, Failure};
use crate::people::People;
use crate::seen::Hold;
use leasehold::inspect::{FoundKind, Holder, LockProblem, LockState};
use leasehold::{Client, Error};
use std::time::Duration;

/// Maximum length of the value of a simple lock, as in `Client::inspect`.
const LONGEST: usize = 256;

/// The kind of a lock, as the server's data shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A reentrant, fair, fenced or spin lock. Their data is indistinguishable.
    Lock,
    ReadWrite,
    Simple,
    Permits,
    /// A bare semaphore, a semaphore without held permits, or a latch.
    Counter,
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::ReadWrite => "read-write lock",
            Self::Simple => "simple lock",
            Self::Permits => "semaphore",
            Self::Counter => "counter of a bare semaphore or a latch",
        }
    }
}

/// A name in use.
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) holds: Vec<Hold>,
    /// Whether the lock has a queue of waiters.
    pub(crate) has_queue: bool,
}

impl Seen {
    const fn without_holds(kind: Kind) -> Self {
        Self { kind, holds: Vec::new(), has_queue: false }
    }
}

/// Inspects a name. Returns `None` for a free name. Read-only, and reads a bounded part of the data.
///
/// # Errors
///
/// A key that is not a lock uses the name, or the server does not reply.
pub(crate) async fn look(client: &Client, name: &str) -> Result<Option<Seen>, Failure> {
    let state = match lock_at(client, name).await {
        Ok(Some(state)) => state,
        Ok(None) => return Ok(None),
        // Inspecting one kind needs fewer rights than inspecting any kind.
        Err(Unseen::Refused) => return by_kind(client, name).await,
        Err(Unseen::Failed(failure)) => return Err(failure),
    };
    let listed = state.holders.len() + state.readers.len();
    let (kind, has_queue) = match state.kind {
        // Only `unlock --holder` needs the complete list of readers.
        FoundKind::ReadWriteLock if state.held > listed as u64 => return other(client, name).await.map(Some),
        FoundKind::ReadWriteLock => (Kind::ReadWrite, false),
        FoundKind::SimpleLock => (Kind::Simple, false),
        FoundKind::Semaphore => return Ok(Some(Seen::without_holds(Kind::Permits))),
        FoundKind::Counter => return Ok(Some(Seen::without_holds(Kind::Counter))),
        FoundKind::FairLock | FoundKind::FencedFairLock => {
            (Kind::Lock, !state.queue.is_empty() || state.waiters.is_some_and(|waiters| waiters > 0))
        }
        _ => (Kind::Lock, false),
    };
    if state.held == 0 && !has_queue {
        return Ok(None);
    }
    let half = |half| (kind == Kind::ReadWrite).then_some(half);
    let mut all = holds(client, half("write"), state.holders).await;
    all.extend(holds(client, half("read"), state.readers).await);
    Ok(Some(Seen { kind, holds: all, has_queue }))
}

/// The reason why an inspection failed.
pub(crate) enum Unseen {
    /// The user lacks the rights to inspect names of every kind.
    Refused,
    Failed(Failure),
}

/// Returns the lock under a name, of any kind. `None` for a free name. Reads a bounded part of the data.
///
/// # Errors
///
/// A key that is not a lock uses the name, or the server does not reply.
pub(crate) async fn lock_at(client: &Client, name: &str) -> Result<Option<LockState>, Unseen> {
    let state = match client.inspect(name).await {
        Ok(Some(state)) => state,
        Ok(None) => return Ok(None),
        Err(Error::Refused { .. }) => return Err(Unseen::Refused),
        Err(error) => return Err(Unseen::Failed(Failure::of_a_look(error))),
    };
    if state.kind == FoundKind::Foreign {
        let why: Vec<_> = state.problems.iter().map(why_no_lock).collect();
        let text = format!("{name:?} is in use by something else: {}", why.join("; "));
        return Err(Unseen::Failed(Failure::new(Exit::Conflict, text).of_lock(name)));
    }
    if !matches!(state.kind, FoundKind::SimpleLock | FoundKind::Semaphore) {
        of_clients(name, state.holders.iter().chain(&state.readers)).map_err(Unseen::Failed)?;
    }
    Ok(Some(state))
}

/// Returns the reason why the key under a name is not a lock.
pub(crate) fn why_no_lock(problem: &LockProblem) -> String {
    match problem {
        LockProblem::NotALock { what } => what.clone(),
        other => other.to_string(),
    }
}

/// Inspects the name as each kind in turn, with the rights for that kind.
async fn by_kind(client: &Client, name: &str) -> Result<Option<Seen>, Failure> {
    let queue = match client.fair_lock(name).inspect().await {
        // This user may lack the rights for the keys of a queue.
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
    of_clients(name, &holders)?;
    let holds = holds(client, None, holders).await;
    Ok(Some(Seen { kind: Kind::Lock, holds, has_queue: !waiters.is_empty() }))
}

/// Inspects a name that is not a plain lock.
async fn other(client: &Client, name: &str) -> Result<Seen, Failure> {
    let seen = |kind, holds| Seen { kind, holds, has_queue: false };
    match client.read_write_lock(name).inspect().await {
        Ok(both) => {
            of_clients(name, both.writer.iter().chain(&both.readers))?;
            let mut all = holds(client, Some("write"), both.writer).await;
            all.extend(holds(client, Some("read"), both.readers).await);
            return Ok(seen(Kind::ReadWrite, all));
        }
        Err(Error::KeyConflict { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match client.semaphore(name).inspect().await {
        Ok(Some(counts)) => {
            let kind = if counts.held > 0 { Kind::Permits } else { Kind::Counter };
            return Ok(seen(kind, Vec::new()));
        }
        Ok(None) | Err(Error::KeyConflict { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // Inspections ignore the lease of the handle.
    let holder = client.simple_lock(name, Duration::from_secs(30)).inspect().await?;
    // Any short string with a time to live counts as a simple lock.
    let is_a_lock = |holder: &Holder| holder.remaining.is_some() && holder.id.as_str().len() <= LONGEST;
    if !holder.iter().all(is_a_lock) {
        let text = format!(
            "{name:?} is in use by something else: a string without a time to live, or longer than {LONGEST} bytes"
        );
        return Err(Failure::new(Exit::Conflict, text).of_lock(name));
    }
    Ok(seen(Kind::Simple, holds(client, None, holder).await))
}

/// Rejects an application's hash. Ending such a hold would delete application data.
fn of_clients<'a>(name: &str, holders: impl IntoIterator<Item = &'a Holder>) -> Result<(), Failure> {
    holders.into_iter().try_for_each(|holder| of_a_client(name, holder.id.as_str()))
}

/// Rejects a hash field that no lock writes.
///
/// # Errors
///
/// An application's hash uses the name.
pub(crate) fn of_a_client(name: &str, id: &str) -> Result<(), Failure> {
    if is_of_a_client(id) {
        return Ok(());
    }
    let text = format!("{name:?} is in use by something else: no lock writes the field {id:?}");
    Err(Failure::new(Exit::Conflict, text).of_lock(name))
}

/// Returns whether an id has the format of leasehold and Redisson holder ids: `uuid:number` with an optional suffix.
pub(crate) fn is_of_a_client(id: &str) -> bool {
    let id = id.strip_suffix(['~', '!']).unwrap_or(id);
    let Some((client, number)) = id.rsplit_once(':') else { return false };
    let groups: Vec<_> = client.split('-').collect();
    let is_uuid = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_uuid && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

async fn holds(client: &Client, half: Option<&'static str>, holders: impl IntoIterator<Item = Holder>) -> Vec<Hold> {
    let (mut all, mut people) = (Vec::new(), People::new(client));
    for holder in holders {
        let who = people.of(holder.id.as_str()).await;
        all.push(Hold { holder, half, who });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_told_from_fields_of_an_application() {
        let uuid = "6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55";
        for id in [format!("{uuid}:7"), format!("{uuid}:7~"), format!("{uuid}:7!")] {
            assert!(is_of_a_client(&id), "{id}");
        }
        for id in ["a", "quantity:3", "", ":", &format!("{uuid}:"), &format!("{uuid}:a"), &format!("x{uuid}:7"), uuid] {
            assert!(!is_of_a_client(id), "{id}");
        }
    }
}
