//! The record that a client may publish about its process.

use crate::client::ids::{ClientId, HolderId};
use leasehold_core::command::record as command;
use leasehold_core::command::record::uses::LockUse;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time to live of a record.
pub(crate) const LIFETIME: Duration = Duration::from_secs(60);

/// The record of a client that [announces](crate::ClientBuilder::announce) itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClientRecord {
    /// The host name of the client's machine.
    pub host: String,
    /// The process id of the client.
    pub pid: u32,
    /// The name of the application.
    pub application: String,
    /// Creation time of the client by the clock of its machine, to the millisecond.
    pub since: SystemTime,
    /// The uptime of the client, which does not depend on its wall clock.
    pub up: Duration,
    /// The age of this record. A live client rewrites its record at least three times a minute.
    pub written_ago: Duration,
    /// The holds of other clients that last until this process ends: see [`announce_within`](crate::ClientBuilder::announce_within).
    pub within: Vec<HolderId>,
    /// The reason for the client's locks, or an empty string: see [`announce_note`](crate::ClientBuilder::announce_note).
    pub note: String,
}

impl ClientRecord {
    /// The content of a record with its age and the client's uptime when it was written.
    pub(crate) fn from_server(record: command::ClientRecord, up: Option<Duration>, age: Option<Duration>) -> Self {
        let written_ago = age.unwrap_or_default();
        Self {
            host: record.host,
            pid: record.pid,
            application: record.application,
            since: UNIX_EPOCH + Duration::from_millis(record.since),
            up: up.unwrap_or_default() + written_ago,
            written_ago,
            within: record.within.into_iter().map(HolderId::from).collect(),
            note: record.note,
        }
    }
}

/// A lock that a client has held or awaited for at least a second, according to its record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct AnnouncedLock {
    /// The key of the lock: its name with the prefix of the client.
    pub key: String,
    /// The id of the hold, or `None` if the client waits for the lock.
    pub holder: Option<HolderId>,
    /// Time for which the client has held the lock, or waited for it.
    pub lasted: Duration,
    /// The lease to which the client renews the hold, three times per lease; `None` for a wait, and for a hold without
    /// renewals.
    pub lease: Option<Duration>,
}

impl AnnouncedLock {
    pub(crate) fn from_server(lock: LockUse) -> Self {
        let LockUse { key, hold, lasted, lease, .. } = lock;
        Self { key, holder: hold.map(HolderId::from), lasted, lease }
    }
}

/// An announced client and its locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct AnnouncedClient {
    /// The identity of the client.
    pub id: ClientId,
    /// The record of the client's process.
    pub record: ClientRecord,
    /// The locks that the client holds and waits for, as in [`Client::locks_of`](crate::Client::locks_of).
    pub locks: Vec<AnnouncedLock>,
}

/// Returns the record of this process, with the holds around it and the reason for its locks.
pub(crate) fn own(application: String, within: &[HolderId], note: &str) -> command::ClientRecord {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    command::ClientRecord {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        application,
        since: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        within: within.iter().map(HolderId::to_string).collect(),
        note: note.to_owned(),
    }
}
