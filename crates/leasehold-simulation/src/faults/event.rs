//! The faults that come at a time of their own, and what each does.

use crate::report::stats::FaultKind;
use crate::world::World;
use crate::world::network::Role;
use std::time::Duration;

/// A fault that is about to happen.
#[derive(Debug)]
pub(crate) enum FaultEvent {
    Reset {
        client: usize,
        role: Role,
        lose: bool,
    },
    ResetNotices {
        client: usize,
    },
    Freeze {
        client: usize,
        role: Role,
        pause: Duration,
    },
    Unreachable {
        client: usize,
        yes: bool,
    },
    RestartEmpty,
    DenyGrowth {
        deny: bool,
    },
    /// The process of a client ends, whatever it is doing.
    Crash {
        client: usize,
    },
    /// A new process begins.
    Join,
    /// A client does nothing at all for a while.
    Pause {
        client: usize,
        pause: Duration,
        /// Its clock goes on meanwhile.
        counts: bool,
    },
    Resume {
        client: usize,
    },
    /// From now on the clock of a client is too fast by so many millionths; and it jumps.
    Clock {
        client: usize,
        ppm: i64,
        jump: Duration,
    },
    /// The server's clock is stepped.
    StepServer {
        millis: i64,
    },
    /// The server restarts and has its data.
    Restart,
    /// A replica will have heard of the server's present content.
    Snapshot,
    /// That replica takes over.
    Failover,
    /// The replica takes over on whose acknowledgements the clients rely.
    TakeOver,
    /// A key that has a time to live goes away, or any key.
    Evict {
        all: bool,
    },
    /// An operator ends the hold of another.
    ForceRelease,
    FlushScripts,
}

/// Lets a fault happen.
pub(crate) fn apply(world: &mut World, fault: FaultEvent) {
    match fault {
        FaultEvent::Reset { client, role, lose } => world.lose_connection(client, role, lose),
        FaultEvent::ResetNotices { client } => world.lose_notice_connection(client),
        FaultEvent::Freeze { client, role, pause } => {
            world.stats.fault(FaultKind::Freeze);
            world.freeze(client, role, pause);
        }
        FaultEvent::Unreachable { client, yes } => world.set_unreachable(client, yes),
        FaultEvent::RestartEmpty => world.restart_empty(),
        FaultEvent::DenyGrowth { deny } => world.deny_growth(deny),
        FaultEvent::Crash { client } => world.crash(client),
        FaultEvent::Join => world.join(),
        FaultEvent::Pause { client, pause, counts } => world.pause(client, pause, counts),
        FaultEvent::Resume { client } => world.resume(client),
        FaultEvent::Clock { client, ppm, jump } => world.change_clock(client, ppm, jump),
        FaultEvent::StepServer { millis } => world.step_server(millis),
        FaultEvent::Restart => world.restart(),
        FaultEvent::Snapshot => world.take_snapshot(),
        FaultEvent::Failover => world.fail_over(),
        FaultEvent::TakeOver => world.take_over(),
        FaultEvent::Evict { all } => world.evict(all),
        FaultEvent::ForceRelease => world.force_release(),
        FaultEvent::FlushScripts => world.flush_scripts(),
    }
}
