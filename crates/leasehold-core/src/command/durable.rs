//! The mark that goes between a script and its `WAIT`.

use super::code::int_code;
use crate::call::Call;
use crate::reply::{DecodeError, Reply};
use crate::script;

/// Writes the lease of a lock once more, so that a `WAIT` behind it speaks of everything that was written before.
pub fn mark(lock: &[u8]) -> Call {
    Call::new(&script::DURABLE_MARK, vec![lock], [""; 0])
}

/// Whether something was written: only then does the `WAIT` prove anything.
///
/// # Errors
///
/// The reply is none of the script's.
pub fn marked(reply: &Reply) -> Result<bool, DecodeError> {
    Ok(int_code(reply, &[0, 1], "a code of a mark")? == 1)
}
