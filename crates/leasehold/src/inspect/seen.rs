//! Locks as seen by the server.

use crate::client::ids::HolderId;
use crate::error::Error;
use crate::lock::spec::LockSpec;
use leasehold_core::call::Call;
use leasehold_core::command::lock as command;
use leasehold_core::command::lock::Inspected;
use leasehold_core::command::read_write::{self, Mode};
use leasehold_core::command::{Kind, fair as fair_command, simple as simple_command};
use leasehold_core::name::LockName;
use leasehold_core::reply::{DecodeError, Reply};
use std::time::Duration;

/// A holder of a lock, as seen by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Holder {
    /// The holder's id: `uuid:number`, where the UUID is the [`Client::id`](crate::Client::id) of a client, or the id of a Redisson instance.
    pub id: HolderId,
    /// The hold count.
    pub hold_count: u32,
    /// The remaining lease, or `None` for a key without a time to live, which no conforming client leaves behind.
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
    /// The time for which it has waited, or `None` if unknown, as for a JVM.
    pub waited: Option<Duration>,
    /// `true` if its process has sent a heartbeat within the [liveness timeout](crate::FairSettings::liveness_timeout), or if a JVM's deadline has
    /// not passed. The server skips waiters that are not alive.
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

/// Reads the holder of a lock that is a hash with one field.
pub(super) async fn plain(spec: &LockSpec) -> Result<Option<Holder>, Error> {
    one(spec, command::inspect, command::inspected).await
}

/// Reads the holder of a simple lock.
pub(super) async fn simple(spec: &LockSpec) -> Result<Option<Holder>, Error> {
    one(spec, simple_command::inspect, simple_command::inspected).await
}

async fn one(
    spec: &LockSpec,
    inspect: impl Fn(&LockName) -> Call,
    inspected: impl FnOnce(&Reply) -> Result<Inspected, DecodeError>,
) -> Result<Option<Holder>, Error> {
    match spec.call_once(inspect(spec.checked_name()?), inspected).await? {
        Inspected::Free => Ok(None),
        Inspected::Held { holder, count, left } => {
            Ok(Some(Holder { id: holder.into(), hold_count: count, remaining: left }))
        }
        Inspected::Kind(kind) => Err(spec.conflict(kind)),
    }
}

/// Reads the holder of a fair lock, and its queue.
pub(super) async fn fair(spec: &LockSpec) -> Result<FairQueue, Error> {
    let name = spec.checked_name()?;
    let call = spec.handle().with(|session, _| fair_command::inspect(name, &session.settings().fair));
    match spec.call_once(call, fair_command::inspected).await? {
        fair_command::Inspected::Seen { holder, waiters } => Ok(FairQueue {
            holder: holder.map(|seen| Holder { id: seen.holder.into(), hold_count: seen.count, remaining: seen.left }),
            waiters: waiters
                .into_iter()
                .map(|seen| Waiter { id: seen.waiter.into(), waited: seen.age, is_alive: seen.alive })
                .collect(),
        }),
        fair_command::Inspected::Kind(kind) => Err(spec.conflict(kind)),
    }
}

/// Reads both halves of a read-write lock.
pub(super) async fn halves(spec: &LockSpec) -> Result<ReadWriteHolders, Error> {
    let mut seen = ReadWriteHolders { writer: None, readers: Vec::new() };
    match spec.call_once(read_write::inspect(spec.checked_name()?), read_write::inspected).await? {
        read_write::Inspected::Free => {}
        read_write::Inspected::Held { holders, .. } => {
            for holder in holders {
                let (mode, holder) = (
                    holder.mode,
                    Holder { id: holder.holder.into(), hold_count: holder.count, remaining: holder.left },
                );
                match mode {
                    Mode::Read => seen.readers.push(holder),
                    Mode::Write => seen.writer = Some(holder),
                }
            }
        }
        read_write::Inspected::Kind(kind) => return Err(spec.conflict(kind)),
    }
    Ok(seen)
}

/// Reads the holder of a busy lock, or `None` for kinds with several holders and if it cannot be read.
pub(crate) async fn holder(spec: &LockSpec) -> Option<HolderId> {
    let holder = match spec.kind() {
        Kind::Lock | Kind::Spin | Kind::Fenced => plain(spec).await.ok()?,
        Kind::Fair | Kind::FencedFair => fair(spec).await.ok()?.holder,
        Kind::Simple => simple(spec).await.ok()?,
        Kind::Read => halves(spec).await.ok()?.writer,
        Kind::Write => {
            let seen = halves(spec).await.ok()?;
            seen.writer.or_else(|| seen.readers.into_iter().next())
        }
        // These kinds have several holders, or none.
        Kind::Semaphore | Kind::Permits | Kind::Latch => None,
    };
    holder.map(|holder| holder.id)
}
