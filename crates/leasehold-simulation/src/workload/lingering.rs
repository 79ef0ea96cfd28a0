//! The worlds in which reentrant locks linger.

use crate::workload::event::UserEvent;
use crate::workload::family::LockFamily;
use crate::workload::plan::DISTURBED;
use crate::world::{World, ms};
use leasehold_core::command::Kind;
use leasehold_core::name::LockName;
use leasehold_core::session::{AcquireRequest, LingerTime};
use std::time::Duration;

/// By which choices about lingering differ from all others of a seed.
const SOURCE: u64 = 0x11e9_e400 << 32;

/// The lingering of a world.
#[derive(Debug)]
pub(crate) struct Lingering {
    rng: fastrand::Rng,
    longest: Duration,
}

/// The numbers of operations begin with this that a client does one soon after the other.
const AGAIN: u32 = 1_000;

/// Has the reentrant locks of two thirds of their worlds linger, for a moment or for as long as a lock can. In half of these a client comes
/// again and again for a while.
///
/// The choices are not those of the world, so that every other world is what it would be without this.
pub(crate) fn plan(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ SOURCE);
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
    world.plan.lingering = Some(Lingering { rng, longest });
}

impl World {
    /// The same wish for a lock that lingers, in a world in which most do.
    pub(crate) fn lingering(&mut self, wish: AcquireRequest) -> AcquireRequest {
        let Some(Lingering { rng, longest }) = &mut self.plan.lingering else { return wish };
        let lingers = wish.kind == Kind::Lock && rng.u8(..5) > 0;
        AcquireRequest { linger: LingerTime::new(*longest).filter(|_| lingers), ..wish }
    }

    /// How many holds of a client linger.
    pub(crate) fn lingering_of(&self, client: usize) -> usize {
        let of_client = self.guards.iter().filter(|guard| guard.client == client);
        of_client.filter(|guard| self.clients[client].session.lingers(guard.hold)).count()
    }

    /// The name and the field of a hold on the server that may linger, if an operator ends one of these now.
    pub(crate) fn marked_hold(&mut self) -> Option<(LockName, String)> {
        let ends_one = self.plan.lingering.as_mut()?.rng.bool();
        if !ends_one {
            return None;
        }
        self.plan.lock_names().find_map(|name| {
            let fields = self.server.command(&[b"HKEYS", name.key()]).ok()?;
            let field = fields.array().ok()?.first()?.text().ok()?.to_owned();
            field.ends_with('~').then_some((name, field))
        })
    }
}
