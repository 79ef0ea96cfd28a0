//! What goes into a session and comes out: requests, grants, calls, actions and events.

use crate::backoff::Backoff;
use crate::call::{Call, CallId, Replicas};
use crate::command::Kind;
use crate::error::LossReason;
use crate::hold_cell::HoldCell;
use crate::name::LockName;
use crate::owner::{HoldNumber, OwnerId};
use crate::time::Instant;
use bytes::Bytes;
use std::num::{NonZeroU32, NonZeroU64};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// A call to send. Report its outcome to [`Session::handle_called`](super::Session::handle_called).
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a driver must know everything about a call")]
pub struct Outgoing {
    /// The id for the outcome.
    pub id: CallId,
    /// The call.
    pub call: Call,
    /// Whether the call belongs to a request, not to the background.
    pub of_request: bool,
}

/// An action that a driver must take. Every action is answered by the `handle_*` method that it names.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver must handle every action")]
pub enum Action {
    /// Settle, and answer with [`Session::handle_settled`](super::Session::handle_settled).
    Settle {
        /// The name that the answer is to carry.
        id: CallId,
        /// A key of the slot.
        key: Bytes,
        /// Whether the calls wait for replicas.
        durable: bool,
    },
    /// Subscribe, and answer with [`Session::handle_subscribed`](super::Session::handle_subscribed).
    Subscribe {
        /// The channel.
        channel: Bytes,
    },
    /// End a subscription, and answer with [`Session::handle_unsubscribed`](super::Session::handle_unsubscribed).
    Unsubscribe {
        /// The channel.
        channel: Bytes,
    },
}

/// An event that a user may want to count or to log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A hold was lost while guards of it existed.
    Lost {
        /// The lock.
        name: LockName,
        /// The class that the caller gave to the lock.
        class: Arc<str>,
        /// Why.
        reason: LossReason,
        /// The name of the hold on the server.
        holder: Bytes,
        /// Its fencing token, where the kind has one.
        token: Option<u64>,
        /// How long it was held.
        held: Duration,
    },
    /// A renewal was answered.
    Renewed {
        /// How many holds it renewed.
        holds: usize,
        /// How long before its deadline that one of them was renewed that had the least time left.
        left: Duration,
        /// How long the oldest of them has been held.
        oldest: Duration,
    },
    /// A renewal failed and will be repeated while the leases last.
    RenewalFailed {
        /// How many holds it was to renew.
        holds: usize,
        /// The words of the link.
        why: String,
        /// Whether an operator has to act, and the last event about one of these holds did not report it.
        lasting: bool,
    },
    /// Connected to a server.
    Connected {
        /// The server's address.
        server: String,
        /// Whether there was one before.
        again: bool,
        /// For how long the server was out of reach, if it was.
        out_for: Option<Duration>,
    },
    /// A server is out of reach. This is told once for each outage.
    OutOfReach {
        /// The server's address.
        server: String,
        /// The words of the link.
        why: String,
        /// How many holds are on that server.
        holds: usize,
        /// How soon the first of them is lost, unless the server comes back.
        first_lost_in: Option<Duration>,
    },
    /// No connection to the server is kept any more: others have what it had.
    Retired {
        /// The server's address.
        server: String,
        /// For how long the server was out of reach, if it was.
        out_for: Option<Duration>,
    },
    /// A future was not polled in time, and lost its turn or its grant.
    UnpolledTurn {
        /// The lock.
        name: LockName,
    },
    /// A task waits for a lock that the same client holds under another owner, as in any contention within a process. It is told of a lock
    /// once a second.
    QueuesBehindOwnClient {
        /// The lock.
        name: LockName,
    },
    /// A task has waited for longer than a lease, and all the while the same client had the lock by one hold: the task may wait for itself.
    WaitsForOwnClient {
        /// The lock.
        name: LockName,
    },
    /// A request waits for a lock that the server has without a time to live, so that no lease ends it.
    Endless {
        /// The lock.
        name: LockName,
    },
    /// A request waits for permits of a semaphore that is not there: its number was never set, or it was deleted.
    Unset {
        /// The semaphore.
        name: LockName,
    },
    /// A lock was granted without the server, which is out of reach.
    Degraded {
        /// The lock.
        name: LockName,
    },
    /// The server granted what had been granted without it.
    Restored {
        /// The lock.
        name: LockName,
    },
    /// A waiter lost its place in a queue on the server, and stands at the tail.
    QueuePositionLost {
        /// The lock.
        name: LockName,
    },
    /// The server could not be told that the waiters of a lock live.
    HeartbeatFailed {
        /// The lock.
        name: LockName,
        /// The words of the link.
        why: String,
        /// Whether an operator has to act, and the last event about these waiters did not report it.
        lasting: bool,
    },
    /// The background ended, or lowered, a hold that no caller released.
    CleanedUp {
        /// The lock.
        name: LockName,
    },
    /// The background could not yet clean up after an outcome that is not known.
    CleanUpFailed {
        /// The lock.
        name: LockName,
        /// The words of the link.
        why: String,
        /// Whether an operator has to act, and the last event about this hold did not report it.
        lasting: bool,
    },
    /// A subscription could not be made and will be tried again.
    SubscribeFailed {
        /// The lock.
        name: LockName,
        /// The words of the link.
        why: String,
        /// Whether it does not pass by itself, as an outage does.
        lasting: bool,
    },
    /// The session has found a bug of its own: an entry that must be there is not. What it was about to do for one request is left out.
    Bug {
        /// The place in the source.
        place: &'static Location<'static>,
    },
}

