//! Inspection of a name of unknown kind.

use super::holder::Waiter;
use super::permits::PermitId;
use super::read_write::Mode;
use super::semaphore;
use crate::call::Call;
use crate::name::LockName;
use crate::reply::{DecodeError, Reply};
use crate::script;
use crate::settings::Settings;
use std::time::Duration;
use uuid::Uuid;

/// The layouts that a lock's data can distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must name each")]
pub enum Sort {
    /// A reentrant lock or a spin lock.
    Lock,
    /// A lock with a queue or with marks.
    Fair,
    /// A lock with a register of fencing tokens.
    Fenced,
    /// A fair lock with a register of fencing tokens.
    FencedFair,
    /// A read-write lock.
    ReadWrite,
    /// A non-numeric string with an expiry.
    Simple,
    /// A counter with leased permits.
    Permits,
    /// A counter: a semaphore, or a latch.
    Counter,
}

/// The result of an inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Inspected {
    /// The name is free.
    Absent {
        /// The last fencing token of a lock of this name.
        token: Option<u64>,
    },
    /// A lock.
    Found(Box<Found>),
}

/// An inspected lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is all that the server tells")]
pub struct Found {
    /// The layout.
    pub sort: Sort,
    /// Whether the lock's key exists. A free fair lock with waiters has no key.
    pub is_there: bool,
    /// The time to live of the key, if any.
    pub left: Option<Duration>,
    /// Total number of holds, listed or not.
    pub held: u64,
    /// Number of waiters in the queue.
    pub queued: u64,
    /// Number of clients that listen for releases; `None` if unknown or not applicable.
    pub listeners: Option<u64>,
    /// The last fencing token.
    pub token: Option<u64>,
    /// The value of a counter.
    pub available: i64,
    /// The first holds.
    pub holds: Vec<Hold>,
    /// The first waiters in the queue, next waiter first.
    pub waiters: Vec<Waiter>,
}

/// A hold of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is all that the server tells")]
pub struct Hold {
    /// The name: `uuid:number`, or the id of a simple lock or permit.
    pub name: String,
    /// The half of a read-write lock; `Write` for other kinds.
    pub mode: Mode,
    /// The hold count; `None` if the value is not a valid count.
    pub count: Option<u32>,
    /// The remaining lease; `None` for a hold without expiry.
    pub left: Option<Duration>,
}

/// Maximum number of holds, and of waiters, in a reply. Building the lists blocks the server.
pub const MOST: u32 = 128;

/// Reads the state of a name from the server, with at most `most` holds and `most` waiters.
pub fn inspect(name: &LockName, settings: &Settings, most: u32) -> Call {
    let question = if &settings.publish[..] == b"SPUBLISH" { "SHARDNUMSUB" } else { "NUMSUB" };
    Call::of(&script::ANY_INSPECT)
        .key(name.key())
        .key(name.prefixed("redisson_lock_queue"))
        .key(name.prefixed("redisson_lock_timeout"))
        .key(name.prefixed("leasehold:1:fair"))
        .key(name.prefixed("redisson_lock_token"))
        .key(name.prefixed("leasehold:1:rw_readers"))
        .key(name.suffixed("timeout"))
        .number(most.clamp(1, MOST))
        .millis(settings.fair.liveness_timeout)
        .millis(settings.fair.clock_skew)
        .arg(question)
        .arg(name.channel())
        .arg(name.prefixed("redisson_rwlock"))
        .arg(semaphore::channel(name))
        .arg(name.braced("redisson_countdownlatch__channel__"))
}

/// Decodes the reply to [`inspect`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<Inspected, DecodeError> {
    const EXPECTED: &str = "a reply of any/inspect";
    match reply.coded()? {
        (0, [token]) => Ok(Inspected::Absent { token: token.natural().ok() }),
        (1, [sort, left, held, queued, listeners, token, available, listed, rest @ ..]) => {
            let sort = Sort::read(sort)?;
            let (triples, odd) = rest.as_chunks::<3>();
            let listed = listed.natural()?;
            let Some((holds, waiters)) = triples.split_at_checked(listed).filter(|_| odd.is_empty()) else {
                return Err(DecodeError::new("three words for each hold and waiter", reply));
            };
            let holds = holds.iter().map(|parts| Hold::read(sort, parts)).collect::<Result<Vec<_>, _>>()?;
            if sort.is_hash() && !holds.is_empty() && !holds.iter().any(|hold| hold.is_of_a_client()) {
                return Err(DecodeError::OtherKind("hash".to_owned()));
            }
            Ok(Inspected::Found(Box::new(Found {
                sort,
                is_there: left.int()? != -2,
                left: left.left()?,
                held: held.natural()?,
                queued: queued.natural()?,
                listeners: listeners.natural().ok(),
                token: token.natural().ok(),
                available: available.int()?,
                holds,
                waiters: waiters.iter().map(Waiter::read).collect::<Result<_, _>>()?,
            })))
        }
        _ => Err(DecodeError::new(EXPECTED, reply)),
    }
}

