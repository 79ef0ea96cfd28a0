//! The input and output of a session: requests, grants, calls, actions and events.

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

/// An action for the driver, which reports the result to the `handle_*` method that the action names.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver must handle every action")]
pub enum Action {
    /// Settle calls without a reply, and report to [`Session::handle_settled`](super::Session::handle_settled).
    Settle {
        /// The id for the result.
        id: CallId,
        /// A key of the slot.
        key: Bytes,
        /// Whether the calls wait for replicas.
        durable: bool,
    },
    /// Subscribe, and report to [`Session::handle_subscribed`](super::Session::handle_subscribed).
    Subscribe {
        /// The channel.
        channel: Bytes,
    },
    /// Unsubscribe, and report to [`Session::handle_unsubscribed`](super::Session::handle_unsubscribed).
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
        /// The lock's class.
        class: Arc<str>,
        /// Why.
        reason: LossReason,
        /// The name of the hold on the server.
        holder: Bytes,
        /// Its fencing token, if the kind has one.
        token: Option<u64>,
        /// How long the caller held it.
        held: Duration,
    },
    /// The server answered a renewal.
    Renewed {
        /// Number of renewed holds.
        holds: usize,
        /// The least time that any of them had left before its deadline.
        left: Duration,
        /// How long the caller has held the oldest of them.
        oldest: Duration,
    },
    /// A renewal of so many holds failed. The background retries while the leases last.
    RenewalFailed(usize, Failure),
    /// Connected to a server.
    Connected {
        /// The server's address.
        server: String,
        /// Whether the client had a connection to this server before.
        again: bool,
        /// The length of the outage that ended, if there was one.
        out_for: Option<Duration>,
    },
    /// A server is out of reach. Reported once per outage.
    OutOfReach {
        /// The server's address.
        server: String,
        /// The error message of the link.
        why: String,
        /// Number of holds on that server.
        holds: usize,
        /// The time until the first of them is lost, unless the server returns.
        first_lost_in: Option<Duration>,
    },
    /// The client dropped its connection to a server, because other servers own its slots.
    Retired {
        /// The server's address.
        server: String,
        /// The length of the outage that ended, if there was one.
        out_for: Option<Duration>,
    },
    /// A future missed its turn or its grant, because it was not polled in time.
    UnpolledTurn(LockName),
    /// A task waits for a lock that the same client holds under another owner. Reported at most once a second per lock.
    QueuesBehindOwnClient(LockName),
    /// A task has waited longer than a lease for one hold of the same client: it may wait for itself.
    WaitsForOwnClient(LockName),
    /// A request waits for a lock without a time to live, which no lease ends.
    Endless(LockName),
    /// A request waits for a semaphore that does not exist: its permits were never set, or it was deleted.
    Unset(LockName),
    /// The client granted a lock without the server, which is out of reach.
    Degraded(LockName),
    /// The server has granted a degraded hold.
    Restored(LockName),
    /// A waiter lost its place in a queue on the server, and joined the queue again at its end.
    QueuePositionLost(LockName),
    /// The heartbeat for the waiters of a lock failed.
    HeartbeatFailed(LockName, Failure),
    /// The background released, or lowered, a hold that no caller released.
    CleanedUp(LockName),
    /// A clean-up after an unknown outcome failed. The background retries.
    CleanUpFailed(LockName, Failure),
    /// A subscription failed. The background retries.
    SubscribeFailed(LockName, Failure),
}

/// A failed call of the background.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "telemetry reports all of it")]
pub struct Failure {
    /// The error message of the link.
    pub why: String,
    /// Whether an operator has to act, and the last event about the same holds or waiters did not report it.
    pub lasting: bool,
}

/// Counts of a client's open items, for tests, metrics and shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClientStats {
    /// Holds with at least one guard.
    pub held: usize,
    /// Holds without a guard that may still be on the server.
    pub cleaning_up: usize,
    /// Waiting callers, and callers with a call in flight.
    pub requests: usize,
    /// Channels with a subscription, or with a subscribe or unsubscribe command in flight.
    pub subscriptions: usize,
    /// Locks with any state in the client.
    pub locks: usize,
    /// Named owners that hold a lock or wait for it, counted per lock.
    pub owners: usize,
    /// Timers that are set.
    pub timers: usize,
}

/// The id of a request. Its future polls the request until it is ready, or abandons it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(NonZeroU64);

