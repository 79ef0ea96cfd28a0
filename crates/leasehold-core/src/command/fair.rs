//! The commands of the fair lock, with and without fencing tokens.
//!
//! Every waiting hold has a place in a queue on the server. A process sends one [`heartbeat`] for all its holds.
//! Renewals use the script of the reentrant lock, because both hashes have the same layout.

use super::fenced::{token_key, with_token};
use super::holder::{Holder, Waiter};
use super::outcome::Acquired;
use super::protocol::{AcquireArgs, Keys, KindProtocol, ReleaseArgs, WaitPolicy};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script;
use crate::settings::{FairSettings, Settings};
use bytes::Bytes;
use std::time::Duration;

/// The fair lock, on the wire.
#[derive(Debug)]
pub(super) struct Fair {
    /// Each grant has a fencing token.
    pub(super) is_fenced: bool,
}

/// The result of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a state machine must handle every outcome")]
pub enum Heartbeat {
    /// The front is queued or holds the lock.
    Calm(Standing),
    /// The lock is free, and a hold of this process is next. A process that does not know the hold must release it.
    Yours {
        /// The field of the hold.
        entry: Bytes,
        /// The state of the queue.
        standing: Standing,
    },
    /// The front lost its place, and the holds behind the front may have lost theirs. All holds must acquire again, in
    /// order.
    Gone(Standing),
    /// A key holds another kind of object.
    Kind(String),
}

/// The state of the queue for a waiting process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests build it")]
pub struct Standing {
    /// The holder's remaining lease; `None` for a free lock or a lock without expiry.
    pub left: Option<Duration>,
    /// The server's time in milliseconds.
    pub time: Option<u64>,
    /// A hold of this process is next, so the process must retry when the holder's lease expires.
    pub head: bool,
    /// JVMs are queued or hold the lock. The process must also subscribe to [`front_channel`], where a JVM announces
    /// the turn of the front.
    pub foreign: bool,
}

impl KindProtocol for Fair {
    fn kind_name(&self) -> &'static str {
        if self.is_fenced { "fenced fair lock" } else { "fair lock" }
    }

    fn wait_policy(&self) -> WaitPolicy {
        WaitPolicy::ServerQueue
    }

    fn keys(&self, name: &LockName, client: &ClientId) -> Keys {
        let mut keys = keys(name);
        keys.extend(self.is_fenced.then(|| token_key(name)));
        Keys { keys: keys.into(), channel: Some(channel(name, client.to_string().as_bytes())) }
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        let script = if self.is_fenced { &script::FENCED_FAIR_ACQUIRE } else { &script::FAIR_ACQUIRE };
        let call = Call::of(script)
            .with_keys(&*ask.keys.keys)
            .hold(ask.hold)
            .number(ask.count)
            .millis(ask.lease)
            .number(ask.waits)
            .number(ask.placed)
            .limit(ask.not_after);
        announced(call, ask.name, ask.settings)
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        let acquired = Acquired::decode_one_of(reply, &[1, 2, 3, 0, 4, -1, -2, -3, -4, -7])?;
        if self.is_fenced { with_token(acquired, reply) } else { Ok(acquired) }
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        let call = Call::of(&script::FAIR_RELEASE).with_keys(&give.keys.keys[..4]).hold(give.hold).number(give.count);
        announced(call, give.name, give.settings)
    }
}

/// The channel on which a JVM announces the turn of the hold `entry`. A JVM does not know that the holds of a process
/// share a channel.
pub fn front_channel(name: &LockName, entry: &Bytes) -> Bytes {
    channel(name, entry)
}

/// Sends the heartbeat of `client`. `front` is its longest-waiting hold.
pub fn heartbeat(name: &LockName, keys: &Keys, client: &ClientId, front: Option<&Bytes>, settings: &Settings) -> Call {
    debug_assert_eq!(keys.keys[0], name.key(), "the keys are the lock's");
    let call = Call::of(&script::FAIR_BEAT).with_keys(&keys.keys[..4]);
    announced(call.arg(client.to_string()).arg(front.map(|front| &front[..]).unwrap_or_default()), name, settings)
}

/// Decodes the reply to [`heartbeat`].
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn beaten(reply: &Reply) -> Result<Heartbeat, DecodeError> {
    let standing = |lease: &Reply, time: &Reply, head: &Reply, foreign: &Reply| {
        Ok(Standing {
            left: lease.left()?,
            time: u64::try_from(time.int()?).ok(),
            head: head.int()? == 1,
            foreign: foreign.int()? == 1,
        })
    };
    match reply.array()? {
        [code, lease, time, head, foreign] => match code.int()? {
            0 => Ok(Heartbeat::Gone(standing(lease, time, head, foreign)?)),
            1 => Ok(Heartbeat::Calm(standing(lease, time, head, foreign)?)),
            _ => Err(DecodeError::new("a code of fair/beat", reply)),
        },
        [code, lease, time, head, foreign, Reply::Bulk(entry)] if code.int()? == 2 => {
            Ok(Heartbeat::Yours { entry: entry.clone(), standing: standing(lease, time, head, foreign)? })
        }
        [code, kind] if code.int()? == -4 => Ok(Heartbeat::Kind(kind.text()?.to_owned())),
        _ => Err(DecodeError::new("a reply of fair/beat", reply)),
    }
}

/// Ends the hold of `holder`. [`lock::forced`](super::lock::forced) decodes the reply.
pub fn force_release(name: &LockName, holder: &str, settings: &Settings) -> Call {
    announced(Call::of(&script::FAIR_FORCE_RELEASE).with_keys(keys(name)).arg(holder), name, settings)
}

