//! The questions of a session to a kind of lock: the calls that it makes, and the meaning of their replies.

use super::outcome::{Acquired, Released};
use crate::call::Call;
use crate::name::{LockName, NameError, slot};
use crate::owner::{ClientId, HoldName};
use crate::reply::{DecodeError, Reply};
use crate::script::Script;
use crate::settings::Settings;
use bytes::Bytes;
use std::time::Duration;

/// A kind of lock on the wire. It has no state: everything is an argument.
pub trait KindProtocol: Sync {
    /// The name of the kind in errors and documents, such as `read-write lock`.
    fn word(&self) -> &'static str;

    /// How those who wait in one client stand to each other.
    fn wait_policy(&self) -> WaitPolicy;

    /// Whether an owner that holds may acquire once more without waiting. Of a kind that may not be re-entered, every acquire stands for
    /// itself.
    fn reenters(&self) -> bool {
        true
    }

    /// The keys of the server under `name`, and the channel on which `client` listens for releases.
    fn keys(&self, name: &LockName, client: &ClientId) -> Keys;

    /// Whether the calls about a hold need keys. Those of a kind that does not need no more than the name: key and channel follow from it.
    fn has_keys(&self) -> bool {
        true
    }

    /// Asks for the hold count `ask.count`, which only begins a hold when it is 1.
    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call;

    /// Decodes the reply to [`KindProtocol::acquire`].
    ///
    /// # Errors
    ///
    /// The reply is not what the script promises.
    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError>;

    /// Asks that the hold count `give.count` remain; 0 ends the hold, and gives up whatever place in a queue it has.
    fn release(&self, give: &ReleaseArgs<'_>) -> Call;

    /// Decodes the reply to [`KindProtocol::release`].
    ///
    /// # Errors
    ///
    /// The reply is not what the script promises.
    fn released(&self, reply: &Reply) -> Result<Released, DecodeError>;

    /// Whether other holders may shorten the time to live of the key beneath a hold's lease, so that it is raised again in time, for
    /// fixed leases too.
    fn shares_key(&self) -> bool {
        false
    }

    /// Whether others may prolong what a hold has on the server, so that a release is due even where its lease should be over.
    fn may_be_prolonged(&self) -> bool {
        false
    }

    /// Whether a hold may be handed on from one task of a client to another, without a word to the server.
    ///
    /// A kind may not whose grants each have a token of their own, whose waiters the server keeps in order, whose holds do not exclude each
    /// other, or whose releases are not announced: other clients would hardly meet the moment in which they are let in.
    fn may_be_handed_on(&self) -> bool {
        false
    }

    /// Whether a waiter asks the holder for a lock that may linger. Where it does not, the message that would say so is a notice.
    fn is_asked_for(&self) -> bool {
        false
    }

    /// Whether the lock can stay busy for a while after the end of a hold.
    fn may_be_kept(&self) -> bool {
        false
    }

    /// Whether the server knows how often a hold was entered, so that a renewal can tell that it disagrees.
    fn counts(&self) -> bool {
        true
    }

    /// The script that renews many holds of this kind in one call, answering as `lock/renew` does; `None` where holds have
    /// no lease.
    fn renewal(&self) -> Option<&'static Script>;

    /// Adds one hold to a renewal.
    fn renew(&self, into: &mut Renewal, name: &LockName, keys: &Keys, hold: &HoldKey, lease: Duration);
}

/// How the waiters for one lock in one client stand to each other, and what a grant to one means for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the session must handle each")]
pub enum WaitPolicy {
    /// One contends on the server; when it gets in, the next waits.
    Exclusive,
    /// One contends on the server; when it gets in, the next may get in beside it, and tries at once.
    Shared,
    /// Every waiter has a place of its own in a queue on the server.
    ServerQueue,
    /// There is no holder: when it opens for one, it is open for all.
    Broadcast,
}

impl WaitPolicy {
    /// Time for a contender's future to be polled after its turn begins, or after its grant. In a queue on the server a miss costs the
    /// contender its place, and executors are often some milliseconds late. So there it has half the time of the server's offer.
    pub(crate) fn turn(self, settings: &Settings) -> Duration {
        if self == Self::ServerQueue { settings.turn.max(settings.fair.offer_timeout / 2) } else { settings.turn }
    }
}

/// The keys of a lock, derived once.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "each kind builds it")]
pub struct Keys {
    /// In the order of the kind's scripts; the first is the lock's own.
    pub keys: Box<[Bytes]>,
    /// The channel of releases; `None` if waiting is by polling.
    pub channel: Option<Bytes>,
}

impl Keys {
    /// Refuses a name whose keys and channel a Redis Cluster would put into different slots, so that no script could use them together.
    /// Other keys of the name, such as records, lie in the slot of these.
    ///
    /// # Errors
    ///
    /// [`NameError::Unplaceable`].
    pub fn check_cluster(&self, name: &LockName) -> Result<(), NameError> {
        let wanted = slot(name.key());
        if self.keys.iter().chain(&self.channel).all(|key| slot(key) == wanted) {
            Ok(())
        } else {
            Err(NameError::Unplaceable { name: name.as_str().to_owned() })
        }
    }
}

/// The name of a hold on the server, and the number of its permits.
#[derive(Clone, Debug)]
pub struct HoldKey {
    name: HoldName,
    /// How many permits it takes; 1 for locks.
    pub permits: u32,
}

impl HoldKey {
    /// The hold with this name: `uuid:number`, or the caller's id, where the kind lets callers choose one.
    pub fn new(field: Bytes, permits: u32) -> Self {
        Self::named(HoldName::Chosen(Box::new(field)), permits)
    }

