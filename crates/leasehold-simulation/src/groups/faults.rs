//! Which faults there are in a world of groups of a mix. How they happen is told in [`disturb`](super::disturb).

use super::event::WorldEvent;
use super::world::World;
use crate::faults::mix::FaultMix;
use crate::faults::plan::{any_length, some_time};
use crate::faults::processes::MARGIN_PPM;
use crate::world::ms;
use leasehold::embedded::{Fault, Inside};
use leasehold_core::link::{Plane, ServerError};
use std::time::Duration;

/// Plans the faults of a mix.
pub(super) fn plan(world: &mut World, mix: FaultMix, seed: u64) {
    calls(world, mix);
    insides(world, mix, seed);
    connections(world, mix);
    servers(world, mix);
    processes(world, mix);
    if mix.has(FaultMix::Data) {
        data(world);
    }
}

/// Two ends of a connection.
fn somewhere(world: &mut World) -> (usize, usize) {
    (world.rng.usize(..world.processes.len()), world.rng.usize(..world.servers.len()))
}

/// The faults of single calls.
fn calls(world: &mut World, mix: FaultMix) {
    let mut sorts = Vec::new();
    if mix.has(FaultMix::Losses) {
        sorts.extend([Fault::LoseRequest, Fault::LoseReply, Fault::Swallow, Fault::LinkDown]);
    }
    if mix.has(FaultMix::Delays) {
        sorts.extend([Fault::Hold, Fault::Hold]);
    }
    if mix.has(FaultMix::Copies) {
        sorts.push(Fault::Duplicate);
    }
    if mix.has(FaultMix::Unproven) {
        sorts.push(Fault::Refuse(ServerError::new("LOADING the data")));
    }
    for _ in 0..sorts.len() * 4 {
        let fault = sorts[world.rng.usize(..sorts.len())].clone();
        let ((process, server), at) = (somewhere(world), some_time(&mut world.rng));
        world.after(at, WorldEvent::Arm { process, server, fault });
    }
    if mix.has(FaultMix::Copies) {
        for _ in 0..world.rng.usize(..8) {
            let ((process, server), at) = (somewhere(world), some_time(&mut world.rng));
            world.after(at, WorldEvent::Copy { process, server });
        }
    }
}

/// Has scripts refused something in their middle, in one world of two. The choices are not those of the world, so that the others are what they
/// would be without this.
fn insides(world: &mut World, mix: FaultMix, seed: u64) {
    let rng = &mut fastrand::Rng::with_seed(!seed);
    if !(mix.has(FaultMix::Losses) || mix.has(FaultMix::Unproven)) || rng.bool() {
        return;
    }
    for _ in 0..rng.usize(1..8) {
        let (process, server) = (rng.usize(..world.processes.len()), rng.usize(..world.servers.len()));
        let denied = ServerError::new("ERR ACL failure in script: User app has no permissions to run a command");
        let fault = Fault::RefuseInside(Inside::Command(rng.u32(1..=12)), denied);
        world.after(some_time(rng), WorldEvent::Arm { process, server, fault });
    }
}

fn connections(world: &mut World, mix: FaultMix) {
    if mix.has(FaultMix::Losses) || mix.has(FaultMix::Delays) {
        for _ in 0..world.rng.usize(..8) {
            let ((process, server), at) = (somewhere(world), some_time(&mut world.rng));
            let plane = if world.rng.bool() { Plane::Foreground } else { Plane::Background };
            let what = match world.rng.u8(..5) {
                0 | 1 => WorldEvent::Reset { process, server, plane },
                2 => WorldEvent::ResetNotices { process, server },
                3 => WorldEvent::LoseNotices { process, server },
                _ => WorldEvent::Lag { process, server },
            };
            world.after(at, what);
        }
    }
    if mix.has(FaultMix::Outages) {
        for _ in 0..=world.rng.usize(..4) {
            let ((process, server), at) = (somewhere(world), some_time(&mut world.rng));
            let pause = world.between(ms(1), ms(2_500));
            world.after(at, WorldEvent::Unreachable { process, server, yes: true });
            world.after(at + pause, WorldEvent::Unreachable { process, server, yes: false });
        }
    }
}

