//! Records of operations. A record identifies a copy of a command if the data cannot.
//!
//! An operation has a unique id, such as the field of a hold. The script writes a record with this id in the hash tag
//! of the data. A copy that finds the record changes nothing.

use crate::name::LockName;
use crate::reply::{DecodeError, Reply};
use bytes::Bytes;
use std::time::Duration;

/// The lifetime of a record. The server treats a later copy as a new command. The client closes connections and settles
/// unknown outcomes long before.
pub const MEMORY: Duration = Duration::from_secs(600);

const PREFIX: &str = "leasehold:1:op";

/// The key of the record of the operation `id` on `name`: `leasehold:1:op:{name}:id`.
pub(super) fn record_key(name: &LockName, id: &[u8]) -> Bytes {
    with_id(name.prefixed(PREFIX), id)
}

/// The record key of a count-down latch. It always adds braces, as the latch's channel does.
pub(super) fn braced_record_key(name: &LockName, id: &[u8]) -> Bytes {
    with_id(name.braced("leasehold:1:op:"), id)
}

fn with_id(key: Bytes, id: &[u8]) -> Bytes {
    Bytes::from([key.as_ref(), b":", id].concat())
}

/// The result of an operation that the server performs once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Done {
    /// The operation is done, by this command or an earlier copy.
    Done {
        /// The script's number: available permits, drained permits, or a remaining count.
        number: i64,
        /// An earlier copy performed the operation.
        copy: bool,
    },
    /// The operation does not apply: the number is already set, or the count is already 0. The data is unchanged.
    Refused {
        /// The current number.
        number: i64,
    },
    /// The number would exceed a JVM's 32-bit counter. The data is unchanged.
    Overflow {
        /// The current number.
        number: i64,
    },
}

impl Done {
    /// Decodes the replies in `codes`: `{1, number}` done, `{2, number}` done before, `{0, number}` refused and `{-8, number}` overflow.
    pub(super) fn decode(reply: &Reply, codes: &[i64], expected: &'static str) -> Result<Self, DecodeError> {
        let (code, [number]) = reply.coded()? else { return Err(DecodeError::new(expected, reply)) };
        let number = number.int()?;
        match code {
            _ if !codes.contains(&code) => Err(DecodeError::new(expected, reply)),
            1 | 2 => Ok(Self::Done { number, copy: code == 2 }),
            0 => Ok(Self::Refused { number }),
            _ => Ok(Self::Overflow { number }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::slot;

    #[test]
    fn records_lie_in_the_slot_of_their_data() {
        for (raw, key) in [
            ("seats", "leasehold:1:op:{seats}:6f0c:7"),
            ("{shop}:seats", "leasehold:1:op:{shop}:seats:6f0c:7"),
            ("a{b}c", "leasehold:1:op:a{b}c:6f0c:7"),
        ] {
            let name = LockName::new("", raw).expect("the name is valid");
            assert_eq!(record_key(&name, b"6f0c:7"), key);
            assert_eq!(slot(&record_key(&name, b"6f0c:7")), slot(raw.as_bytes()), "{raw}");
        }
        let name = LockName::new("", "a{b").expect("the name is valid");
        assert_eq!(slot(&braced_record_key(&name, b"6f0c:7")), slot(b"a{b"));
    }
}
