//! The plan of a random world: its terms, its users, and what goes wrong. All of it follows from the seed.
//!
//! A choice that draws from a source of its own leaves everything else in a world as it would be without that choice.

use crate::faults::FaultEvent;
use crate::faults::plan::disturb;
use crate::jvms;
use crate::terms::{Choices, DISTURBED, FaultMix, LEASE, LockFamily};
use crate::tickets::tickets;
use crate::workload::UserEvent;
use crate::world::server::Replica;
use crate::world::{World, ms, settings};
use leasehold_core::settings::{HandOver, Settings};

/// Plans the world of a seed.
pub(crate) fn plan(world: &mut World, seed: u64, family: LockFamily) {
    let mix = FaultMix::of_seed(seed);
    world.plan.family = family;
    world.plan.mix = mix;
    world.plan.orderly = mix == FaultMix::Orderly;
    world.plan.fault_free = matches!(mix, FaultMix::Orderly | FaultMix::Impatience);
    world.plan.keeps_data = !mix.has(FaultMix::Data);
    world.plan.copies = mix.has(FaultMix::Copies) || mix.has(FaultMix::Unproven);
    let mut settings = settings();
    settings.lease = LEASE;
    // If the server's clock may be put back by an hour, the dead keep what they had for that long.
    settings.recheck = ms(if mix.has(FaultMix::Data) { 20_000 } else { 1_000 });
    settings.command_timeout = ms(150);
    settings.unreachable_after = ms(1_500);
    settings.fair.liveness_timeout = ms(600);
    settings.fair.heartbeat_interval = ms(120);
    settings.fair.offer_timeout = ms(600);
    settings.fair.idle = ms(8_000);
    settings.renew_batch = 1 + world.rng.usize(..4);
    settings.not_after = world.rng.bool();
    settings.cluster = world.rng.u8(..4) == 0;
    jvms::choose(world, seed, &mut settings);
    let is_crowded = hand_overs(seed, family, &mut settings);
    world.plan.settings = settings.clone();
    replicas(world, seed);
    let clients = if is_crowded { 2 } else { 2 + world.rng.usize(..6) };
    world.plan.clients = clients;
    for _ in 0..clients {
        let client = world.add_client(settings.clone());
        let owners = (0..2).map(|_| world.clients[client].session.new_owner()).collect();
        world.plan.owners.push(owners);
    }
    world.plan.locks = 1 + world.rng.u64(..3);
    mixture(world, seed);
    world.fill();
    world.close_latches();
    world.plan.hold = ms([1, 20, 200, 1_500][world.rng.usize(..4)]);
    disturb(world, mix, seed);
    fallbacks(world, seed);
    leases(world, seed);
    lingering(world, seed);
    least_times(world, seed);
    tickets(world, seed);
    for number in (0..).take(12 + world.rng.usize(..34)) {
        let pause = DISTURBED.mul_f64(world.rng.f64() * world.rng.f64());
        let client = world.rng.usize(..clients);
        let number = world.parts.plan_operation(number);
        world.after(pause, UserEvent::Start { client, number });
    }
}

/// Has the clients of half of the worlds of reentrant locks hand on, often or seldom, for a moment or for longer than a lease lasts. Says
/// whether there are to be few clients, so that each has many tasks.
fn hand_overs(seed: u64, family: LockFamily, settings: &mut Settings) -> bool {
    let mut rng = fastrand::Rng::with_seed(seed ^ (0x4a4d_0f0e << 32));
    if family != LockFamily::Lock || rng.bool() {
        return false;
    }
    let most = [0, 1, 3, 128][rng.usize(..4)];
    let within = ms([10, 300, 3_000][rng.usize(..3)]);
    settings.hand_over = Some(HandOver { most, within });
    rng.bool()
}

/// Gives half of the worlds in which the server would lose data a replica instead, and has all their requests wait for it.
fn replicas(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ (0xd07a_b1e5 << 32));
    if !world.plan.mix.has(FaultMix::Data) || !world.plan.family.is_durable() || rng.bool() {
        return;
    }
    let content = world.server.snapshot();
    world.server.replica = Some(Replica::new(rng.fork(), content));
    world.net.durable = true;
    world.plan.replicas = Some(rng);
}

/// The families that stand beside each other: what holds of a lock is told by its calls alone.
const MIXABLE: [LockFamily; 5] =
    [LockFamily::Lock, LockFamily::Fair, LockFamily::FencedFair, LockFamily::Fenced, LockFamily::Spin];

/// Gives other families to all locks but the first of some worlds that have several.
fn mixture(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ (0x3175_0000 << 32));
    // A JVM in a queue means a fair lock.
    let is_alone = world.jvms.threads.is_empty();
    if !is_alone || !MIXABLE.contains(&world.plan.family) || world.plan.locks < 2 || rng.u8(..4) > 0 {
        return;
    }
    world.plan.others = (1..world.plan.locks).map(|_| MIXABLE[rng.usize(..MIXABLE.len())]).collect();
}

/// Has requests of a world fall back, in half of the worlds in which clients are cut off and whose kind of lock can be granted without the
/// server.
fn fallbacks(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ (0xfa11_bacc << 32));
    if !world.plan.family.supports_fallback() || !world.plan.mix.has(FaultMix::Outages) || rng.bool() {
        return;
    }
    let least = world.plan.settings.unreachable_after;
    for _ in 0..1 + rng.usize(..3) {
        let client = rng.usize(..world.clients.len());
        let at = DISTURBED.mul_f64(rng.f64() / 2.0);
        let pause = least + ms(rng.u64(50..2_000));
        world.after(at, FaultEvent::Unreachable { client, yes: true });
        world.after(at + pause, FaultEvent::Unreachable { client, yes: false });
    }
    world.plan.fallbacks = Some(rng);
}

/// Gives a third of all worlds two leases or three, the longest of them at most as long as in other worlds.
fn leases(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ (0x1ea5_e500 << 32));
    if rng.u8(..3) > 0 {
        return;
    }
    let shorter = rng.usize(1..3);
    let few = std::iter::once(LEASE).chain((0..shorter).map(|_| ms(rng.u64(400..1_100)))).collect();
    world.plan.leases = Some(Choices { rng, of: few });
}

/// The numbers of operations begin with this that a client does one soon after the other.
const AGAIN: u32 = 1_000;

/// Has the reentrant locks of two thirds of their worlds linger, for a moment or for as long as a lock can. In half of these a client comes
/// again and again for a while.
fn lingering(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ (0x11e9_e400 << 32));
    if world.plan.family != LockFamily::Lock || rng.u8(..3) == 0 {
        return;
    }
    let longest = ms([5, 60, 400][rng.usize(..3)]);
    if rng.bool() {
        let client = rng.usize(..world.plan.clients);
        let mut at = DISTURBED.mul_f64(rng.f64());
        for number in (AGAIN..).take(20) {
            at += longest.mul_f64(rng.f64());
            let number = world.parts.plan_operation(number);
            world.after(at, UserEvent::Start { client, number });
        }
    }
    world.plan.lingering = Some(Choices { rng, of: longest });
}

/// Has some locks of a third of the worlds of their kinds stay busy for a while, which is shorter or longer than a lease.
fn least_times(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ (0x1ea5_7000 << 32));
    let can = matches!(world.plan.family, LockFamily::Lock | LockFamily::Fenced | LockFamily::Spin);
    if can && rng.u8(..3) == 0 {
        let longest = ms([30, 300, 1_800][rng.usize(..3)]);
        world.plan.least_times = Some(Choices { rng, of: longest });
    }
}
