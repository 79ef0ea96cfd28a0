//! The leases of a world: in most worlds all renewed ones are alike, and in some there are a few of different lengths.

use crate::workload::plan::LEASE;
use crate::world::{World, ms};
use leasehold_core::session::AcquireRequest;
use std::time::Duration;

/// By which choices about leases differ from all others of a seed.
const SOURCE: u64 = 0x1ea5_e500 << 32;

/// The leases of a world that has several.
#[derive(Debug)]
pub(crate) struct Leases {
    rng: fastrand::Rng,
    few: Vec<Duration>,
}

/// Gives a third of all worlds two leases or three, the longest of them at most as long as in other worlds.
///
/// The choices are not those of the world, so that everything else in it is what it would be without this.
pub(crate) fn plan(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ SOURCE);
    if rng.u8(..3) > 0 {
        return;
    }
    let shorter = rng.usize(1..3);
    let few = std::iter::once(LEASE).chain((0..shorter).map(|_| ms(rng.u64(400..1_100)))).collect();
    world.plan.leases = Some(Leases { rng, few });
}

impl World {
    /// The same wish with one of the leases of the world: mostly the one that its client prefers.
    pub(crate) fn with_some_lease(&mut self, client: usize, wish: AcquireRequest) -> AcquireRequest {
        let Some(Leases { rng, few }) = &mut self.plan.leases else { return wish };
        if !wish.renewed {
            return wish;
        }
        let chosen = if rng.bool() { client % few.len() } else { rng.usize(..few.len()) };
        AcquireRequest { lease: few[chosen], ..wish }
    }
}
