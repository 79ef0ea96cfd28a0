//! The commands of the simple lock, a string with the caller's id as in go-zero's `RedisLock`.

use super::holder::Holder;
use super::lock;
use super::outcome::{Acquired, Released};
use super::protocol::{AcquireArgs, HoldKey, Keys, KindProtocol, ReleaseArgs};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script::{self, Script};
use bytes::Bytes;

/// The simple lock, on the wire. The field of a hold is the id itself.
#[derive(Debug)]
pub(super) struct Simple;

impl KindProtocol for Simple {
    fn kind_name(&self) -> &'static str {
        "simple lock"
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        Keys { keys: Box::new([name.to_key()]), channel: None }
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        let call = Call::of(&script::SIMPLE_ACQUIRE).key(ask.name.key()).hold(ask.hold);
        call.number(ask.count).millis(ask.lease).limit(ask.not_after)
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        // The kind has no count, so a mismatch is impossible.
        Acquired::decode_one_of(reply, &[1, 2, 0, -2, -3, -4])
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        release(give.name, give.hold, give.count)
    }

    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        Released::decode_one_of(reply, &[1, 3, 0, -1, -4])
    }

    fn counts(&self) -> bool {
        false
    }

    fn renewal(&self) -> Option<&'static Script> {
        Some(&script::SIMPLE_RENEW)
    }
}

/// Ends the hold of `holder` for any caller. [`forced`](super::lock::forced) decodes the reply.
pub fn force_release(lock: &LockName, holder: &str) -> Call {
    let id = unescaped(holder).filter(|bytes| std::str::from_utf8(bytes).is_err());
    let field = id.map_or_else(|| Bytes::copy_from_slice(holder.as_bytes()), Bytes::from);
    release(lock, &HoldKey::new(field, 1), 0)
}

/// Reads the holder of the lock. [`inspected`] decodes the reply.
pub fn inspect(lock: &LockName) -> Call {
    Call::of(&script::SIMPLE_INSPECT).key(lock.key())
}

/// Decodes the reply to [`inspect`]. Other libraries write ids that are not UTF-8; their bytes are escaped, as in
/// `\x9f`.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<Option<Holder>, DecodeError> {
    match reply.array()? {
        [code, left, Reply::Bulk(id), ..] if code.int()? == 1 => {
            let holder = std::str::from_utf8(id).map_or_else(|_| id.escape_ascii().to_string(), str::to_owned);
            Ok(Some(Holder { holder, count: 1, left: left.left()? }))
        }
        _ => lock::inspected(reply),
    }
}

/// Decodes an escaped id; `None` if it is not escaped.
fn unescaped(id: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(id.len());
    let mut rest = id.as_bytes();
    while let [first, tail @ ..] = rest {
        let (byte, tail) = match (first, tail) {
            (b'\\', [b'x', hex @ ..]) => {
                let (digits, tail) = hex.split_at_checked(2)?;
                (u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?, tail)
            }
            (b'\\', [b't', tail @ ..]) => (b'\t', tail),
            (b'\\', [b'r', tail @ ..]) => (b'\r', tail),
            (b'\\', [b'n', tail @ ..]) => (b'\n', tail),
            (b'\\', [quoted @ (b'\\' | b'\'' | b'"'), tail @ ..]) => (*quoted, tail),
            (b'\\', _) => return None,
            (byte, tail) => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    Some(bytes)
}

fn release(lock: &LockName, hold: &HoldKey, count: u32) -> Call {
    Call::of(&script::SIMPLE_RELEASE).key(lock.key()).hold(hold).number(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_script_answers_is_an_error_and_no_outcome() {
        for code in [3, -1] {
            let reply = Reply::Array([code, 70, 0].map(Reply::Int).to_vec());
            assert!(Simple.acquired(&reply).is_err(), "{reply:?}");
        }
        for code in [2, 4] {
            assert!(Simple.released(&Reply::Int(code)).is_err(), "{code}");
        }
    }

    #[test]
    fn id_that_is_no_text_is_shown_and_ended() {
        let name = LockName::new("", "stock").expect("a name");
        let ids: [&[u8]; 4] = [b"Xu2k", b"\\x41", b"\x9f\x00\\\"'\n\xff", "\u{e9}\u{fffd}".as_bytes()];
        for id in ids {
            let stored = Reply::Bulk(Bytes::copy_from_slice(id));
            let reply = Reply::Array(vec![Reply::Int(1), Reply::Int(5_210), stored, Reply::Int(1)]);
            let Ok(Some(Holder { holder, count: 1, .. })) = inspected(&reply) else { panic!("{id:?}") };
            assert_eq!(&force_release(&name, &holder).args()[0], id, "{holder}");
        }
        assert_eq!(inspected(&Reply::Array(vec![Reply::Int(0)])), Ok(None));
    }
}
