//! The settings of the state machines.

use bytes::Bytes;
use std::time::Duration;

/// The initial number of concurrent renewals if all holds of a renewal must be in one slot. It equals the size of a
/// shared renewal, so a slow network does not delay holds in separate slots.
pub const RENEWALS_BY_SLOT: usize = 100;

/// The settings of a client. The runtime validates them.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct Settings {
    /// The lease of a renewed hold. Renewal starts after a third of it.
    pub lease: Duration,
    /// A waiter's maximum sleep before it retries, whatever the holder's lease.
    pub recheck: Duration,
    /// A waiter loses its turn if its future is not polled for this long; fair locks allow more.
    pub turn: Duration,
    /// The timeout of a command.
    pub command_timeout: Duration,
    /// An acquire fails once the server has been unreachable for this long.
    pub unreachable_after: Duration,
    /// Whether a first grant carries a server time after which the server refuses it.
    pub not_after: bool,
    /// Maximum number of locks in one renewal.
    pub renew_batch: usize,
    /// The initial number of concurrent renewals. It grows while replies are fast and more renewals are due.
    pub renewals_in_flight: usize,
    /// Whether all keys of a call must be in one hash slot.
    pub cluster: bool,
    /// The command that publishes a release: `PUBLISH` or `SPUBLISH`.
    pub publish: Bytes,
    /// The settings of fair locks.
    pub fair: FairSettings,
    /// The shortest `lockWatchdogTimeout` of the JVMs that share locks. Their renewals *set* the time to live of a read
    /// lock to it.
    pub jvm_watchdog: Duration,
    /// The limits of a hand-over between tasks of this client; `None` disables hand-over.
    pub hand_over: Option<HandOver>,
}

/// The limits of a hand-over before other clients get a chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct HandOver {
    /// Maximum number of hand-overs while other clients may want the lock. 0 allows hand-over only if no other client
    /// wants the lock.
    pub most: u32,
    /// Maximum time since the arrival of the server's grant.
    pub within: Duration,
}

impl HandOver {
    /// Hands over only if no other client listened at the last release.
    pub const WITHOUT_LISTENERS: Self = Self { most: 0, within: Duration::from_millis(10) };
}

impl Default for HandOver {
    fn default() -> Self {
        Self { most: 128, within: Duration::from_millis(10) }
    }
}

/// The settings of a fair lock's queue. All processes of a fleet must use equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct FairSettings {
    /// Silence after which a process loses its places in the queue.
    pub liveness_timeout: Duration,
    /// The heartbeat interval of a waiting process; at most a quarter of the liveness timeout.
    pub heartbeat_interval: Duration,
    /// The maximum difference between a JVM's clock and the server's.
    pub clock_skew: Duration,
    /// The longest wait of any JVM: its `fairLockWaitTimeout`, and its longest `tryLock`.
    pub max_wait: Duration,
    /// Time for a live process to take a free lock that was offered to it.
    pub offer_timeout: Duration,
    /// Time for a JVM to respond to its notice, if its deadline passed during a long hold.
    pub grace: Duration,
    /// The minimum interval of walks over a queue in which JVMs wait.
    pub walk: Duration,
    /// The lifetime of unused keys on the server.
    pub idle: Duration,
}

impl FairSettings {
    /// All settings as one argument: milliseconds, in the order of the fields.
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
    /// The local safety margin of a lease: 1 % for different clock rates, plus 2 ms for the rounding of the server's
    /// clock.
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
