//! The commands of both halves of the read-write lock.
//!
//! The holds of both halves have separate numbers. A reader's field is `uuid:number`, and a writer's field
//! `uuid:number:write`. This module adds the suffix, so a [`HoldKey`] never contains it.

use super::holder::{Holder, unlike};
use super::outcome::Acquired;
use super::protocol::{AcquireArgs, HoldKey, Keys, KindProtocol, ReleaseArgs, Renewal, WaitPolicy, millis};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script::{self, Script};
use bytes::Bytes;
use std::time::Duration;

/// The suffix of a writer's field.
const WRITE: &str = ":write";

/// The read half, on the wire.
#[derive(Debug)]
pub(super) struct Read;

/// The write half, on the wire.
#[derive(Debug)]
pub(super) struct Write;

/// A half of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third half")]
pub enum Mode {
    /// The half for readers.
    Read,
    /// The half for a writer, which may also read.
    Write,
}

impl KindProtocol for Read {
    fn kind_name(&self) -> &'static str {
        "read-write lock"
    }

    fn wait_policy(&self) -> WaitPolicy {
        WaitPolicy::Shared
    }

    fn shares_key(&self) -> bool {
        true
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        keys(name)
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        let field = ask.hold.field();
        let call = Call::of(&script::READ_ACQUIRE).with_keys(&*ask.keys.keys).key(hold_key(ask.name, &field));
        call.arg(&field)
            .number(ask.count)
            .millis(ask.lease)
            .limit(ask.not_after)
            .arg(writing(ask.beside.unwrap_or(&field)))
            .number(ask.prefer_writers.is_some())
            .arg(&ask.settings.publish)
            .arg(channel(ask.name))
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        Acquired::decode_one_of(reply, &[1, 2, 3, 0, -1, -2, -3, -4])
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        release(Mode::Read, give.name, give.keys, &give.hold.field(), give.count, &give.settings.publish)
    }

    fn renewal(&self) -> Option<&'static Script> {
        Some(&script::READ_RENEW)
    }

    /// A lease of zero leaves the hold unchanged. The script restores a lock's time to live that a JVM has shortened.
    fn renew(&self, into: &mut Renewal, name: &LockName, keys: &Keys, hold: &HoldKey, lease: Duration) {
        into.keys.extend([keys.keys[0].clone(), keys.keys[1].clone(), hold_key(name, &hold.field())]);
        into.args.extend([hold.field(), millis(lease), into.publish.clone(), channel(name)]);
    }
}

impl KindProtocol for Write {
    fn kind_name(&self) -> &'static str {
        "read-write lock"
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        keys(name)
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        Call::of(&script::WRITE_ACQUIRE)
            .with_keys(&*ask.keys.keys)
            .arg(writing(&ask.hold.field()))
            .number(ask.count)
            .millis(ask.lease)
            .limit(ask.not_after)
            .arg(ask.beside.map(|beside| &beside[..]).unwrap_or_default())
            .millis(ask.prefer_writers.filter(|_| ask.waits).unwrap_or_default())
            .arg(&ask.settings.publish)
            .arg(channel(ask.name))
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        Acquired::decode_one_of(reply, &[1, 2, 3, 0, 4, -1, -2, -3, -4, -8])
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        release(Mode::Write, give.name, give.keys, &give.hold.field(), give.count, &give.settings.publish)
    }

    /// A writer's field exists as long as its hold, so `lock/renew` renews it.
    fn renew(&self, into: &mut Renewal, name: &LockName, _keys: &Keys, hold: &HoldKey, lease: Duration) {
        into.keys.push(name.to_key());
        into.args.extend([writing(&hold.field()), millis(lease)]);
    }
}

/// Ends the hold of `holder` on one half, for any client. Other holders keep their holds, and a writer that also reads
/// becomes a reader. [`lock::forced`](super::lock::forced) decodes the reply.
pub fn force_release(lock: &LockName, mode: Mode, holder: &str, publish: &Bytes) -> Call {
    release(mode, lock, &keys(lock), &Bytes::copy_from_slice(holder.as_bytes()), 0, publish)
}

/// Reads the holders of the lock.
pub fn inspect(lock: &LockName) -> Call {
    Call::of(&script::READ_WRITE_INSPECT).key(lock.key()).key(readers_key(lock))
}

