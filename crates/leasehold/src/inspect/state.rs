//! The state of a name on a server.

use super::{Holder, Waiter};
use crate::client::Client;
use crate::client::ids::HolderId;
use crate::error::Error;
use crate::lock::spec::LockSpec;
use leasehold_core::command::Kind;
use leasehold_core::command::any::{self as command, Found, Hold, Inspected, Sort};
use leasehold_core::command::read_write::Mode;
use leasehold_core::name::LockName;
use std::fmt;
use std::time::Duration;

/// The kind of lock under a name, according to its data. Kinds with an identical layout share a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum FoundKind {
    /// A [`Lock`](crate::Lock) or a [`SpinLock`](crate::SpinLock); also a JVM's fair lock without waiters.
    Lock,
    /// A [`FairLock`](crate::FairLock).
    FairLock,
    /// A [`FencedLock`](crate::FencedLock).
    FencedLock,
    /// A [`FencedFairLock`](crate::FencedFairLock).
    FencedFairLock,
    /// A [`ReadWriteLock`](crate::ReadWriteLock).
    ReadWriteLock,
    /// A [`SimpleLock`](crate::SimpleLock), or another short text with a time to live.
    SimpleLock,
    /// A [`Semaphore`](crate::Semaphore) with held permits.
    Semaphore,
    /// A number: a [`BareSemaphore`](crate::BareSemaphore), a [`CountDownLatch`](crate::CountDownLatch), a semaphore without held permits, or a
    /// counter of an application.
    Counter,
    /// Other data, or a key that the client's user may not inspect: see [`LockProblem::NotALock`] and [`LockProblem::NotSeen`].
    Foreign,
}

impl FoundKind {
    /// Returns the name of the kind, such as `fair lock`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::FairLock => "fair lock",
            Self::FencedLock => "fenced lock",
            Self::FencedFairLock => "fenced fair lock",
            Self::ReadWriteLock => "read-write lock",
            Self::SimpleLock => "simple lock",
            Self::Semaphore => "semaphore",
            Self::Counter => "counter",
            Self::Foreign => "foreign",
        }
    }
}

impl fmt::Display for FoundKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A problem that an operator should check. [`Display`](fmt::Display) describes the problem in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum LockProblem {
    /// The key of a held lock has no time to live: if its holder has died, only an operator can free the lock.
    NoTimeToLive,
    /// A lock of an exclusive kind has several holders.
    SeveralHolders,
    /// An entry of the lock has an unknown format.
    UnreadableEntry {
        /// The field of the entry.
        field: String,
    },
    /// A waiter in the queue missed its heartbeats: its process is gone or paused. The server skips it at its turn.
    SilentWaiter {
        /// The waiter.
        id: HolderId,
    },
    /// A counter without leases is below zero.
    NegativeCounter,
    /// The key contains other data.
    NotALock {
        /// The type of the key, or the reason why the name is invalid.
        what: String,
    },
    /// The client's user may not inspect the name, which may be a lock.
    NotSeen {
        /// The server's message.
        refusal: String,
    },
}

impl fmt::Display for LockProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimeToLive => {
                f.write_str("the key has no time to live: if the holder has died, the lock stays held")
            }
            Self::SeveralHolders => f.write_str("the lock has several holders, although its kind is exclusive"),
            Self::UnreadableEntry { field } => write!(f, "the field {field:?} has a format that no lock writes"),
            Self::SilentWaiter { id } => write!(f, "the waiter {id} missed its heartbeats, and the server skips it"),
            Self::NegativeCounter => f.write_str("the counter is below zero"),
            Self::NotALock { what } => write!(f, "the key is not a lock: {what}"),
            Self::NotSeen { refusal } => write!(f, "the server refused the inspection: {refusal}"),
        }
    }
}

