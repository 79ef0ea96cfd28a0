//! The record of a client, which identifies it to operators. A hold's field names the client by UUID only.

pub mod uses;

use self::uses::LockUse;
use crate::call::Call;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script;
use bytes::Bytes;
use std::time::Duration;

/// The description that a client publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it")]
pub struct ClientRecord {
    /// The host name.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// The name of the application; may be empty.
    pub application: String,
    /// The start of the client, in milliseconds since the epoch.
    pub since: u64,
    /// The holds of other clients under which this process runs. These holds outlive the client.
    pub within: Vec<String>,
    /// The reason for its locks, for operators; may be empty.
    pub note: String,
}

/// The record of a client, as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is all that the server tells")]
pub struct Found {
    /// The content of the record.
    pub record: ClientRecord,
    /// The remaining lifetime of the record, which each write restarts; `None` without expiry.
    pub left: Option<Duration>,
    /// The client's uptime when it wrote the record; `None` if unknown.
    pub up: Option<Duration>,
    /// The age of the record; `None` if unknown.
    pub age: Option<Duration>,
    /// The locks that the client currently holds or waits for. The list is bounded and leaves out short uses.
    pub uses: Vec<LockUse>,
}

/// The key of a client's record: `leasehold:1:client:uuid`.
pub fn key(client: &ClientId) -> Bytes {
    Bytes::from(format!("leasehold:1:client:{client}"))
}

/// Writes or rewrites the record of a client with the uptime `up`. It expires after `lifetime`, which is at least a
/// millisecond.
pub fn put(client: &ClientId, record: &ClientRecord, up: Duration, uses: &[LockUse], lifetime: Duration) -> Call {
    Call::of(&script::RECORD_PUT)
        .key(key(client))
        .arg(&record.host)
        .number(record.pid)
        .arg(&record.application)
        .number(record.since)
        .millis(up)
        .arg(record.within.join(" "))
        .arg(&record.note)
        .arg(uses::encode(uses))
        .millis(lifetime)
}

/// Decodes the reply to [`put`]: whether the record was written. A key of another kind prevents the write.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn put_done(reply: &Reply) -> Result<bool, DecodeError> {
    Ok(reply.code(&[1, -4], "a reply of record/put")? == 1)
}

/// Reads a client's record.
pub fn get(client: &ClientId) -> Call {
    Call::of(&script::RECORD_GET).key(key(client))
}

/// Decodes the reply to [`get`]; `None` if the client has no record: it writes none, or is gone.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn found(reply: &Reply) -> Result<Option<Found>, DecodeError> {
    match reply.coded()? {
        (0, []) => Ok(None),
        (1, [remaining, host, pid, application, since, up, within, note, age, locks]) => {
            let record = ClientRecord {
                host: host.text()?.to_owned(),
                pid: pid.natural()?,
                application: application.text()?.to_owned(),
                since: since.natural()?,
                within: within.text()?.split_ascii_whitespace().map(str::to_owned).collect(),
                note: note.text()?.to_owned(),
            };
            let (up, age) = (up.left()?, age.left()?);
            let mut uses = locks.text().map(uses::decode).unwrap_or_default();
            uses.iter_mut().for_each(|lock| lock.lasted += age.unwrap_or_default());
            Ok(Some(Found { record, left: remaining.left()?, up, age, uses }))
        }
        _ => Err(DecodeError::new("a reply of record/get", reply)),
    }
}

/// Removes the record.
pub fn remove(client: &ClientId) -> Call {
    Call::of(&script::RECORD_REMOVE).key(key(client))
}

/// Decodes the reply to [`remove`]: whether a record existed.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn removed(reply: &Reply) -> Result<bool, DecodeError> {
    Ok(reply.code(&[1, 0, -4], "a reply of record/remove")? == 1)
}