/// Decodes the reply to [`inspect`]: the holders, each with its half. A free lock has none.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<Vec<(Mode, Holder)>, DecodeError> {
    match reply.coded()? {
        (0, []) => Ok(Vec::new()),
        (1, [mode, holders @ ..]) if !holders.is_empty() && holders.len() % 3 == 0 => {
            let mode = mode.text()?;
            if !matches!(mode, "read" | "write") {
                return Err(unlike(b"mode", mode.as_bytes()));
            }
            let holders = holders.chunks_exact(3).map(|parts| {
                let holder = Holder::read(&parts[0], &parts[1], &parts[2])?;
                Ok(match holder.holder.strip_suffix(WRITE) {
                    Some(writer) => (Mode::Write, Holder { holder: writer.to_owned(), ..holder }),
                    None => (Mode::Read, holder),
                })
            });
            holders.collect()
        }
        _ => Err(DecodeError::new("a reply of read_write/inspect", reply)),
    }
}

fn release(mode: Mode, name: &LockName, keys: &Keys, field: &Bytes, count: u32, publish: &Bytes) -> Call {
    let call = match mode {
        Mode::Read => Call::of(&script::READ_RELEASE).with_keys(&*keys.keys).key(hold_key(name, field)).arg(field),
        Mode::Write => Call::of(&script::WRITE_RELEASE).with_keys(&*keys.keys).arg(writing(field)),
    };
    call.number(count).arg(publish).arg(channel(name))
}

/// The keys and the channel that both halves share.
fn keys(name: &LockName) -> Keys {
    let writers = name.prefixed("leasehold:1:rw_writers");
    Keys { keys: Box::new([name.to_key(), readers_key(name), writers]), channel: Some(channel(name)) }
}

fn channel(name: &LockName) -> Bytes {
    name.prefixed("redisson_rwlock")
}

/// The index of native readers.
fn readers_key(name: &LockName) -> Bytes {
    name.prefixed("leasehold:1:rw_readers")
}

/// The key that expires with a reader's lease. Every native reader has a single such key, whatever its count.
fn hold_key(name: &LockName, reader: &Bytes) -> Bytes {
    name.suffixed(&format!("{}:rwlock_timeout:1", String::from_utf8_lossy(reader)))
}

/// The field of a writer.
fn writing(field: &Bytes) -> Bytes {
    [field, WRITE.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_redissons() {
        let name = LockName::new("", "stock").expect("the name is valid");
        let keys = keys(&name).keys.into_iter().chain([hold_key(&name, &"u:7".into())]).collect::<Vec<_>>();
        let expected = [
            "stock",
            "leasehold:1:rw_readers:{stock}",
            "leasehold:1:rw_writers:{stock}",
            "{stock}:u:7:rwlock_timeout:1",
        ];
        assert_eq!(keys, expected);
        let tagged = LockName::new("", "{shop}:stock").expect("the name is valid");
        assert_eq!(hold_key(&tagged, &"u:7".into()), "{shop}:stock:u:7:rwlock_timeout:1");
    }

    #[test]
    fn an_upgrade_is_the_write_halfs_alone() {
        let upgrade = Reply::Array([-8, 0, 9].map(Reply::Int).to_vec());
        assert_eq!(Write.acquired(&upgrade), Ok(Acquired::UpgradeNotSupported));
        assert!(Read.acquired(&upgrade).is_err());
        let placed = Reply::Array([4, 70, 9, 0, 0, 0].map(Reply::Int).to_vec());
        assert!(matches!(Write.acquired(&placed), Ok(Acquired::Placed { .. })));
        assert!(Read.acquired(&placed).is_err());
    }

    #[test]
    fn what_no_script_answers_is_an_error_and_no_outcome() {
        let held = |mode: &'static str, more: Vec<Reply>| {
            Reply::Array([vec![Reply::Int(1), Reply::Bulk(mode.into())], more].concat())
        };
        let whole = vec![Reply::Bulk("u:7".into()), Reply::Int(1), Reply::Int(70)];
        assert!(matches!(inspected(&held("read", whole.clone())).as_deref(), Ok([(Mode::Read, _)])));
        let other = inspected(&held("other", whole.clone()));
        assert!(matches!(&other, Err(DecodeError::OtherKind(kind)) if kind.contains("other")), "{other:?}");
        let wrong = [held("read", Vec::new()), held("read", whole[..2].to_vec())];
        for reply in wrong.into_iter().chain([Reply::Nil, Reply::Int(1), Reply::Array(Vec::new())]) {
            assert!(inspected(&reply).is_err(), "{reply:?}");
        }
    }
}
