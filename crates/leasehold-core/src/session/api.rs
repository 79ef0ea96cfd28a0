//! The output of a session: calls, actions and events, and the ids for their outcomes.

use crate::call::{Call, CallId};
use crate::error::LossReason;
use crate::name::LockName;
use bytes::Bytes;
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
