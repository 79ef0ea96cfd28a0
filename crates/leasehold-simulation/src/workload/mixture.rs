//! Worlds whose locks are of several kinds: one session has leases of different scripts to renew, and lines and notices of different sorts.

use crate::workload::family::LockFamily;
use crate::world::World;
use leasehold_core::name::LockName;
use leasehold_core::session::AcquireRequest;
use std::time::Duration;

/// By which choices about mixtures differ from all others of a seed.
const SOURCE: u64 = 0x3175_0000 << 32;

/// The families that stand beside each other: what holds of a lock is told by its calls alone.
const MIXABLE: [LockFamily; 5] =
    [LockFamily::Lock, LockFamily::Fair, LockFamily::FencedFair, LockFamily::Fenced, LockFamily::Spin];

/// Gives other families to all locks but the first of some worlds that have several.
///
/// The choices are not those of the world, so that every other world is what it would be without this.
pub(crate) fn choose(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ SOURCE);
    // A JVM in a queue means a fair lock.
    let is_alone = world.jvms.threads.is_empty();
    if !is_alone || !MIXABLE.contains(&world.plan.family) || world.plan.locks < 2 || rng.u8(..4) > 0 {
        return;
    }
    world.plan.others = (1..world.plan.locks).map(|_| MIXABLE[rng.usize(..MIXABLE.len())]).collect();
}

impl World {
    /// The family of a lock: that of the world, unless its locks are of several.
    fn family_of(&self, lock: &LockName) -> LockFamily {
        let number =
            std::str::from_utf8(lock.key()).ok().and_then(|key| key.strip_prefix("lock")?.parse::<usize>().ok());
        let other = number.and_then(|number| self.plan.others.get(number.checked_sub(1)?));
        other.copied().unwrap_or(self.plan.family)
    }

    /// A wish for a lock of this world.
    pub(crate) fn some_wish(&mut self, lock: LockName, lease: Duration) -> AcquireRequest {
        let family = self.family_of(&lock);
        family.wish(lock, lease, &mut self.rng)
    }
}
