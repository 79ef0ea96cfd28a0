//! The events to come in a world of groups.

use leasehold::embedded::Fault;
use leasehold_core::link::Plane;
use std::time::Duration;

/// Something that is about to happen. Processes, servers and users are told by their numbers.
#[derive(Clone, Debug)]
pub(super) enum WorldEvent {
    /// A user wants a lock.
    Start {
        process: usize,
    },
    /// A user has held it for long enough.
    GiveUp {
        process: usize,
        user: usize,
    },
    /// A user that is late polls.
    Poll {
        process: usize,
        user: usize,
    },
    /// A future is dropped.
    Drop {
        process: usize,
        user: usize,
    },
    /// A fault waits for the next call between the two.
    Arm {
        process: usize,
        server: usize,
        fault: Fault,
    },
    /// A message on the way between the two arrives.
    LetGo {
        process: usize,
        server: usize,
    },
    /// A call that was sent at some time arrives once more.
    Copy {
        process: usize,
        server: usize,
    },
    Reset {
        process: usize,
        server: usize,
        plane: Plane,
    },
    ResetNotices {
        process: usize,
        server: usize,
    },
    LoseNotices {
        process: usize,
        server: usize,
    },
    Lag {
        process: usize,
        server: usize,
    },
    Unreachable {
        process: usize,
        server: usize,
        yes: bool,
    },
    /// The server stops for so long.
    Down {
        server: usize,
        pause: Duration,
    },
    /// It comes back, unless it is to be away for longer.
    Up {
        server: usize,
    },
    /// It stops, and comes back with nothing when no hold that it forgot can last any longer.
    EmptyForLong {
        server: usize,
    },
    /// It comes back with nothing at once.
    RestartEmpty {
        server: usize,
    },
    Snapshot {
        server: usize,
    },
    /// A replica takes over, and knows what there was at the last snapshot.
    Failover {
        server: usize,
    },
    StepServer {
        server: usize,
        millis: i64,
    },
    Evict {
        server: usize,
    },
    MemoryFull {
        server: usize,
        yes: bool,
    },
    Crash {
        process: usize,
    },
    Join,
    /// A process stands still; its clock goes on or not.
    Pause {
        process: usize,
        pause: Duration,
        counts: bool,
    },
    Resume {
        process: usize,
    },
    Clock {
        process: usize,
        ppm: i64,
        jump: Duration,
    },
}
