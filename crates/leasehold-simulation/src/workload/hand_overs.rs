//! The worlds whose clients hand reentrant locks on among their tasks.

use crate::workload::family::LockFamily;
use crate::world::ms;
use leasehold_core::settings::{HandOver, Settings};

/// By which choices about hand-overs differ from all others of a seed.
const SOURCE: u64 = 0x4a4d_0f0e << 32;

/// Has the clients of half of the worlds of reentrant locks hand on, often or seldom, for a moment or for longer than a lease lasts. Says
/// whether there are to be few clients, so that each has many tasks.
///
/// The choices are not those of the world, so that every other world is what it would be without this.
pub(crate) fn choose(seed: u64, family: LockFamily, settings: &mut Settings) -> bool {
    let mut rng = fastrand::Rng::with_seed(seed ^ SOURCE);
    if family != LockFamily::Lock || rng.bool() {
        return false;
    }
    let most = [0, 1, 3, 128][rng.usize(..4)];
    let within = ms([10, 300, 3_000][rng.usize(..3)]);
    settings.hand_over = Some(HandOver { most, within });
    rng.bool()
}