impl Sort {
    fn read(word: &Reply) -> Result<Self, DecodeError> {
        Ok(match word.text()? {
            "lock" => Self::Lock,
            "fair lock" => Self::Fair,
            "fenced lock" => Self::Fenced,
            "fenced fair lock" => Self::FencedFair,
            "read-write lock" => Self::ReadWrite,
            "simple lock" => Self::Simple,
            "leased semaphore" => Self::Permits,
            "counter" => Self::Counter,
            _ => return Err(DecodeError::new("a sort of lock", word)),
        })
    }

    /// Returns whether the holds are the fields of a hash.
    const fn is_hash(self) -> bool {
        !matches!(self, Self::Simple | Self::Permits | Self::Counter)
    }
}

impl Hold {
    fn read(sort: Sort, parts: &[Reply; 3]) -> Result<Self, DecodeError> {
        let [Reply::Bulk(name), count, left] = parts else {
            return Err(DecodeError::new("the name of a hold", &parts[0]));
        };
        // A JVM counts in signed 32-bit integers.
        let count = count.int().ok().and_then(|count| i32::try_from(count).ok());
        let name = match PermitId::from_bytes(name).filter(|_| sort == Sort::Permits) {
            Some(id) => id.to_string(),
            None => String::from_utf8_lossy(name).into_owned(),
        };
        let (name, mode) = match name.strip_suffix(":write") {
            Some(writer) if sort == Sort::ReadWrite => (writer.to_owned(), Mode::Write),
            _ if sort == Sort::ReadWrite => (name, Mode::Read),
            _ => (name, Mode::Write),
        };
        let count = count.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
        Ok(Self { name, mode, count, left: left.left()? })
    }

    /// Returns whether the name has the form of a native or JVM hold: `uuid:number`, with an optional mark.
    pub fn is_of_a_client(&self) -> bool {
        let name = self.name.strip_suffix(['~', '!']).unwrap_or(&self.name);
        name.rsplit_once(':').is_some_and(|(client, number)| {
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number && Uuid::try_parse(client).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55";

    fn reply(sort: &str, holds: &[(&str, &str)]) -> Reply {
        let text = |text: &str| Reply::Bulk(text.to_owned().into());
        let listed = Reply::Int(i64::try_from(holds.len()).expect("few"));
        let mut parts = vec![Reply::Int(1), text(sort)];
        parts.extend([70, 1, 0, -1, -1, 0].map(Reply::Int));
        parts.push(listed);
        parts.extend(holds.iter().flat_map(|(name, count)| [text(name), text(count), Reply::Int(70)]));
        Reply::Array(parts)
    }

    #[test]
    fn a_hash_is_a_lock_if_a_client_is_in_it() {
        let hold = format!("{CLIENT}:7~");
        let Ok(Inspected::Found(found)) = inspected(&reply("lock", &[(&hold, "2"), ("x", "none")])) else {
            panic!("a lock")
        };
        assert_eq!(found.holds.iter().map(|hold| hold.count).collect::<Vec<_>>(), [Some(2), None]);
        let kept = format!("{CLIENT}:7!");
        assert!(matches!(inspected(&reply("lock", &[(&kept, "1")])), Ok(Inspected::Found(_))), "it stays busy");
        for other in ["stock", "a:1", &CLIENT[..36], &format!("{CLIENT}:"), &format!("{CLIENT}:x")] {
            let found = inspected(&reply("lock", &[(other, "1")]));
            assert_eq!(found, Err(DecodeError::OtherKind("hash".to_owned())), "{other}");
        }
    }

    #[test]
    fn the_half_of_a_hold_is_told_by_its_end() {
        let (writer, reader) = (format!("{CLIENT}:7:write"), format!("{CLIENT}:8"));
        let Ok(Inspected::Found(found)) = inspected(&reply("read-write lock", &[(&writer, "1"), (&reader, "1")]))
        else {
            panic!("a lock")
        };
        let halves: Vec<_> = found.holds.iter().map(|hold| (hold.name.as_str(), hold.mode)).collect();
        assert_eq!(halves, [(&writer[..writer.len() - 6], Mode::Write), (&reader, Mode::Read)]);
    }

    #[test]
    fn what_no_script_answers_is_an_error_and_no_outcome() {
        let odd = reply("lock", &[]);
        let Reply::Array(mut parts) = odd else { panic!("an array") };
        parts.push(Reply::Int(1));
        for reply in [Reply::Nil, Reply::Array(Vec::new()), Reply::Array(parts), reply("other", &[])] {
            assert!(inspected(&reply).is_err(), "{reply:?}");
        }
    }
}
