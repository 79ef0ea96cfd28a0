//! The code by which a reply begins.

use crate::reply::{DecodeError, Reply};

/// The code that `reply` is, which must be one of `codes`.
pub(super) fn int_code(reply: &Reply, codes: &[i64], expected: &'static str) -> Result<i64, DecodeError> {
    let code = reply.int()?;
    if codes.contains(&code) { Ok(code) } else { Err(DecodeError::new(expected, reply)) }
}

/// The code of the array that `reply` is, which must be one of `codes`, and what follows it.
pub(super) fn array_code<'a>(
    reply: &'a Reply,
    codes: &[i64],
    expected: &'static str,
) -> Result<(i64, &'a [Reply]), DecodeError> {
    let [code, rest @ ..] = reply.array()? else { return Err(DecodeError::new(expected, reply)) };
    let code = code.int()?;
    if codes.contains(&code) { Ok((code, rest)) } else { Err(DecodeError::new(expected, reply)) }
}
