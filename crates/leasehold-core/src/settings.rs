//! The settings that the state machines obey.

use bytes::Bytes;
use std::time::Duration;

/// The number of renewals in flight before a reply if a renewal may only contain holds of one slot. It is as large as a
/// shared renewal, so that a slow network does not delay holds that no command may share.
pub const RENEWALS_BY_SLOT: usize = 100;

/// The settings of a client, in the form in which the state machines use them. The runtime checks the values.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct Settings {
    /// The lease of a hold that is renewed. Renewal comes after a third of it.
    pub lease: Duration,
    /// The longest that a waiter sleeps without trying again, whatever the lease of the holder.
    pub recheck: Duration,
    /// How long a waiter whose turn it is may leave its future unpolled before the turn passes on; fair locks leave it more.
    pub turn: Duration,
    /// How long a server may take to answer a command.
    pub command_timeout: Duration,
    /// How long a server may be out of reach before acquiring fails.
    pub unreachable_after: Duration,
    /// Whether a first grant carries the server time after which it refuses itself.
    pub not_after: bool,
    /// The most locks in one renewal.
    pub renew_batch: usize,
    /// The number of renewals in flight before a reply. It grows while replies are quick and more renewals are due.
    pub renewals_in_flight: usize,
    /// Whether all keys of a call must lie in one hash slot.
    pub cluster: bool,
    /// The command that publishes a release: `PUBLISH` or `SPUBLISH`.
    pub publish: Bytes,
    /// The times of fair locks.
    pub fair: FairSettings,
    /// The shortest `lockWatchdogTimeout` of the JVMs that share locks: their renewals *set* the time to live of a read lock to it.
    pub jvm_watchdog: Duration,
    /// How far a hold is handed on among the tasks of this client, without a word to the server; `None` where it never is.
    pub hand_over: Option<HandOver>,
}

/// How far a hold is handed on among the tasks of one client before other clients are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct HandOver {
    /// Maximum number of hand-overs if other clients may want the lock. With 0, a hold is handed on only if there are none.
    pub most: u32,
    /// For how long at most, from when the server's grant was received.
    pub within: Duration,
}

impl HandOver {
    /// Hands on only if no other client listened at the last release.
    pub const WITHOUT_LISTENERS: Self = Self { most: 0, within: Duration::from_millis(10) };
}

impl Default for HandOver {
    fn default() -> Self {
        Self { most: 128, within: Duration::from_millis(10) }
    }
}

/// The times that the queue of a fair lock goes by. All processes of a fleet must be told the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct FairSettings {
    /// How long a process may be silent before its waiters lose their places.
    pub liveness_timeout: Duration,
    /// How often a process that waits says that it lives; at most a quarter of the liveness timeout.
    pub heartbeat_interval: Duration,
    /// How far the clock of a JVM may be from the server's.
    pub clock_skew: Duration,
    /// The longest wait of any JVM: its `fairLockWaitTimeout`, and its longest `tryLock`.
    pub max_wait: Duration,
    /// How long a free lock is offered to a process that lives and does not take it.
    pub offer_timeout: Duration,
    /// How long a JVM whose deadline passed during a long hold may take to come, once it is told.
    pub grace: Duration,
    /// The shortest time between two passes over a queue in which JVMs wait.
    pub walk: Duration,
    /// How long unused keys stay on the server.
    pub idle: Duration,
}

impl FairSettings {
    /// All of it as one argument: milliseconds, in the order of the fields.
    pub fn packed(&self) -> Bytes {
        let Self { liveness_timeout, heartbeat_interval, clock_skew, max_wait, offer_timeout, grace, walk, idle } =
            *self;
        let parts = [liveness_timeout, heartbeat_interval, clock_skew, max_wait, offer_timeout, grace, walk, idle];
        Bytes::from(parts.map(|part| part.as_millis().to_string()).join(","))
    }
}

impl Default for FairSettings {
    fn default() -> Self {
        Self {
            liveness_timeout: Duration::from_secs(2),
            heartbeat_interval: Duration::from_millis(500),
            clock_skew: Duration::from_secs(1),
            max_wait: Duration::from_secs(300),
            offer_timeout: Duration::from_secs(2),
            grace: Duration::from_secs(2),
            walk: Duration::from_millis(250),
            idle: Duration::from_secs(600),
        }
    }
}

impl Settings {
    /// How much earlier than the server a hold of this lease counts as ended here: a hundredth of the lease, for clock rates
    /// that differ, and 2 ms, for the rounding of the server's clock.
    pub fn margin(lease: Duration) -> Duration {
        lease / 100 + Duration::from_millis(2)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            recheck: Duration::from_secs(30),
            turn: Duration::from_millis(50),
            command_timeout: Duration::from_secs(1),
            unreachable_after: Duration::from_secs(10),
            not_after: false,
            renew_batch: 100,
            renewals_in_flight: 4,
            cluster: false,
            publish: Bytes::from_static(b"PUBLISH"),
            fair: FairSettings::default(),
            jvm_watchdog: Duration::from_secs(30),
            hand_over: None,
        }
    }
}
