//! The faults that a random world meets, by the mix that it is of.

use crate::faults::{FaultEvent, MARGIN_PPM};
use crate::terms::{DISTURBED, FaultMix, LEASE, LockFamily, any_length, some_time};
use crate::workload::UserEvent;
use crate::world::events::{Message, WorldEvent};
use crate::world::network::{CallRates, Role};
use crate::world::parts::{CHANCES, Chance, Part};
use crate::world::{World, ms};
use std::time::Duration;

/// For how long at most the server's memory is full.
pub(crate) const MEMORY_IS_FULL: Duration = ms(800);

/// Plans the faults of a mix.
pub(crate) fn disturb(world: &mut World, mix: FaultMix, seed: u64) {
    let mut rates = CallRates::default();
    if mix != FaultMix::Orderly {
        world.plan.late = 0.25;
        world.plan.never = 0.06;
        world.plan.dropped = 0.15;
    }
    if world.rng.bool() {
        rates.delay = (ms(1), ms(8));
    }
    if mix.has(FaultMix::Losses) {
        rates.lose_request = 0.04;
        rates.lose_reply = 0.06;
        rates.swallow = 0.02;
        rates.not_sent = 0.02;
    }
    if (mix.has(FaultMix::Losses) || mix.has(FaultMix::Unproven)) && world.net.insides.bool() {
        rates.inside = 0.05;
    }
    if mix.has(FaultMix::Delays) {
        rates.spike = 0.08;
        rates.spike_of = ms([60, 400, 1_500][world.rng.usize(..3)]);
        rates.lose_notice = 0.2;
    }
    if mix.has(FaultMix::Copies) {
        rates.copy_now = 0.2;
        rates.copy_late = 0.1;
    }
    if mix.has(FaultMix::Unproven) {
        rates.unproven = 0.3;
        rates.settle_fails = 0.3;
        rates.subscribe_fails = 0.2;
        rates.refuse = 0.1;
        rates.lose_reply = 0.06;
    }
    if mix.has(FaultMix::Processes) {
        rates.worst_instant = 0.05;
    }
    world.net.rates = rates;
    leave_out_chances(world);
    connections(world, mix);
    server(world, mix);
    processes(world, mix);
    if mix.has(FaultMix::Data) && !take_overs(world) {
        data(world);
    }
    if mix == FaultMix::Unproven {
        hold_back(world, seed);
    }
    if mix == FaultMix::Data
        && world.plan.replicas.is_none()
        && matches!(world.plan.family, LockFamily::Fenced | LockFamily::FencedFair)
    {
        issue_twice(world, seed);
    }
}

/// Takes the chances of the world away that are left out. The draw is still made, and never comes true.
fn leave_out_chances(world: &mut World) {
    for name in CHANCES {
        let (plan, rates) = (&mut world.plan, &mut world.net.rates);
        let rate = match name {
            "late" => &mut plan.late,
            "never" => &mut plan.never,
            "dropped" => &mut plan.dropped,
            "spike" => &mut rates.spike,
            "lose_request" => &mut rates.lose_request,
            "lose_reply" => &mut rates.lose_reply,
            "swallow" => &mut rates.swallow,
            "not_sent" => &mut rates.not_sent,
            "refuse" => &mut rates.refuse,
            "inside" => &mut rates.inside,
            "copy_now" => &mut rates.copy_now,
            "copy_late" => &mut rates.copy_late,
            "unproven" => &mut rates.unproven,
            "settle_fails" => &mut rates.settle_fails,
            "subscribe_fails" => &mut rates.subscribe_fails,
            "lose_notice" => &mut rates.lose_notice,
            _ => &mut rates.worst_instant,
        };
        if *rate > 0.0 && world.parts.leave_out(Part::Chance(Chance(name))) {
            *rate = f64::MIN_POSITIVE;
        }
    }
}

/// Plans a fault that comes after a pause.
fn plan(world: &mut World, pause: Duration, fault: FaultEvent) {
    let is_end = fault.is_end();
    plan_as(world, pause, fault, is_end);
}

