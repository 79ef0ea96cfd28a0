//! The requests of a world that go on without the server, and the outages that are long enough for that.

use crate::faults::event::FaultEvent;
use crate::faults::mix::FaultMix;
use crate::workload::plan::DISTURBED;
use crate::world::{World, ms};
use leasehold_core::session::{AcquireRequest, Fallback};

/// By which choices about fallbacks differ from all others of a seed.
const SOURCE: u64 = 0xfa11_bacc << 32;

/// Has requests of a world fall back, in half of the worlds in which clients are cut off and whose kind of lock can be granted without the
/// server.
///
/// The choices are not those of the world, so that everything else in it is what it would be without this.
pub(crate) fn plan(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ SOURCE);
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

impl World {
    /// The same wish, which perhaps goes on without the server. One that may pass through has no owner: of two requests of one owner the guard
    /// that is read first does not tell whose fallback was granted.
    pub(crate) fn perhaps_without_the_server(&mut self, wish: AcquireRequest) -> AcquireRequest {
        let Some(rng) = self.plan.fallbacks.as_mut().filter(|_| wish.kind.supports_fallback()) else { return wish };
        match rng.u8(..8) {
            0..=3 => AcquireRequest { fallback: Fallback::Local, ..wish },
            4 => AcquireRequest { fallback: Fallback::PassThrough, owner: None, ..wish },
            _ => wish,
        }
    }
}
