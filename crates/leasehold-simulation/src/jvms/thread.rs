//! A thread of a JVM: what it is at, and when it acts next.

use crate::jvms::Jvms;
use crate::jvms::commands::Caller;
use crate::jvms::event::JvmEvent;
use crate::jvms::keys::FairKeys;
use crate::report::mask::Part;
use crate::report::stats::FaultKind;
use crate::world::{World, ms};
use bytes::Bytes;
use leasehold_core::name::LockName;
use leasehold_core::time::Instant;
use std::time::Duration;

/// A lock that a thread asks for.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) lock: LockName,
    /// The wait that it gives with its commands, in milliseconds; nothing if it tries and does not wait.
    pub(crate) wait: Option<i64>,
    /// When its patience ends,
    pub(crate) until: Option<Instant>,
    /// or when it is interrupted, which leaves its place where it is.
    pub(crate) interrupted: Option<Instant>,
    pub(crate) lease: i64,
    /// Its watchdog lengthens the lease.
    pub(crate) renewed: bool,
    /// It has asked once.
    pub(crate) has_asked: bool,
    pub(crate) listens: bool,
    /// It has had a place.
    pub(crate) placed: bool,
}

/// A lock that a thread believes to have.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) lock: LockName,
    pub(crate) lease: i64,
    pub(crate) renewed: bool,
    /// How often it still has to unlock.
    pub(crate) locked: u32,
    /// The end of the lease by the server's clock.
    pub(crate) until: i64,
    /// Tells the hold from all others of the thread.
    pub(crate) number: u32,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Idle,
    Asks(Wish),
    Holds(Hold),
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) process: usize,
    /// Its field, and its entry in queues: `uuid:thread id`.
    pub(crate) entry: Bytes,
    pub(crate) phase: Phase,
    pub(crate) rng: fastrand::Rng,
    /// How many locks it is still to ask for.
    pub(crate) left: u32,
    pub(crate) holds: u32,
    /// Tells its next act from those that were planned before and are not wanted any more.
    epoch: u64,
    pub(super) next_at: Instant,
}

impl Thread {
    pub(crate) fn new(process: usize, entry: Bytes, mut rng: fastrand::Rng) -> Self {
        let (left, next_at) = (rng.u32(1..6), Instant::from_nanos(0));
        Self { process, entry, phase: Phase::Idle, rng, left, holds: 0, epoch: 0, next_at }
    }

    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + (most - least).mul_f64(self.rng.f64())
    }
}

impl Jvms {
    /// A thread with its hands on the keys of a lock.
    pub(super) fn caller<'a>(
        &'a self,
        world: &'a World,
        thread: usize,
        keys: &'a FairKeys,
        wait: i64,
        lease: i64,
    ) -> Caller<'a> {
        let Thread { process, entry, .. } = &self.threads[thread];
        let now = world.server.wall_millis() + self.processes[*process].ahead;
        Caller { server: &world.server, keys, entry, now, wait, lease }
    }
}

impl World {
    /// A thread acts after a pause, and not as it was planned before.
    pub(super) fn plan_jvm(&mut self, thread: usize, pause: Duration) {
        let at = self.now + pause;
        let state = &mut self.jvms.threads[thread];
        state.epoch += 1;
        state.next_at = at;
        let epoch = state.epoch;
        self.at(at, JvmEvent::Act { thread, epoch });
    }

    /// How long a command of a thread, or a message to it, is on the way.
    pub(super) fn jvm_delay(&mut self, thread: usize) -> Duration {
        self.jvms.threads[thread].between(ms(1), ms(5))
    }

    /// Until when the process of a thread does nothing.
    pub(super) fn jvm_paused(&self, thread: usize) -> Option<Instant> {
        let process = &self.jvms.processes[self.jvms.threads[thread].process];
        process.paused_until.filter(|until| *until > self.now)
    }

    /// A thread does what is next.
    pub(super) fn jvm_acts(&mut self, thread: usize, epoch: u64) {
        if self.jvms.threads[thread].epoch != epoch || !self.jvms.lives(thread) {
            return;
        }
        if let Some(until) = self.jvm_paused(thread) {
            return self.at(until, JvmEvent::Act { thread, epoch });
        }
        if !self.plan.over && self.jvms.threads[thread].rng.f64() < self.jvms.slow {
            self.stats.fault(FaultKind::JvmSlow);
            let pause = self.jvms.threads[thread].between(ms(1), ms(400));
            return self.plan_jvm(thread, pause);
        }
        match std::mem::replace(&mut self.jvms.threads[thread].phase, Phase::Idle) {
            Phase::Idle => self.jvm_begins(thread),
            Phase::Asks(wish) => self.jvm_asks(thread, wish),
            Phase::Holds(hold) => self.jvm_unlocks(thread, hold),
        }
    }

    /// A thread does nothing for a while, and begins anew then.
    pub(super) fn jvm_rests(&mut self, thread: usize) {
        self.jvms.threads[thread].phase = Phase::Idle;
        let pause = self.jvms.threads[thread].between(ms(5), ms(800));
        self.plan_jvm(thread, pause);
    }

    /// Whether a thread begins nothing any more.
    pub(super) fn jvm_is_done(&mut self, thread: usize) -> bool {
        let number = u32::try_from(thread).unwrap_or_default();
        self.plan.over || self.jvms.threads[thread].left == 0 || self.parts.leave_out(Part::Jvm(number))
    }
}
