//! The commands of the fenced lock: the reentrant lock's, but each grant has a fencing token.

use super::lock::Lock;
use super::outcome::{Acquired, Released};
use super::protocol::{AcquireArgs, Keys, KindProtocol, ReleaseArgs};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script;
use bytes::Bytes;

/// The fenced lock, on the wire.
#[derive(Debug)]
pub(super) struct Fenced;

impl KindProtocol for Fenced {
    fn kind_name(&self) -> &'static str {
        "fenced lock"
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        Keys { keys: Box::new([name.to_key(), token_key(name)]), channel: Some(name.channel()) }
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        let keys = ask.keys.keys.iter().fold(Call::of(&script::FENCED_ACQUIRE), Call::key);
        keys.hold(ask.hold).number(ask.count.into()).millis(ask.lease).limit(ask.not_after)
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        with_token(Acquired::decode(reply)?, reply)
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        Lock { is_silent: false }.release(give)
    }

    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        Lock { is_silent: false }.released(reply)
    }

    fn may_be_kept(&self) -> bool {
        true
    }
}

/// Rejects a grant without a fencing token.
pub(super) fn with_token(acquired: Acquired, reply: &Reply) -> Result<Acquired, DecodeError> {
    match acquired {
        Acquired::Held { token: None, .. } => Err(DecodeError::new("a grant with a fencing token", reply)),
        acquired => Ok(acquired),
    }
}

/// Reads the last fencing token.
pub fn token(lock: &LockName) -> Call {
    Call::new(&script::FENCED_TOKEN, vec![token_key(lock)], [""; 0])
}

/// Decodes the reply to [`token`]; `None` if the lock was never granted.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn last_token(reply: &Reply) -> Result<Option<u64>, DecodeError> {
    match reply.coded()? {
        (0, []) => Ok(None),
        (1, [token]) => token.natural().map(Some),
        _ => Err(DecodeError::new("a reply of fenced/token", reply)),
    }
}

/// The key of the last fencing token of a lock.
pub(super) fn token_key(name: &LockName) -> Bytes {
    name.prefixed("redisson_lock_token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_without_a_token_is_an_error_and_no_grant() {
        let grant = |parts: &[i64]| Fenced.acquired(&Reply::Array(parts.iter().copied().map(Reply::Int).collect()));
        assert!(grant(&[1, 70, 0]).is_err());
        assert!(matches!(grant(&[1, 70, 0, 12]), Ok(Acquired::Held { token: Some(12), .. })));
        assert!(matches!(grant(&[0, 70, 0]), Ok(Acquired::Busy { .. })));
    }

    #[test]
    fn what_no_script_answers_is_an_error_and_no_outcome() {
        for reply in [Reply::Nil, Reply::Int(1), Reply::Array(vec![Reply::Int(1), Reply::Int(-1)])] {
            assert!(last_token(&reply).is_err(), "{reply:?}");
        }
    }
}
