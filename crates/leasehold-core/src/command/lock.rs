//! The commands of the reentrant lock, and of the spin lock: a reentrant lock without release notices.

use super::holder::Holder;
use super::outcome::{Listeners, Released};
use super::protocol::{AcquireArgs, Keys, KindProtocol, ReleaseArgs};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script;
use crate::settings::Settings;
use bytes::Bytes;
use std::time::Duration;

/// The result of a force release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every outcome")]
pub enum ForceReleased {
    /// The named hold has ended.
    Ended,
    /// The lock is free.
    Absent,
    /// Another holder has the lock.
    Other,
    /// The key holds another kind of object.
    Kind,
}

/// The reentrant lock and the spin lock, on the wire.
#[derive(Debug)]
pub(super) struct Lock {
    /// Releases publish no notice, and waiters poll.
    pub(super) is_silent: bool,
}

impl KindProtocol for Lock {
    fn kind_name(&self) -> &'static str {
        if self.is_silent { "spin lock" } else { "lock" }
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        Keys { keys: Box::new([name.to_key()]), channel: (!self.is_silent).then(|| name.channel()) }
    }

    fn has_keys(&self) -> bool {
        self.is_silent
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        Call::of(&script::ACQUIRE)
            .key(ask.name.key())
            .hold(ask.hold)
            .number(ask.count)
            .millis(ask.lease)
            .limit(ask.not_after)
            .arg(self.publish(ask.settings))
            .arg_of(&ask.name.channel_parts())
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        let call = Call::of(&script::RELEASE)
            .key(give.name.key())
            .hold(give.hold)
            .number(give.count)
            .arg(self.publish(give.settings))
            .millis(give.keep);
        let kept = if give.keep < Duration::from_millis(1) {
            Bytes::new()
        } else {
            [&give.hold.field(), &b"!"[..]].concat().into()
        };
        call.arg(kept).arg_of(&give.name.channel_parts())
    }

    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        match reply.int()? {
            1 => Ok(Released::EndedBefore(Listeners::None)),
            // An earlier copy succeeded, and the lock stays busy.
            5 => Ok(Released::Ended),
            6 => Ok(Released::EndedBefore(Listeners::One)),
            7 => Ok(Released::EndedBefore(Listeners::Several)),
            _ => Released::decode(reply),
        }
    }

    fn may_be_handed_on(&self) -> bool {
        !self.is_silent
    }

    fn may_be_kept(&self) -> bool {
        true
    }
}

impl Lock {
    /// The command that announces a release, or requests the lock from a lingering holder.
    fn publish<'a>(&self, settings: &'a Settings) -> &'a [u8] {
        if self.is_silent { b"SILENT" } else { &settings.publish }
    }
}

/// Ends the hold of `holder`.
pub fn force_release(lock: &LockName, holder: &str, publish: &Bytes) -> Call {
    Call::of(&script::FORCE_RELEASE).key(lock.key()).arg(holder).arg(publish).arg_of(&lock.channel_parts())
}

/// Decodes the reply to [`force_release`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn forced(reply: &Reply) -> Result<ForceReleased, DecodeError> {
    Ok(match reply.int()? {
        1 => ForceReleased::Ended,
        0 => ForceReleased::Absent,
        -1 => ForceReleased::Other,
        -4 => ForceReleased::Kind,
        _ => return Err(DecodeError::new("a code of lock/force_release", reply)),
    })
}

/// Reads the holder of the lock.
pub fn inspect(lock: &LockName) -> Call {
    Call::of(&script::INSPECT).key(lock.key())
}

/// Decodes the reply to [`inspect`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<Option<Holder>, DecodeError> {
    match reply.coded()? {
        (0, []) => Ok(None),
        (1, [left, holder, count, ..]) => Holder::read(holder, count, left).map(Some),
        _ => Err(DecodeError::new("a reply of lock/inspect", reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_script_answers_is_an_error_and_no_outcome() {
        for reply in [Reply::Nil, Reply::Bulk("PONG".into()), Reply::Array(Vec::new()), Reply::Int(9)] {
            assert!(inspected(&reply).is_err(), "{reply:?}");
            assert!(forced(&reply).is_err(), "{reply:?}");
        }
    }
}