impl Ticket {
    pub(super) fn new(number: u64) -> Self {
        debug_assert!(number > 0, "numbers begin at 1");
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }
}

/// How long a caller waits for a busy lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no other way to wait")]
pub enum Patience {
    /// It does not wait.
    Try,
    /// Until an instant, with one last attempt then.
    Until(Instant),
    /// Without a limit.
    Forever,
}

/// The behaviour of an acquire after the server was unreachable for too long. An acquire that the server may have applied fails in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no other way to go on")]
pub enum Fallback {
    /// The acquire fails.
    #[default]
    Fail,
    /// The acquire takes the lock within this client. This excludes other tasks of the client, but no other process. After the outage the server also
    /// grants the hold, or the hold is lost.
    ///
    /// With this setting every acquire first takes the lock within the client, even while the server is reachable: while another task of the client
    /// holds the lock, a try fails and a wait continues.
    Local,
    /// The acquire returns a guard that excludes nobody.
    PassThrough,
}

/// The time for which a hold may linger, in whole milliseconds. It is compact: `session/tests.rs` limits the size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LingerTime(NonZeroU32);

impl LingerTime {
    /// Returns `None` for less than a millisecond. A third of the lease is the limit.
    pub fn new(longest: Duration) -> Option<Self> {
        NonZeroU32::new(u32::try_from(longest.as_millis()).unwrap_or(u32::MAX)).map(Self)
    }

    /// The time as a duration.
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.0.get() as u64)
    }
}

/// The owners of the scopes around a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it")]
pub struct OuterOwners(pub Vec<OwnerId>);

/// A request for a lock.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct AcquireRequest {
    /// The lock.
    pub name: LockName,
    /// Its kind.
    pub kind: Kind,
    /// Number of permits; 1 for locks.
    pub permits: u32,
    /// The class for metrics about losses.
    pub class: Arc<str>,
    /// The owner that may re-enter; `None` for an owner of its own.
    pub owner: Option<OwnerId>,
    /// The owners of the scopes around the request, without its own owner.
    pub outer: Option<Box<OuterOwners>>,
    /// The hold to re-enter, whoever owns it.
    pub reenter: Option<HoldNumber>,
    /// The lease, in whole milliseconds.
    pub lease: Duration,
    /// Whether the lease is renewed.
    pub renewed: bool,
    /// The maximum time to hold the lock.
    pub max_hold: Option<Duration>,
    /// How long to wait.
    pub patience: Patience,
    /// Whether the caller set the wait itself: then it also waits for the server in a known outage.
    pub waits_out_outage: bool,
    /// The back-off between polls of a kind without notices; `None` for [`Backoff::default`].
    pub backoff: Option<Arc<Backoff>>,
    /// The hold of the other half of a read-write lock beside which this one may be taken, whoever owns it.
    pub beside: Option<HoldNumber>,
    /// The name of the hold on the server, if the kind lets the caller choose it. Boxed, because few requests have a name.
    pub field: Option<Box<Bytes>>,
    /// What the acquire does without the server.
    pub fallback: Fallback,
    /// How long the mark of a waiting writer keeps new readers out; `None` if writers have no preference.
    pub prefer_writers: Option<Duration>,
    /// Number of replicas that must acknowledge the hold and its renewals. The condition extends to re-entries.
    pub replicas: Option<Replicas>,
    /// How long the hold may stay on the server without a guard, for the next request of the client. A third of the lease is the limit.
    pub linger: Option<LingerTime>,
}

impl AcquireRequest {
    /// A request without an owner, for a renewed lease, that waits without a limit.
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

    /// Whether the hold may linger: the request is plain and sets no `max_hold`.
    pub(super) fn may_linger(&self) -> bool {
        let is_plain = self.renewed && self.replicas.is_none() && self.field.is_none();
        self.linger.is_some() && is_plain && self.max_hold.is_none()
    }
}

/// A lock was acquired: one guard's worth of a hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Granted {
    /// The hold.
    pub hold: HoldNumber,
    /// The part of the hold that its guards read.
    pub cell: Arc<HoldCell>,
    /// The hold count including this guard.
    pub count: u32,
    /// Whether the guard requests renewals.
    pub renewed: bool,
    /// Whether the hold was transferred within the client, without a command.
    pub handed_on: bool,
}