/// Plans what begins a fault, or ends one.
fn plan_as(world: &mut World, pause: Duration, what: impl Into<WorldEvent>, is_end: bool) {
    world.parts.plan_fault(world.events.next_number + 1, is_end);
    world.after(pause, what);
}

fn connections(world: &mut World, mix: FaultMix) {
    if mix.has(FaultMix::Losses) || mix.has(FaultMix::Delays) {
        for _ in 0..world.rng.usize(..6) {
            let (client, at) = (world.somebody(), some_time(&mut world.rng));
            let role = if world.net.durable && world.rng.bool() { Role::Durable } else { Role::Calls };
            let (lose, pause) = (world.rng.bool(), world.between(ms(1), ms(1_400)));
            match world.rng.u8(..4) {
                0 | 1 => plan_as(world, at, Message::Lost { client, role, lose }, false),
                2 => plan(world, at, FaultEvent::Freeze { client, role, pause }),
                _ => plan(world, at, FaultEvent::ResetNotices { client }),
            }
        }
    }
    if mix.has(FaultMix::Outages) {
        for _ in 0..=world.rng.usize(..3) {
            let (client, at) = (world.somebody(), some_time(&mut world.rng));
            let pause = world.between(ms(1), ms(2_500));
            plan(world, at, FaultEvent::Unreachable { client, yes: true });
            plan(world, at + pause, FaultEvent::Unreachable { client, yes: false });
        }
    }
}

/// The acts of the server without a loss.
fn server(world: &mut World, mix: FaultMix) {
    if mix.has(FaultMix::Outages) && world.rng.bool() {
        let at = some_time(&mut world.rng);
        plan(world, at, FaultEvent::Restart);
    }
    if mix.has(FaultMix::Outages) && world.rng.u8(..4) == 0 || mix.has(FaultMix::Processes) && world.rng.bool() {
        let at = some_time(&mut world.rng);
        plan(world, at, FaultEvent::FlushScripts);
    }
    if mix.has(FaultMix::Unproven) && world.rng.bool() {
        let at = some_time(&mut world.rng);
        let pause = world.between(ms(1), MEMORY_IS_FULL);
        plan(world, at, FaultEvent::DenyGrowth { deny: true });
        plan(world, at + pause, FaultEvent::DenyGrowth { deny: false });
    }
}

fn processes(world: &mut World, mix: FaultMix) {
    // Permits of a bare semaphore that were given to a process that died never come back: they could not be waited for.
    let leased = world.plan.family != LockFamily::Semaphore;
    let crashes = match mix {
        FaultMix::Orderly => world.rng.usize(..3),
        _ if mix.has(FaultMix::Processes) => world.rng.usize(..4),
        _ => 0,
    };
    for _ in 0..if leased { crashes } else { 0 } {
        let (client, at) = (world.somebody(), some_time(&mut world.rng));
        plan(world, at, FaultEvent::Crash { client });
        let pause = world.between(ms(1), ms(1_500));
        world.after(at + pause, UserEvent::Join);
    }
    if !mix.has(FaultMix::Processes) {
        return;
    }
    for _ in 0..world.rng.usize(..4) {
        let (client, at) = (world.somebody(), some_time(&mut world.rng));
        let pause = any_length(&mut world.rng, ms(10_000));
        plan(world, at, FaultEvent::Pause { client, pause, counts: true });
    }
    for client in 0..world.clients.len() {
        if world.rng.bool() {
            let ppm = world.rng.i64(-MARGIN_PPM..=MARGIN_PPM);
            plan(world, Duration::ZERO, FaultEvent::Clock { client, ppm, jump: Duration::ZERO });
        }
        if world.rng.u8(..6) == 0 {
            let (at, jump) = (some_time(&mut world.rng), any_length(&mut world.rng, ms(3_600_000)));
            plan(world, at, FaultEvent::Clock { client, ppm: 0, jump });
        }
    }
    if world.rng.bool() {
        let (at, millis) = (some_time(&mut world.rng), world.rng.i64(-3..=1));
        plan(world, at, FaultEvent::StepServer { millis });
    }
}