/// The state of a lock of any kind.
///
/// This is a snapshot. Its lists are bounded; `held` and `waiters` also count unlisted entries.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LockState {
    /// The name without the prefix of the inspecting client.
    pub name: String,
    /// The kind.
    pub kind: FoundKind,
    /// The holder; for a read-write lock the writer; for a semaphore the held permits with their ids. An id that ends with `!` is the last hold
    /// of a lock that stays busy after its release.
    pub holders: Vec<Holder>,
    /// The readers of a read-write lock.
    pub readers: Vec<Holder>,
    /// The total number of holds or permits. It is 0 for a [counter](FoundKind::Counter), whose holders are unknown.
    pub held: u64,
    /// The remaining time to live of the key, or `None` without a time to live or a key.
    pub remaining: Option<Duration>,
    /// The number of waiters: for a fair lock the entries of its queue; for other kinds the clients that listen for a release: waiters, and
    /// holders whose locks may linger. `None` if the server does not report it. On a cluster without sharded channels it counts the listeners at the
    /// node of the lock.
    pub waiters: Option<u64>,
    /// The first waiters of a fair lock, in order.
    pub queue: Vec<Waiter>,
    /// The fencing token of the last grant.
    pub fencing_token: Option<u64>,
    /// The number of a counter, or the available permits of a semaphore.
    pub available: Option<i64>,
    /// The problems.
    pub problems: Vec<LockProblem>,
}

impl LockState {
    fn empty(name: String, kind: FoundKind) -> Self {
        Self {
            name,
            kind,
            holders: Vec::new(),
            readers: Vec::new(),
            held: 0,
            remaining: None,
            waiters: None,
            queue: Vec::new(),
            fencing_token: None,
            available: None,
            problems: Vec::new(),
        }
    }

    /// Creates the state of a key without a visible lock.
    pub(super) fn foreign(name: String, problem: LockProblem) -> Self {
        Self { problems: vec![problem], ..Self::empty(name, FoundKind::Foreign) }
    }

    /// Returns the server's refusal, if the client's user may not inspect the name.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.problems.iter().find_map(|problem| match problem {
            LockProblem::NotSeen { refusal } => Some(refusal.as_str()),
            _ => None,
        })
    }

    fn of(name: String, found: Found) -> Self {
        let kind = match found.sort {
            Sort::Lock => FoundKind::Lock,
            Sort::Fair => FoundKind::FairLock,
            Sort::Fenced => FoundKind::FencedLock,
            Sort::FencedFair => FoundKind::FencedFairLock,
            Sort::ReadWrite => FoundKind::ReadWriteLock,
            Sort::Simple => FoundKind::SimpleLock,
            Sort::Permits => FoundKind::Semaphore,
            Sort::Counter => FoundKind::Counter,
        };
        let mut state = Self { problems: problems_of(&found), ..Self::empty(name, kind) };
        let is_fair = matches!(found.sort, Sort::Fair | Sort::FencedFair);
        let is_counted = matches!(found.sort, Sort::Permits | Sort::Counter);
        state.held = found.held;
        state.remaining = found.left;
        state.waiters = if is_fair { Some(found.queued) } else { found.listeners };
        state.fencing_token = found.token;
        state.available = is_counted.then_some(found.available);
        state.queue = found.waiters.into_iter().map(Waiter::from).collect();
        for hold in found.holds {
            let into = if hold.mode == Mode::Read { &mut state.readers } else { &mut state.holders };
            into.push(Holder { id: hold.name.into(), hold_count: hold.count.unwrap_or(0), remaining: hold.left });
        }
        state
    }
}

fn problems_of(found: &Found) -> Vec<LockProblem> {
    let is_exclusive = matches!(found.sort, Sort::Lock | Sort::Fair | Sort::Fenced | Sort::FencedFair);
    let has_lease = is_exclusive || found.sort == Sort::ReadWrite;
    let mut problems = Vec::new();
    if has_lease && found.is_there && found.left.is_none() {
        problems.push(LockProblem::NoTimeToLive);
    }
    if is_exclusive && found.held > 1 {
        problems.push(LockProblem::SeveralHolders);
    }
    if found.sort == Sort::Counter && found.available < 0 {
        problems.push(LockProblem::NegativeCounter);
    }
    let is_unreadable = |hold: &&Hold| has_lease && (hold.count.is_none() || !hold.is_of_a_client());
    let unreadable = found.holds.iter().filter(is_unreadable).map(|hold| hold.name.clone());
    problems.extend(unreadable.map(|field| LockProblem::UnreadableEntry { field }));
    let silent = found.waiters.iter().filter(|waiter| !waiter.alive).map(|waiter| waiter.waiter.clone());
    problems.extend(silent.map(|id| LockProblem::SilentWaiter { id: id.into() }));
    problems
}

