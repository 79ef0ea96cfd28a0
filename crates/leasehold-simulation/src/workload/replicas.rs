//! Worlds whose requests are durable, and whose server is replaced by its replica.

use crate::faults::event::FaultEvent;
use crate::faults::mix::FaultMix;
use crate::faults::plan::some_time;
use crate::workload::family::LockFamily;
use crate::world::replica::Replica;
use crate::world::{World, ms};
use leasehold_core::call::Replicas;
use leasehold_core::session::AcquireRequest;

/// By which choices about replicas differ from all others of a seed.
const SOURCE: u64 = 0xd07a_b1e5 << 32;

/// Gives half of the worlds in which the server would lose data a replica instead, and has all their requests wait for it.
///
/// The choices are not those of the world, so that every other world is what it would be without this.
pub(crate) fn choose(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ SOURCE);
    if !world.plan.mix.has(FaultMix::Data) || !world.plan.family.is_durable() || rng.bool() {
        return;
    }
    let content = world.server.snapshot();
    world.server.replica = Some(Replica::new(rng.fork(), content));
    world.net.durable = true;
    world.plan.replicas = Some(rng);
}

/// Plans what goes wrong with the servers of such a world. Says whether it is one.
pub(crate) fn disturb(world: &mut World) -> bool {
    let Some(mut rng) = world.plan.replicas.take() else { return false };
    for _ in 0..1 + rng.usize(..4) {
        world.after(some_time(&mut rng), FaultEvent::TakeOver);
    }
    world.plan.replicas = Some(rng);
    true
}

impl World {
    /// The same wish, which waits for the replica where there is one.
    pub(crate) fn durably(&mut self, wish: AcquireRequest) -> AcquireRequest {
        let Some(rng) = &mut self.plan.replicas else { return wish };
        let within = ms(rng.u64(1..120));
        AcquireRequest { replicas: Some(Replicas { at_least: 1, within }), ..wish }
    }
}

impl LockFamily {
    /// Whether its locks can wait for replicas.
    const fn is_durable(self) -> bool {
        !matches!(self, Self::Semaphore | Self::Permits | Self::Latch)
    }
}
