//! The worlds in which locks stay busy after their release.

use crate::report::stats::Coverage;
use crate::workload::family::LockFamily;
use crate::world::{World, ms};
use leasehold_core::command::Kind;
use leasehold_core::owner::HoldNumber;
use leasehold_core::time::Instant;
use std::time::Duration;

/// By which choices about least times differ from all others of a seed.
const SOURCE: u64 = 0x1ea5_7000 << 32;

/// The least times of a world.
#[derive(Debug)]
pub(crate) struct LeastTimes {
    rng: fastrand::Rng,
    longest: Duration,
}

/// Has some locks of a third of the worlds of their kinds stay busy for a while, which is shorter or longer than a lease.
///
/// The choices are not those of the world, so that every other world is what it would be without this.
pub(crate) fn plan(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ SOURCE);
    let can = matches!(world.plan.family, LockFamily::Lock | LockFamily::Fenced | LockFamily::Spin);
    if can && rng.u8(..3) == 0 {
        let longest = ms([30, 300, 1_800][rng.usize(..3)]);
        world.plan.least_times = Some(LeastTimes { rng, longest });
    }
}

impl World {
    /// A caller has a guard of this kind, and some ask that the lock stay busy. Gives the instant until when it does. Some names of a world are
    /// of another kind than the world's, which may have none that can stay busy.
    pub(crate) fn perhaps_keep_busy(&mut self, client: usize, hold: HoldNumber, kind: Kind) -> Option<Instant> {
        let LeastTimes { rng, longest } = self.plan.least_times.as_mut()?;
        if self.plan.over || rng.bool() || !kind.protocol().may_be_kept() {
            return None;
        }
        let least = longest.mul_f64(rng.f64());
        let until = self.local(client) + least;
        self.clients[client].session.keep_busy(hold, until);
        self.stats.reach(Coverage::LeastTime);
        // The clock of the client may be faster by as much as the margin allows, and the server reckons in milliseconds.
        Some(self.now + least.saturating_sub(least / 50 + ms(3)))
    }
}