/// Reads the holder and the waiters.
pub fn inspect(name: &LockName, settings: &FairSettings) -> Call {
    Call::of(&script::FAIR_INSPECT).with_keys(keys(name)).arg(settings.packed())
}

/// Decodes the reply to [`inspect`]: the holder, and the waiters, the next one first.
///
/// # Errors
///
/// The reply does not match the script's contract.
pub fn inspected(reply: &Reply) -> Result<(Option<Holder>, Vec<Waiter>), DecodeError> {
    let (holder, rest) = match reply.coded()? {
        (0, rest) => (None, rest),
        (1, [left, holder, count, rest @ ..]) => (Some(Holder::read(holder, count, left)?), rest),
        _ => return Err(DecodeError::new("a reply of fair/inspect", reply)),
    };
    let (waiters, odd) = rest.as_chunks::<3>();
    if !odd.is_empty() {
        return Err(DecodeError::new("three words for each waiter", reply));
    }
    Ok((holder, waiters.iter().map(Waiter::read).collect::<Result<_, _>>()?))
}

/// The settings of the queue, and the command and the channel of its notices.
fn announced(call: Call, name: &LockName, settings: &Settings) -> Call {
    call.arg(settings.fair.packed()).arg(&settings.publish).arg_of(&name.channel_parts())
}

/// Lock, queue, deadlines and marks.
fn keys(name: &LockName) -> Vec<Bytes> {
    vec![name.to_key(), name.prefixed("redisson_lock_queue"), name.prefixed("redisson_lock_timeout"), marks_key(name)]
}

/// The key of the queue's marks.
pub(super) fn marks_key(name: &LockName) -> Bytes {
    name.prefixed("leasehold:1:fair")
}

fn channel(name: &LockName, listener: &[u8]) -> Bytes {
    [&name.channel(), &b":"[..], listener].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAIR: Fair = Fair { is_fenced: false };
    const FENCED: Fair = Fair { is_fenced: true };

    use uuid::Uuid;

    fn ints(parts: &[i64]) -> Reply {
        Reply::Array(parts.iter().copied().map(Reply::Int).collect())
    }

    #[test]
    fn keys_and_channels_follow_redisson() {
        let client = ClientId::new(Uuid::from_u128(0x6f0c_0000_0000_4000_8000_0000_0000_0001));
        let name = LockName::new("", "stock").expect("a name");
        let keys = FENCED.keys(&name, &client);
        let expected: [&[u8]; 5] = [
            b"stock",
            b"redisson_lock_queue:{stock}",
            b"redisson_lock_timeout:{stock}",
            b"leasehold:1:fair:{stock}",
            b"redisson_lock_token:{stock}",
        ];
        assert!(keys.keys.iter().eq(expected), "{keys:?}");
        let channel = "redisson_lock__channel:{stock}:6f0c0000-0000-4000-8000-000000000001";
        assert_eq!(keys.channel, Some(Bytes::from(channel)));
        assert_eq!(front_channel(&name, &"6f0c:7".into()), "redisson_lock__channel:{stock}:6f0c:7");
        assert_eq!(FAIR.keys(&name, &client).keys.len(), 4);
        let tagged = LockName::new("", "{a}b").expect("a name");
        assert_eq!(FAIR.keys(&tagged, &client).keys[1], "redisson_lock_queue:{a}b");
    }

    #[test]
    fn the_settings_are_one_argument() {
        assert_eq!(FairSettings::default().packed(), "2000,500,1000,300000,2000,2000,250,600000");
    }

    #[test]
    fn a_place_and_a_withdrawal_are_understood() {
        let placed = Acquired::Placed {
            left: Some(Duration::from_millis(70)),
            time: Some(9),
            moved: true,
            head: false,
            foreign: true,
        };
        assert_eq!(FAIR.acquired(&ints(&[4, 70, 9, 1, 0, 1])), Ok(placed));
        assert_eq!(FAIR.acquired(&ints(&[-7, 0, 9])), Ok(Acquired::Withdrawn));
        assert!(FAIR.acquired(&ints(&[4, 70, 9])).is_err());
        assert!(FENCED.acquired(&ints(&[1, 70, 9])).is_err(), "a fenced grant has a token");
        assert!(FENCED.acquired(&ints(&[1, 70, 9, 5])).is_ok());
    }

    #[test]
    fn what_no_script_answers_is_an_error_and_no_outcome() {
        for reply in [Reply::Nil, Reply::Bulk("PONG".into()), ints(&[]), ints(&[9, 0, 0]), ints(&[2, 1, 1, 1, 1])] {
            assert!(beaten(&reply).is_err(), "{reply:?}");
            assert!(inspected(&reply).is_err(), "{reply:?}");
        }
        assert!(inspected(&ints(&[0, 1])).is_err(), "waiters come in threes");
    }

    #[test]
    fn an_inspection_tells_holder_and_waiters() {
        let text = |text: &str| Reply::Bulk(Bytes::copy_from_slice(text.as_bytes()));
        let reply = Reply::Array(vec![
            Reply::Int(1),
            Reply::Int(70),
            text("a:1"),
            text("2"),
            text("b:1"),
            Reply::Int(-1),
            Reply::Int(1),
        ]);
        let holder = Holder { holder: "a:1".into(), count: 2, left: Some(Duration::from_millis(70)) };
        let waiter = Waiter { waiter: "b:1".into(), age: None, alive: true };
        assert_eq!(inspected(&reply), Ok((Some(holder), vec![waiter])));
    }
}
