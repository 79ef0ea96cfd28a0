//! The process behind a holder: the record that a client may leave about itself.

use leasehold_core::command::record as command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a record stays that is not written again.
pub(crate) const LIFETIME: Duration = Duration::from_secs(60);

/// The description that a client leaves of itself if it was built with [`announce`](crate::ClientBuilder::announce).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClientRecord {
    /// The machine that it runs on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// The name that the application gives itself.
    pub application: String,
    /// When the client was built, by the clock of its machine, to the millisecond.
    pub since: SystemTime,
}

impl ClientRecord {
    pub(crate) fn from_server(record: command::ClientRecord) -> Self {
        Self {
            host: record.host,
            pid: record.pid,
            application: record.application,
            since: UNIX_EPOCH + Duration::from_millis(record.since),
        }
    }
}

/// The record of this process.
pub(crate) fn own(application: String) -> command::ClientRecord {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    command::ClientRecord {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        application,
        since: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
    }
}
