//! Inspection of a fair lock: its holder and its waiters.

use super::keys;
use crate::call::Call;
use crate::command::entry::Entry;
use crate::name::LockName;
use crate::reply::{DecodeError, Reply};
use crate::script;
use crate::settings::FairSettings;
use std::time::Duration;

/// The result of an inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Inspected {
    /// The state of the queue.
    Seen {
        /// The holder of the lock.
        holder: Option<Holder>,
        /// The waiters, the next one first.
        waiters: Vec<Waiter>,
    },
    /// A key is of another kind.
    Kind(String),
}

/// A holder of a fair lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is all that the server tells")]
pub struct Holder {
    /// The field of the hold: `uuid:number`, or a JVM's `uuid:thread`.
    pub holder: String,
    /// The hold count.
    pub count: u32,
    /// The remaining lease; `None` if the key has no time to live.
    pub left: Option<Duration>,
}

/// A waiter for a fair lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is all that the server tells")]
pub struct Waiter {
    /// The field of its hold: `uuid:number`, or a JVM's `uuid:thread`.
    pub waiter: String,
    /// The waiting time; `None` if unknown, as for a JVM.
    pub age: Option<Duration>,
    /// Its process sent a heartbeat within the window, or a JVM's deadline has not passed.
    pub alive: bool,
}

/// Reads the holder and the waiters.
pub fn inspect(name: &LockName, settings: &FairSettings) -> Call {
    Call::new(&script::FAIR_INSPECT, keys(name), vec![settings.packed()])
}

/// Decodes the reply to [`inspect`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<Inspected, DecodeError> {
    let (holder, rest) = match reply.array()? {
        [code, kind] if code.int()? == -4 => return Ok(Inspected::Kind(kind.text()?.to_owned())),
        [code, rest @ ..] if code.int()? == 0 => (None, rest),
        [code, lease, holder, count, rest @ ..] if code.int()? == 1 => match Entry::read(holder, count)? {
            Entry::Hold(holder, count) => {
                (Some(Holder { holder: holder.to_owned(), count, left: lease.left()? }), rest)
            }
            Entry::Other(what) => return Ok(Inspected::Kind(what)),
        },
        _ => return Err(DecodeError::new("a reply of fair/inspect", reply)),
    };
    let (waiters, odd) = rest.as_chunks::<3>();
    if !odd.is_empty() {
        return Err(DecodeError::new("three words for each waiter", reply));
    }
    let waiters = waiters.iter().map(|[waiter, age, alive]| {
        Ok(Waiter { waiter: waiter.text()?.to_owned(), age: age.left()?, alive: alive.int()? == 1 })
    });
    Ok(Inspected::Seen { holder, waiters: waiters.collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn an_inspection_tells_holder_and_waiters() {
        let text = |text: &str| Reply::Bulk(Bytes::copy_from_slice(text.as_bytes()));
        let reply = Reply::Array(vec![
            Reply::Int(1),
            Reply::Int(70),
            text("a:1"),
            text("2"),
            text("b:1"),
            Reply::Int(-1),
            Reply::Int(1),
        ]);
        let holder = Holder { holder: "a:1".into(), count: 2, left: Some(Duration::from_millis(70)) };
        let waiter = Waiter { waiter: "b:1".into(), age: None, alive: true };
        assert_eq!(inspected(&reply), Ok(Inspected::Seen { holder: Some(holder), waiters: vec![waiter] }));
    }
}
