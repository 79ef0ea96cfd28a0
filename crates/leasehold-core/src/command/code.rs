//! The code at the start of a reply.

use crate::reply::{DecodeError, Reply};

/// Decodes `reply` as one of `codes`.
pub(super) fn int_code(reply: &Reply, codes: &[i64], expected: &'static str) -> Result<i64, DecodeError> {
    let code = reply.int()?;
    if codes.contains(&code) { Ok(code) } else { Err(DecodeError::new(expected, reply)) }
}

/// Decodes `reply` as an array that starts with one of `codes`. Returns the code and the other elements.
pub(super) fn array_code<'a>(
    reply: &'a Reply,
    codes: &[i64],
    expected: &'static str,
) -> Result<(i64, &'a [Reply]), DecodeError> {
    let [code, rest @ ..] = reply.array()? else { return Err(DecodeError::new(expected, reply)) };
    let code = code.int()?;
    if codes.contains(&code) { Ok((code, rest)) } else { Err(DecodeError::new(expected, reply)) }
}
