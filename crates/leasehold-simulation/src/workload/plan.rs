//! The users of a random world: how many they are, what they lock, and how patient they are.

use crate::faults::mix::FaultMix;
use crate::faults::plan::disturb;
use crate::jvms;
use crate::workload::event::UserEvent;
use crate::workload::fallbacks;
use crate::workload::family::{CAPACITY, LockFamily};
use crate::workload::hand_overs;
use crate::workload::leases::{self, Leases};
use crate::workload::least_times::{self, LeastTimes};
use crate::workload::lingering::{self, Lingering};
use crate::workload::mixture;
use crate::workload::replicas;
use crate::world::{World, ms, name, settings};
use leasehold_core::name::LockName;
use leasehold_core::owner::OwnerId;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::time::Duration;

/// The longest lease in a random world.
pub(crate) const LEASE: Duration = ms(1_200);
/// Until when a random world is disturbed.
pub(crate) const DISTURBED: Duration = ms(4_000);

/// The operations of the users of a random world.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) family: LockFamily,
    pub(crate) mix: FaultMix,
    pub(crate) settings: Settings,
    pub(crate) locks: u64,
    /// The families of all locks but the first, where they are not that of the world.
    pub(crate) others: Vec<LockFamily>,
    /// How many clients there are from the beginning.
    pub(crate) clients: usize,
    /// No user is late and nothing goes wrong, so that a fair queue is served in the order in which it came to be.
    pub(crate) orderly: bool,
    /// Nothing goes wrong but that clients crash, and that users are late or drop what they asked for.
    pub(crate) fault_free: bool,
    /// The server loses neither data nor time, and no clock is wrong beyond the margin.
    pub(crate) keeps_data: bool,
    /// A copy of a command may come late, or it cannot be proven that none does.
    pub(crate) copies: bool,
    pub(crate) owners: Vec<Vec<OwnerId>>,
    /// By which requests are chosen that go on without the server, if any do.
    pub(crate) fallbacks: Option<fastrand::Rng>,
    /// The leases that requests choose from, where there are several.
    pub(crate) leases: Option<Leases>,
    /// How locks stay busy after their release, if they do.
    pub(crate) least_times: Option<LeastTimes>,
    /// How locks linger, if they do.
    pub(crate) lingering: Option<Lingering>,
    /// By which choices requests wait for a replica, if they do.
    pub(crate) replicas: Option<fastrand::Rng>,
    /// How long a guard is kept.
    pub(crate) hold: Duration,
    /// How likely it is that a future is polled late, or never, or is dropped.
    pub(crate) late: f64,
    pub(crate) never: f64,
    pub(crate) dropped: f64,
    /// Nothing goes wrong any more, and no user begins anything.
    pub(crate) over: bool,
    /// When that began.
    pub(crate) ended: Instant,
}

impl Plan {
    pub(crate) fn lock_names(&self) -> impl Iterator<Item = LockName> + use<> {
        (0..self.locks).map(|lock| name(&format!("lock{lock}")))
    }

    /// How long a message may still be on the way when the faults end.
    pub(crate) fn under_way(&self) -> Duration {
        ms(if self.copies || self.mix.has(FaultMix::Delays) { 3_500 } else { 1_500 })
    }
}

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
    jvms::plan::choose(world, seed, &mut settings);
    let is_crowded = hand_overs::choose(seed, family, &mut settings);
    world.plan.settings = settings.clone();
    replicas::choose(world, seed);
    let clients = if is_crowded { 2 } else { 2 + world.rng.usize(..6) };
    world.plan.clients = clients;
    for _ in 0..clients {
        let client = world.add_client(settings.clone());
        let owners = (0..2).map(|_| world.clients[client].session.new_owner()).collect();
        world.plan.owners.push(owners);
    }
    world.plan.locks = 1 + world.rng.u64(..3);
    mixture::choose(world, seed);
    world.fill();
    world.close_latches();
    world.plan.hold = ms([1, 20, 200, 1_500][world.rng.usize(..4)]);
    disturb(world, mix, seed);
    fallbacks::plan(world, seed);
    leases::plan(world, seed);
    lingering::plan(world, seed);
    least_times::plan(world, seed);
    for number in (0..).take(12 + world.rng.usize(..34)) {
        let pause = DISTURBED.mul_f64(world.rng.f64() * world.rng.f64());
        let client = world.rng.usize(..clients);
        let number = world.parts.plan_operation(number);
        world.after(pause, UserEvent::Start { client, number });
    }
}

impl World {
    /// Gives the semaphores of the world their permits.
    pub(crate) fn fill(&self) {
        if self.plan.family.counts() {
            self.server.deny_growth(false);
            for lock in self.plan.lock_names() {
                self.server.command(&[b"SET", lock.key(), CAPACITY.to_string().as_bytes()]).expect("a counter");
            }
        }
    }
}