/// The replica takes over, in a world whose requests wait for it. Says whether it is one.
fn take_overs(world: &mut World) -> bool {
    let Some(mut rng) = world.plan.replicas.take() else { return false };
    for _ in 0..1 + rng.usize(..4) {
        plan(world, some_time(&mut rng), FaultEvent::TakeOver);
    }
    world.plan.replicas = Some(rng);
    true
}

/// The server loses what it has, or its clock is stepped; clocks of clients are wrong.
fn data(world: &mut World) {
    // A bare semaphore that has lost its counter has lost its capacity, which could not be put right.
    let leased = world.plan.family != LockFamily::Semaphore;
    for _ in 0..1 + world.rng.usize(..4) {
        let (client, at) = (world.somebody(), some_time(&mut world.rng));
        match world.rng.u8(..8) {
            0 if leased => plan(world, at, FaultEvent::RestartEmpty),
            1 if leased => {
                let lag = any_length(&mut world.rng, ms(1_500));
                plan(world, at.saturating_sub(lag), FaultEvent::Snapshot);
                plan(world, at, FaultEvent::Failover);
            }
            2 if leased => {
                let all = world.rng.u8(..4) == 0;
                plan(world, at, FaultEvent::Evict { all });
            }
            3 | 4 => plan(world, at, FaultEvent::ForceRelease),
            5 if leased => {
                let length = any_length(&mut world.rng, ms(3_600_000)).as_millis();
                let length = i64::try_from(length).unwrap_or_default() + 2;
                let millis = if world.rng.bool() { length } else { -length - 2 };
                plan(world, at, FaultEvent::StepServer { millis });
            }
            6 => {
                let pause = any_length(&mut world.rng, ms(10_000));
                plan(world, at, FaultEvent::Pause { client, pause, counts: false });
            }
            _ => {
                let wrong = world.rng.i64(MARGIN_PPM + 2_000..200_000);
                let ppm = if world.rng.bool() { wrong } else { -wrong };
                plan(world, at, FaultEvent::Clock { client, ppm, jump: Duration::ZERO });
            }
        }
    }
}

/// Has commands held up on their way, in three worlds of four, for less than a lease: they arrive although they were settled, as far as
/// that could be, and their senders have been answered otherwise since.
///
/// The choices are not those of the world, so that everything else in it is what it would be without this.
fn hold_back(world: &mut World, seed: u64) {
    let rng = &mut fastrand::Rng::with_seed(!seed);
    if rng.u8(..4) == 0 {
        return;
    }
    for _ in 0..1 + rng.usize(..8) {
        let (client, at) = (rng.usize(..world.clients.len()), some_time(rng));
        let pause = LEASE.mul_f64(rng.f64() * 0.8);
        plan(world, at, FaultEvent::Freeze { client, role: Role::Calls, pause });
    }
}

/// Has tokens issued twice, in three worlds of four. While the server's clock is behind the last token, the next one is greater by one, and
/// a replica that has not heard of it gives it to another. That takes a step back, a copy, a grant and a failover in this order, to which
/// worlds do not come by chance.
///
/// The choices are not those of the world, so that everything else in it is what it would be without this.
fn issue_twice(world: &mut World, seed: u64) {
    let rng = &mut fastrand::Rng::with_seed(!seed);
    if rng.u8(..4) == 0 {
        return;
    }
    // A holder must have a token before.
    let mut at = ms(rng.u64(200..800));
    // Until the end of the disturbances the clock does not come up with the last token.
    let millis = -i64::try_from(DISTURBED.as_millis()).unwrap_or_default();
    plan(world, at, FaultEvent::StepServer { millis });
    for _ in 0..5 {
        at += ms(rng.u64(..100));
        plan(world, at, FaultEvent::Snapshot);
        at += ms(rng.u64(50..600));
        plan(world, at, FaultEvent::Failover);
    }
}