impl Client {
    /// Returns the state of a lock of any kind: holders with their counts, the queue with the age of each waiter, leases, the last fencing token, and
    /// problems. Returns `None` if the key does not exist. This changes nothing.
    ///
    /// The lists contain at most 128 holders and 128 waiters. A key with other data is [`FoundKind::Foreign`]. The client's user needs the rights
    /// of the block `locks` in [docs/security.md](https://github.com/leasehold/leasehold/blob/main/docs/security.md).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for an invalid lock name; [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] if the server gave no
    /// result within the command timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::inspect::FoundKind;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let guard = client.fenced_lock("stock:1001").acquire().await?;
    /// let seen = client.inspect("stock:1001").await?.expect("a lock");
    /// assert_eq!((seen.kind, seen.held), (FoundKind::FencedLock, 1));
    /// assert_eq!(seen.holders[0].id, guard.holder_id());
    /// assert!(seen.problems.is_empty());
    /// # guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Option<LockState>, Error> {
        let spec = LockSpec::found(self.handle().clone(), Kind::Lock, name.as_ref());
        look_at(&spec, spec.checked_name()?, command::MOST).await
    }
}

/// Reads the state of a lock, with at most `most` holders and waiters. The prefix of `name` may differ from the client's prefix.
pub(super) async fn look_at(spec: &LockSpec, name: &LockName, most: u32) -> Result<Option<LockState>, Error> {
    let call = spec.handle().with(|session, _| command::inspect(name, session.settings(), most));
    let own = || spec.name().to_owned();
    Ok(match spec.call_once(call, command::inspected).await {
        Ok(Inspected::Absent { token }) => {
            let state = LockState::empty(own(), FoundKind::FencedLock);
            token.map(|_| LockState { fencing_token: token, ..state })
        }
        Ok(Inspected::Found(found)) => Some(LockState::of(own(), *found)),
        Err(Error::KeyConflict { kind: what, .. }) => Some(LockState::foreign(own(), LockProblem::NotALock { what })),
        Err(error) => return Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::command::holder;

    fn found(sort: Sort) -> Found {
        Found {
            sort,
            is_there: true,
            left: Some(Duration::from_secs(1)),
            held: 1,
            queued: 0,
            listeners: Some(0),
            token: None,
            available: 0,
            holds: Vec::new(),
            waiters: Vec::new(),
        }
    }

    #[test]
    fn each_thing_that_looks_wrong_is_named() {
        let name = || "stock".to_owned();
        assert_eq!(LockState::of(name(), found(Sort::Lock)).problems, []);
        let endless = LockState::of(name(), Found { left: None, ..found(Sort::ReadWrite) });
        assert_eq!(endless.problems, [LockProblem::NoTimeToLive]);
        let free = Found { left: None, is_there: false, ..found(Sort::Fair) };
        assert_eq!(LockState::of(name(), free).problems, [], "a free lock needs no time to live");
        let crowded = LockState::of(name(), Found { held: 2, ..found(Sort::Fenced) });
        assert_eq!(crowded.problems, [LockProblem::SeveralHolders]);
        let below = LockState::of(name(), Found { available: -1, ..found(Sort::Counter) });
        assert_eq!(below.problems, [LockProblem::NegativeCounter]);
        let lowered = LockState::of(name(), Found { available: -1, ..found(Sort::Permits) });
        assert_eq!((lowered.problems, lowered.available), (Vec::new(), Some(-1)), "a capacity may be lowered");
        let hold = Hold { name: "x".to_owned(), mode: Mode::Write, count: None, left: None };
        let odd = LockState::of(name(), Found { holds: vec![hold], ..found(Sort::Lock) });
        assert_eq!(odd.problems, [LockProblem::UnreadableEntry { field: "x".to_owned() }]);
        let waiter = holder::Waiter { waiter: "a:1".to_owned(), age: None, alive: false };
        let ghost = LockState::of(name(), Found { waiters: vec![waiter], queued: 3, ..found(Sort::Fair) });
        assert_eq!((ghost.problems, ghost.waiters), (vec![LockProblem::SilentWaiter { id: "a:1".into() }], Some(3)));
    }
}
