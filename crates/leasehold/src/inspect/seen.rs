//! Locks as seen by the server.

use crate::client::ids::HolderId;
use crate::error::Error;
use crate::lock::spec::LockSpec;
use leasehold_core::command::read_write::{self, Mode};
use leasehold_core::command::{Kind, fair, holder, lock, simple};
use std::time::Duration;

/// A holder of a lock, according to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Holder {
    /// The holder's id: `uuid:number`, where the UUID is the [`Client::id`](crate::Client::id) of a client, or the id of a Redisson instance.
    pub id: HolderId,
    /// The hold count.
    pub hold_count: u32,
    /// The remaining lease, or `None` for a key without a time to live, which no conforming client creates.
    pub remaining: Option<Duration>,
}

impl Holder {
    /// Returns `true` if the lock was released and stays busy for its minimum time: see [`Acquire::keep_busy_for`](crate::Acquire::keep_busy_for).
    pub fn is_kept(&self) -> bool {
        self.id.as_str().ends_with('!')
    }
}

/// A waiter for a fair lock, as seen by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Waiter {
    /// The waiter's id in the queue: `uuid:number`, or a JVM's `uuid:thread`. It becomes the id of the holder.
    pub id: HolderId,
    /// How long the waiter has waited; `None` if unknown, as for a JVM.
    pub waited: Option<Duration>,
    /// `true` if its process has sent a heartbeat within the [liveness timeout](crate::FairSettings::liveness_timeout), or if a JVM's deadline has
    /// not passed. The server skips dead waiters.
    pub is_alive: bool,
}

/// A fair lock, as seen by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FairQueue {
    /// The holder of the lock, or `None` if it is free.
    pub holder: Option<Holder>,
    /// The waiters in order.
    pub waiters: Vec<Waiter>,
}

/// A read-write lock, as seen by the server. A writer may also be a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReadWriteHolders {
    /// The holder of the write half.
    pub writer: Option<Holder>,
    /// The holders of the read half, each with its own lease.
    pub readers: Vec<Holder>,
}

/// The holders and waiters of a lock. The kind determines the applicable fields.
#[derive(Default)]
pub(crate) struct Seen {
    pub(super) holder: Option<Holder>,
    pub(super) readers: Vec<Holder>,
    pub(super) waiters: Vec<Waiter>,
}

/// Reads a lock. Kinds with permits or without holders have their own inspection.
pub(super) async fn look(spec: &LockSpec) -> Result<Seen, Error> {
    let name = spec.checked_name()?;
    let mut seen = Seen::default();
    match spec.kind() {
        kind @ (Kind::Lock | Kind::Spin | Kind::Fenced | Kind::Simple) => {
            let is_simple = kind == Kind::Simple;
            let call = if is_simple { simple::inspect(name) } else { lock::inspect(name) };
            let inspected = if is_simple { simple::inspected } else { lock::inspected };
            seen.holder = spec.call_once(call, inspected).await?.map(Holder::from);
        }
        Kind::Fair | Kind::FencedFair => {
            let call = spec.handle().with(|session, _| fair::inspect(name, &session.settings().fair));
            let (holder, waiters) = spec.call_once(call, fair::inspected).await?;
            seen.holder = holder.map(Holder::from);
            seen.waiters = waiters.into_iter().map(Waiter::from).collect();
        }
        Kind::Read | Kind::Write => {
            for (mode, holder) in spec.call_once(read_write::inspect(name), read_write::inspected).await? {
                match mode {
                    Mode::Read => seen.readers.push(holder.into()),
                    Mode::Write => seen.holder = Some(holder.into()),
                }
            }
        }
        Kind::Semaphore | Kind::Permits | Kind::Latch => {}
    }
    Ok(seen)
}

impl From<holder::Holder> for Holder {
    fn from(found: holder::Holder) -> Self {
        Self { id: found.holder.into(), hold_count: found.count, remaining: found.left }
    }
}

impl From<holder::Waiter> for Waiter {
    fn from(found: holder::Waiter) -> Self {
        Self { id: found.waiter.into(), waited: found.age, is_alive: found.alive }
    }
}

/// Returns a holder that keeps the lock busy, or `None` for kinds with several holders and if it cannot be read.
pub(crate) async fn holder(spec: &LockSpec) -> Option<HolderId> {
    let seen = look(spec).await.ok()?;
    let readers = seen.readers.into_iter().filter(|_| spec.kind() == Kind::Write);
    seen.holder.into_iter().chain(readers).next().map(|holder| holder.id)
}