fn servers(world: &mut World, mix: FaultMix) {
    if mix.has(FaultMix::Outages) {
        let (server, at) = (world.rng.usize(..world.servers.len()), some_time(&mut world.rng));
        if world.rng.bool() {
            let pause = world.between(ms(1), ms(2_000));
            world.after(at, WorldEvent::Down { server, pause });
        } else if world.servers.len() > 2 {
            world.after(at, WorldEvent::EmptyForLong { server });
        }
    }
    if mix.has(FaultMix::Unproven) && world.rng.bool() {
        let (server, at) = (world.rng.usize(..world.servers.len()), some_time(&mut world.rng));
        let pause = world.between(ms(1), ms(800));
        world.after(at, WorldEvent::MemoryFull { server, yes: true });
        world.after(at + pause, WorldEvent::MemoryFull { server, yes: false });
    }
}

fn processes(world: &mut World, mix: FaultMix) {
    let crashes = match mix {
        FaultMix::Orderly => world.rng.usize(..3),
        _ if mix.has(FaultMix::Processes) => world.rng.usize(..3),
        _ => 0,
    };
    for _ in 0..crashes {
        let (process, at) = (world.rng.usize(..world.processes.len()), some_time(&mut world.rng));
        let pause = world.between(ms(1), ms(1_500));
        world.after(at, WorldEvent::Crash { process });
        world.after(at + pause, WorldEvent::Join);
    }
    if !mix.has(FaultMix::Processes) {
        return;
    }
    for _ in 0..world.rng.usize(..4) {
        let (process, at) = (world.rng.usize(..world.processes.len()), some_time(&mut world.rng));
        let pause = any_length(&mut world.rng, ms(10_000));
        world.after(at, WorldEvent::Pause { process, pause, counts: true });
    }
    for process in 0..world.processes.len() {
        if world.rng.bool() {
            let ppm = world.rng.i64(-MARGIN_PPM..=MARGIN_PPM);
            world.after(Duration::ZERO, WorldEvent::Clock { process, ppm, jump: Duration::ZERO });
        }
        if world.rng.u8(..6) == 0 {
            let (at, jump) = (some_time(&mut world.rng), any_length(&mut world.rng, ms(3_600_000)));
            world.after(at, WorldEvent::Clock { process, ppm: 0, jump });
        }
    }
}

/// Servers lose what they have, or their clocks are stepped; clocks of processes are wrong.
fn data(world: &mut World) {
    for _ in 0..1 + world.rng.usize(..3) {
        let ((process, server), at) = (somewhere(world), some_time(&mut world.rng));
        match world.rng.u8(..7) {
            0 => world.after(at, WorldEvent::RestartEmpty { server }),
            1 => {
                let lag = any_length(&mut world.rng, ms(1_500));
                world.after(at.saturating_sub(lag), WorldEvent::Snapshot { server });
                world.after(at, WorldEvent::Failover { server });
            }
            2 => world.after(at, WorldEvent::Evict { server }),
            3 => {
                let length = i64::try_from(any_length(&mut world.rng, ms(3_600_000)).as_millis()).unwrap_or_default();
                let millis = if world.rng.bool() { length } else { -length };
                world.after(at, WorldEvent::StepServer { server, millis });
            }
            4 | 5 => {
                let pause = any_length(&mut world.rng, ms(10_000));
                world.after(at, WorldEvent::Pause { process, pause, counts: false });
            }
            _ => {
                let wrong = world.rng.i64(MARGIN_PPM + 2_000..200_000);
                let ppm = if world.rng.bool() { wrong } else { -wrong };
                world.after(at, WorldEvent::Clock { process, ppm, jump: Duration::ZERO });
            }
        }
    }
}