/// The open things of a client, for tests, metrics and shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClientStats {
    /// Holds with at least one guard.
    pub held: usize,
    /// Holds without a guard that may still be on the server.
    pub cleaning_up: usize,
    /// Callers that wait, or whose command is under way.
    pub requests: usize,
    /// Channels that are subscribed to, or about to be.
    pub subscriptions: usize,
    /// Locks that the client keeps anything about.
    pub locks: usize,
    /// Named owners that hold a lock or wait for it, once for each lock.
    pub owners: usize,
    /// Timers that are set.
    pub timers: usize,
}

// ===== What a caller asks for =====
//
// The wishes of callers, and the grants that answer them.

/// Names a request. The future that made it holds it, and either sees it done or abandons it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(NonZeroU64);

impl Ticket {
    /// The ticket of this number, which is not 0.
    pub(super) fn new(number: u64) -> Self {
        debug_assert!(number > 0, "numbers begin at 1");
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }
}

/// How long a caller waits for a lock that others hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no other way to wait")]
pub enum Patience {
    /// Not at all: busy is an answer.
    Try,
    /// Until an instant, at which one last attempt is made.
    Until(Instant),
    /// As long as it takes.
    Forever,
}

/// The behaviour of an acquire once the server has been out of reach for too long. Only an acquire that certainly was not applied falls
/// back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no other way to go on")]
pub enum Fallback {
    /// It fails.
    #[default]
    Fail,
    /// It takes the lock within this client: other tasks of the client are excluded, other processes are not. When the server is back, the
    /// guard becomes one that the server knows, or is lost. With this, every acquire takes the lock within the client first, whether the
    /// server is in reach or not: where another task of the client has it, a try ends without the lock, and a wait goes on.
    Local,
    /// It gets a guard that excludes no other.
    PassThrough,
}

/// For how long a hold may linger, in whole milliseconds. A request is part of each future, and this takes little of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LingerTime(NonZeroU32);

impl LingerTime {
    /// This long; `None` for less than a millisecond. More than a third of the lease counts as that.
    pub fn new(longest: Duration) -> Option<Self> {
        NonZeroU32::new(u32::try_from(longest.as_millis()).unwrap_or(u32::MAX)).map(Self)
    }

    /// As a duration.
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.0.get() as u64)
    }
}

/// The owners of the scopes around a request: what they do goes on when the request is over. In a box, because most requests have none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it")]
pub struct OuterOwners(pub Vec<OwnerId>);

/// A wish to hold a lock.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct AcquireRequest {
    /// The lock.
    pub name: LockName,
    /// Its kind.
    pub kind: Kind,
    /// How many permits to take; 1 for locks.
    pub permits: u32,
    /// The class under which losses of this lock are counted.
    pub class: Arc<str>,
    /// The owner that may re-enter; `None` for an owner of its own.
    pub owner: Option<OwnerId>,
    /// The owners in whose scopes the request is made, but for its own owner.
    pub outer: Option<Box<OuterOwners>>,
    /// The hold to be re-entered, by whatever owner.
    pub reenter: Option<HoldNumber>,
    /// The lease, in whole milliseconds.
    pub lease: Duration,
    /// Whether the lease is renewed.
    pub renewed: bool,
    /// The longest time for which the lock is to be held.
    pub max_hold: Option<Duration>,
    /// How long to wait.
    pub patience: Patience,
    /// Whether the caller set the wait itself: then it also waits for the server in a known outage.
    pub waits_out_outage: bool,
    /// How to poll, where the kind has no notices; as [`Backoff::default`] says where it is `None`.
    pub backoff: Option<Arc<Backoff>>,
    /// The hold of the other half of a read-write lock beside which this one may be taken, by whatever owner.
    pub beside: Option<HoldNumber>,
    /// The name of the hold on the server, where the kind lets the caller choose it.
    pub field: Option<Bytes>,
    /// The fallback without the server.
    pub fallback: Fallback,
    /// Whether waiting writers keep new readers out, and for how long a mark of such a writer counts.
    pub prefer_writers: Option<Duration>,
    /// The replicas that must acknowledge the hold, and its renewals. A re-entry of a hold that has such a condition is under it as well.
    pub replicas: Option<Replicas>,
    /// For how long the hold may stay on the server without a guard, for the next request of the client; a third of the lease at the most.
    pub linger: Option<LingerTime>,
}

impl AcquireRequest {
    /// Whether the request allows the hold to linger: it is a plain request without a time limit for the hold.
    pub(super) fn may_linger(&self) -> bool {
        let is_plain = self.renewed && self.replicas.is_none() && self.field.is_none();
        self.linger.is_some() && is_plain && self.max_hold.is_none()
    }

    /// A wish without an owner, for a lease that is renewed, as long as it takes.
    pub fn new(name: LockName, kind: Kind, lease: Duration) -> Self {
        Self {
            name,
            kind,
            permits: 1,
            class: Arc::default(),
            owner: None,
            outer: None,
            reenter: None,
            lease,
            renewed: true,
            max_hold: None,
            patience: Patience::Forever,
            waits_out_outage: false,
            backoff: None,
            beside: None,
            field: None,
            fallback: Fallback::Fail,
            prefer_writers: None,
            replicas: None,
            linger: None,
        }
    }
}

/// A lock was acquired: one guard's worth of a hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Granted {
    /// The hold.
    pub hold: HoldNumber,
    /// The part of it that its guards know.
    pub cell: Arc<HoldCell>,
    /// The hold count that this guard raised it to.
    pub count: u32,
    /// Whether the guard wants the hold to be renewed.
    pub renewed: bool,
    /// Whether the server was not asked: another task of this client handed the hold on, or it lingered.
    pub handed_on: bool,
}
