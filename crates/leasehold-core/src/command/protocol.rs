//! The interface between the session and a kind of lock.

use super::outcome::{Acquired, Released};
use crate::call::{Call, whole_millis};
use crate::name::{LockName, NameError, slot};
use crate::owner::{ClientId, HoldName};
use crate::reply::{DecodeError, Reply};
use crate::script::{self, Script};
use crate::settings::Settings;
use bytes::Bytes;
use std::time::Duration;

/// The wire protocol of a kind of lock. It has no state.
pub trait KindProtocol: Sync {
    /// The name of the kind in errors and documents, such as `read-write lock`.
    fn kind_name(&self) -> &'static str;

    /// The policy for several waiters of one client.
    fn wait_policy(&self) -> WaitPolicy {
        WaitPolicy::Exclusive
    }

    /// Returns whether an owner may re-enter its hold without waiting. Otherwise all acquires are independent.
    fn reenters(&self) -> bool {
        true
    }

    /// The keys of `name` on the server, and the channel on which `client` listens for releases.
    fn keys(&self, name: &LockName, client: &ClientId) -> Keys;

    /// Returns whether calls need [`Keys`]. The other kinds derive key and channel from the name alone.
    fn has_keys(&self) -> bool {
        true
    }

    /// Requests the hold count `ask.count`. Only the count 1 can start a hold.
    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call;

    /// Decodes the reply to [`KindProtocol::acquire`].
    ///
    /// # Errors
    ///
    /// The reply does not match the script's contract.
    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        Acquired::decode(reply)
    }

    /// Lowers the hold count to `give.count`. 0 ends the hold and leaves any queue.
    fn release(&self, give: &ReleaseArgs<'_>) -> Call;

    /// Decodes the reply to [`KindProtocol::release`].
    ///
    /// # Errors
    ///
    /// The reply does not match the script's contract.
    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        Released::decode(reply)
    }

    /// Returns whether other holders may shorten the key's time to live below a hold's lease. Renewals then restore it in time, even for fixed
    /// leases.
    fn shares_key(&self) -> bool {
        false
    }

    /// Returns whether other clients may extend a hold. The session then releases the hold even after its lease.
    fn may_be_prolonged(&self) -> bool {
        false
    }

    /// Returns whether a hold may pass between tasks of a client without a command, and may linger until another client
    /// requests the lock by a message. For other kinds that message is a notice.
    ///
    /// Returns `false` for kinds with a token per grant, a server queue, shared holds, or unannounced releases. Without
    /// announcements, other clients would rarely acquire the lock.
    fn may_be_handed_on(&self) -> bool {
        false
    }

    /// Returns whether the lock can stay busy for a while after a hold.
    fn may_be_kept(&self) -> bool {
        false
    }

    /// Returns whether the server stores a hold count, so that a renewal can detect a mismatch.
    fn counts(&self) -> bool {
        true
    }

    /// The script that renews many holds of this kind in one call, with the replies of `lock/renew`; `None` for holds
    /// without a lease.
    fn renewal(&self) -> Option<&'static Script> {
        Some(&script::RENEW)
    }

    /// Adds one hold to a renewal.
    fn renew(&self, into: &mut Renewal, name: &LockName, _keys: &Keys, hold: &HoldKey, lease: Duration) {
        into.keys.push(name.to_key());
        into.args.extend([hold.field(), millis(lease)]);
    }
}

/// The policy for several waiters of one client, and the effect of a grant on the next waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the session must handle each")]
pub enum WaitPolicy {
    /// A single waiter contends on the server. After its grant, the next waiter waits for a release.
    Exclusive,
    /// A single waiter contends on the server. After its grant, the next waiter tries at once, because both may hold
    /// the lock.
    Shared,
    /// Every waiter has its own place in a queue on the server.
    ServerQueue,
    /// The lock has no holder. It opens for all waiters at once.
    Broadcast,
}

impl WaitPolicy {
    /// Maximum time until the executor polls a contender's future after its turn begins, or after its grant. A server
    /// queue drops a late contender, and executors are often some milliseconds late. A queue therefore allows half of
    /// the server's offer timeout.
    pub(crate) fn turn(self, settings: &Settings) -> Duration {
        if self == Self::ServerQueue { settings.turn.max(settings.fair.offer_timeout / 2) } else { settings.turn }
    }
}

/// The keys of a lock, derived once.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "each kind builds it")]
pub struct Keys {
    /// The keys, in the order of the kind's scripts. The first is the lock's own key.
    pub keys: Box<[Bytes]>,
    /// The channel of releases; `None` if waiting is by polling.
    pub channel: Option<Bytes>,
}

impl Keys {
    /// Rejects a name whose keys and channel have different slots in a Redis Cluster. No script could use all of them.
    /// Other keys of the name, such as records, are in the same slot.
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

/// The name of a hold on the server, and its number of permits.
#[derive(Clone, Debug)]
pub struct HoldKey {
    pub(crate) name: HoldName,
    /// Number of permits; 1 for locks.
    pub permits: u32,
}

impl HoldKey {
    /// The hold with this name: `uuid:number`, or the caller's own id if the kind allows it.
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
}

/// The arguments of an acquire.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the session builds it, and must decide on every field")]
pub struct AcquireArgs<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// The keys of the lock.
    pub keys: &'a Keys,
    /// The hold.
    pub hold: &'a HoldKey,
    /// The owner's hold on the other half of a read-write lock, if any. Both holds can coexist.
    pub beside: Option<&'a Bytes>,
    /// The hold count after success, at least 1.
    pub count: u32,
    /// The lease, at least a millisecond.
    pub lease: Duration,
    /// Server time in milliseconds after which a first grant is refused; `Some(0)` sets no limit and requests the time.
    pub not_after: Option<u64>,
    /// Whether the caller waits. Only then may the call leave a place in a queue, or a mark, on the server.
    pub waits: bool,
    /// Whether the hold had a place in the queue before. A new place then proves the loss of the old place.
    pub placed: bool,
    /// The duration of a waiting writer's mark; `None` without a preference for writers. Readers yield to marks.
    pub prefer_writers: Option<Duration>,
    /// The settings of the client.
    pub settings: &'a Settings,
}

/// The arguments of a release.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the session builds it, and must decide on every field")]
pub struct ReleaseArgs<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// The keys of the lock.
    pub keys: &'a Keys,
    /// The hold.
    pub hold: &'a HoldKey,
    /// The hold count to keep.
    pub count: u32,
    /// Whether the grant is certain. The hold is then returned even if the server has no record of it.
    pub granted: bool,
    /// Time for which the lock stays busy after the hold; ignored unless [`KindProtocol::may_be_kept`].
    pub keep: Duration,
    /// The settings of the client.
    pub settings: &'a Settings,
}

/// A renewal of many holds under construction. Each hold adds a group of keys and a group of arguments.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "each kind adds to it")]
pub struct Renewal {
    /// `KEYS`.
    pub keys: Vec<Bytes>,
    /// `ARGV`.
    pub args: Vec<Bytes>,
    /// The publish command, for kinds whose renewal may find the last holder expired.
    pub publish: Bytes,
}

/// Milliseconds, as an argument of a renewal.
pub(super) fn millis(duration: Duration) -> Bytes {
    Bytes::from(whole_millis(duration).to_string())
}
