//! Records of operations: how a copy of a command is known where the data does not say who did what.
//!
//! An operation has an id that is used once and never again, such as the field of a hold. The script leaves a record under it, in
//! the hash tag of the data, and a copy that finds the record changes nothing.

use crate::name::LockName;
use bytes::Bytes;
use std::time::Duration;

/// How long a record is kept. A copy of a command that comes later than this is not known as one: connections are closed, and unknown
/// outcomes settled, long before.
pub const MEMORY: Duration = Duration::from_secs(600);

const PREFIX: &str = "leasehold:1:op";

/// The key of the record of the operation `id` on `name`: `leasehold:1:op:{name}:id`.
pub(super) fn record_key(name: &LockName, id: &[u8]) -> Bytes {
    with_id(name.prefixed(PREFIX), id)
}

/// The same for a count-down latch, whose channel has a pair of braces always: so does its record.
pub(super) fn braced_record_key(name: &LockName, id: &[u8]) -> Bytes {
    with_id(name.braced("leasehold:1:op:"), id)
}

fn with_id(key: Bytes, id: &[u8]) -> Bytes {
    Bytes::from([key.as_ref(), b":", id].concat())
}

/// The result of an operation that the server does once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum Done {
    /// It is done: by this command, or by an earlier copy of it.
    Done {
        /// The number that the script answers with: what is available, was drained, or is left of a count.
        number: i64,
        /// An earlier copy did it.
        copy: bool,
    },
    /// It does not apply: there is a number already, or nothing to count down. Nothing was changed.
    Refused {
        /// The number as it is.
        number: i64,
    },
    /// The number would leave the range of 32 bits, in which a JVM counts. Nothing was changed.
    Overflow {
        /// The number as it is.
        number: i64,
    },
    /// The key is of another kind.
    Kind(String),
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
