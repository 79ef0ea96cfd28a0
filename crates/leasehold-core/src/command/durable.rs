//! The mark between a script and its `WAIT`.

use crate::call::Call;
use crate::reply::{DecodeError, Reply};
use crate::script;

/// Rewrites the lease of a lock, so that the following `WAIT` covers all earlier writes.
pub fn mark(lock: &[u8]) -> Call {
    Call::new(&script::DURABLE_MARK, vec![lock], [""; 0])
}

/// Decodes the reply: whether the mark was written. Without the mark, `WAIT` proves nothing.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn marked(reply: &Reply) -> Result<bool, DecodeError> {
    Ok(reply.code(&[0, 1], "a code of a mark")? == 1)
}
