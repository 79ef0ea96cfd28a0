//! The commands of the fenced lock, a reentrant lock with a fencing token for each grant.

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
        let keys = Call::of(&script::FENCED_ACQUIRE).with_keys(&*ask.keys.keys);
        keys.hold(ask.hold).number(ask.count).millis(ask.lease).limit(ask.not_after)
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
}