    pub(crate) const fn named(name: HoldName, permits: u32) -> Self {
        Self { name, permits }
    }

    /// The name.
    pub fn field(&self) -> Bytes {
        self.name.field()
    }

    pub(crate) const fn name(&self) -> &HoldName {
        &self.name
    }
}

/// A wish for a hold count.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the session builds it, and must decide on every field")]
pub struct AcquireArgs<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// Its keys.
    pub keys: &'a Keys,
    /// The hold.
    pub hold: &'a HoldKey,
    /// The hold of the same owner on the other half of a read-write lock, beside which this one may be taken.
    pub beside: Option<&'a Bytes>,
    /// The count after success, at least 1.
    pub count: u32,
    /// The lease, at least a millisecond.
    pub lease: Duration,
    /// Server time in milliseconds after which a first grant refuses itself; `Some(0)` sets no limit and asks for the time.
    pub not_after: Option<u64>,
    /// Whether the caller waits: only then may it leave a place in a queue, or a mark, on the server.
    pub waits: bool,
    /// Whether the hold had a place in the queue before, so that a new place is the loss of the old one.
    pub placed: bool,
    /// Whether waiting writers go before new readers. A reader gives way to their marks where it is set; a writer that waits leaves
    /// a mark of this length.
    pub prefer_writers: Option<Duration>,
    /// The settings of the client.
    pub settings: &'a Settings,
}

/// A wish to lower a hold count.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the session builds it, and must decide on every field")]
pub struct ReleaseArgs<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// Its keys.
    pub keys: &'a Keys,
    /// The hold.
    pub hold: &'a HoldKey,
    /// The count that shall remain.
    pub count: u32,
    /// Whether the hold was granted for certain, so that there is something to be given back even where the server has no
    /// record of it.
    pub granted: bool,
    /// For how long the lock stays busy after the end of the hold; only kinds whose [`KindProtocol::may_be_kept`] says so heed it.
    pub keep: Duration,
    /// The settings of the client.
    pub settings: &'a Settings,
}

/// A renewal of many holds that is being put together. Keys and arguments come in groups, one group for each hold.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "each kind adds to it")]
pub struct Renewal {
    /// `KEYS`.
    pub keys: Vec<Bytes>,
    /// `ARGV`.
    pub args: Vec<Bytes>,
    /// The command that publishes, for kinds whose renewal may find the last holder dead.
    pub publish: Bytes,
}

/// Milliseconds, as an argument.
pub(super) fn millis(duration: Duration) -> Bytes {
    decimal(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// A number, as an argument.
pub(super) fn decimal(number: u64) -> Bytes {
    match number {
        0 => Bytes::from_static(b"0"),
        1 => Bytes::from_static(b"1"),
        _ => Bytes::from(number.to_string()),
    }
}

/// The argument `not_after`: -1 if there is no limit and the time is not needed.
pub(super) fn limit(not_after: Option<u64>) -> Bytes {
    not_after.map_or_else(|| Bytes::from_static(b"-1"), decimal)
}
