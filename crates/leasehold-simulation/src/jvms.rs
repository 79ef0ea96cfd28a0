//! JVMs with Redisson that stand in the queues of fair locks, beside clients of ours.
//!
//! A thread of a JVM is a small machine. It does to the keys what [the documents](../../../docs/redisson.md) say of Redisson's fair lock,
//! as plain commands within one step of the world, where nothing comes between them. It draws from a source of its own, so that a world
//! without JVMs is what it would be if there were none.

mod commands;
mod locks;

use crate::jvms::commands::Caller;
use crate::terms::{DISTURBED, FaultMix, LockFamily, any_length, some_time};
use crate::world::arrivals::{at_once, next_event_of};
use crate::world::draws::hash;
use crate::world::events::Act;
use crate::world::jvms::{FairKeys, Jvms, Phase, Process, Thread, Wish};
use crate::world::parts::Part;
use crate::world::stats::FaultKind;
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::link::{Link, LinkEvent};
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::time::Duration;

/// By which choices about JVMs differ from all others of a seed. It is such that the worlds which had found something before there were
/// JVMs have none, and are what they were.
const SOURCE: u64 = 0x0a0e_dfa8 << 32;

/// The wait of a JVM's thread that waits without an end. It is `fairLockWaitTimeout`, which no other wait of a world exceeds.
const FAIR_WAIT: u64 = 2_500;

/// How many milliseconds a JVM's clock may be wrong, and a little more.
const SKEW: (i64, u64) = (80, 100);

/// By which the holds of JVMs differ from those of clients, whose last digits are small numbers.
const PROCESS: &str = "0a0b0000-0000-4000-8000-ffff0000000";

/// What is about to happen to a JVM, or to a thread of one.
#[derive(Debug)]
pub(crate) enum JvmEvent {
    /// A thread acts, unless its plans have changed since.
    Act {
        thread: usize,
        epoch: u64,
    },
    /// The watchdog of a hold comes by.
    Renew {
        thread: usize,
        hold: u32,
    },
    /// The process ends. Its holds last for their leases, and its places until their deadlines.
    Crash {
        process: usize,
    },
    Pause {
        process: usize,
        pause: Duration,
    },
}

impl Act for JvmEvent {
    fn within(&self, _world: &World) -> Option<usize> {
        None
    }

    /// JVMs draw from sources of their own; what is drawn here is for the notices that they send.
    fn draws_for(&self, _world: &World, _number: u64) -> u64 {
        hash("jvm")
    }

    fn happen(self: Box<Self>, world: &mut World) {
        match *self {
            Self::Act { thread, epoch } => world.jvm_acts(thread, epoch),
            Self::Renew { thread, hold } => world.jvm_renews(thread, hold),
            Self::Crash { process } => world.jvm_crashes(process),
            Self::Pause { process, pause } => world.jvm_pauses(process, pause),
        }
    }
}

/// Puts JVMs into a third of the worlds of fair locks in which the server keeps its data. Clients are told how long JVMs wait.
///
/// The choices are not those of the world, so that everything else in it is what it would be without this. A server that loses data takes
/// Redisson's own queue apart, too, and what a JVM makes of that is no matter of ours.
pub(crate) fn choose(world: &mut World, seed: u64, settings: &mut Settings) {
    let mut rng = fastrand::Rng::with_seed(seed ^ SOURCE);
    let mix = world.plan.mix;
    let stands_beside = matches!(world.plan.family, LockFamily::Fair | LockFamily::FencedFair);
    if !stands_beside || mix.has(FaultMix::Data) || rng.u8(..3) > 0 {
        return;
    }
    settings.fair.max_wait = ms(FAIR_WAIT);
    settings.fair.clock_skew = ms(SKEW.1);
    settings.fair.grace = ms(600);
    let jvms = &mut world.jvms;
    jvms.fair_wait = i64::try_from(FAIR_WAIT).unwrap_or_default();
    jvms.lose_notice = if mix.has(FaultMix::Losses) || mix.has(FaultMix::Delays) { 0.2 } else { 0.0 };
    jvms.slow = if mix.has(FaultMix::Delays) || mix.has(FaultMix::Processes) { 0.08 } else { 0.0 };
    for process in 0..1 + rng.usize(..3) {
        let (link, ahead) = (Some(world.server.link()), rng.i64(-SKEW.0..=SKEW.0));
        jvms.processes.push(Process { link, paused_until: None, ahead });
        for thread in 0..1 + rng.usize(..3) {
            let entry = format!("{PROCESS}{process}:{}", 20 + thread).into();
            jvms.threads.push(Thread::new(process, entry, rng.fork()));
        }
    }
    begin(world, &mut rng);
}

/// Plans when the threads begin, and what goes wrong with their processes.
fn begin(world: &mut World, rng: &mut fastrand::Rng) {
    for thread in 0..world.jvms.threads.len() {
        let pause = DISTURBED.mul_f64(rng.f64() * rng.f64());
        world.plan_jvm(thread, pause);
    }
    for process in 0..world.jvms.processes.len() {
        if rng.u8(..3) == 0 {
            let at = some_time(rng);
            world.after(at, JvmEvent::Crash { process });
        }
        if world.plan.mix.has(FaultMix::Processes) && rng.bool() {
            let (at, pause) = (some_time(rng), any_length(rng, ms(4_000)));
            world.after(at, JvmEvent::Pause { process, pause });
        }
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

    /// A thread begins to listen, or listens no more.
    pub(super) fn jvm_listens(&mut self, thread: usize, wish: &Wish, wanted: bool) {
        let state = &self.jvms.threads[thread];
        let channel = FairKeys::of(&wish.lock).channel_of(&state.entry);
        let Some(link) = self.jvms.processes[state.process].link.as_ref().filter(|_| wish.listens) else { return };
        if wanted { at_once(link.subscribe(channel)) } else { at_once(link.unsubscribe(channel)) }
            .expect("an embedded link can subscribe");
    }

    /// Sends what was published to the threads that listen. Notes those to whom something was sent, even if it is lost on the way.
    pub(crate) fn deliver_to_jvms(&mut self) {
        self.jvms.told.clear();
        for process in 0..self.jvms.processes.len() {
            while let Some(event) = self.jvms.processes[process].link.as_ref().and_then(next_event_of) {
                let LinkEvent::Notice { channel } = event else { continue };
                let Some(thread) = self.listener(&channel) else { continue };
                self.jvms.told.push(thread);
                self.jvm_hears(thread);
            }
        }
    }

    /// The thread that listens on a channel.
    fn listener(&self, channel: &Bytes) -> Option<usize> {
        self.jvms.threads.iter().position(|thread| match &thread.phase {
            Phase::Asks(wish) => wish.listens && FairKeys::of(&wish.lock).channel_of(&thread.entry) == *channel,
            Phase::Idle | Phase::Holds(_) => false,
        })
    }

    /// A notice is on its way to a thread, and wakes it unless it wakes before.
    fn jvm_hears(&mut self, thread: usize) {
        if self.jvms.threads[thread].rng.f64() < self.jvms.lose_notice {
            trace!(self, "a notice to JVM thread {thread} is lost");
            return self.stats.fault(FaultKind::JvmNoticeLost);
        }
        let delay = self.jvm_delay(thread);
        if self.now + delay < self.jvms.threads[thread].next_at {
            self.plan_jvm(thread, delay);
        }
    }

    /// Whether every thread of a process is left out, so that what happens to the process changes nothing.
    fn jvm_is_left_out(&self, process: usize) -> bool {
        let threads = self.jvms.threads.iter().enumerate().filter(|(_, thread)| thread.process == process);
        threads
            .map(|(number, _)| u32::try_from(number).unwrap_or_default())
            .all(|number| self.parts.mask.has(Part::Jvm(number)))
    }

    fn jvm_crashes(&mut self, process: usize) {
        if self.jvm_is_left_out(process) {
            return;
        }
        trace!(self, "JVM {process} crashes");
        self.stats.fault(FaultKind::JvmCrash);
        self.jvms.processes[process].link = None;
        for thread in self.jvms.threads.iter_mut().filter(|thread| thread.process == process) {
            thread.phase = Phase::Idle;
        }
    }

    fn jvm_pauses(&mut self, process: usize, pause: Duration) {
        if self.jvm_is_left_out(process) || self.plan.over {
            return;
        }
        trace!(self, "JVM {process} is paused for {pause:?}");
        self.stats.fault(FaultKind::JvmPause);
        self.jvms.processes[process].paused_until = Some(self.now + pause);
    }

    /// From here on nothing goes wrong with JVMs, and all that they hold is unlocked soon.
    pub(crate) fn calm_jvms(&mut self) {
        self.jvms.lose_notice = 0.0;
        self.jvms.memory_is_full = false;
        self.jvms.processes.iter_mut().for_each(|process| process.paused_until = None);
        for thread in 0..self.jvms.threads.len() {
            let state = &mut self.jvms.threads[thread];
            match &mut state.phase {
                Phase::Idle => {}
                Phase::Asks(wish) => {
                    wish.interrupted = None;
                    let pause = state.next_at.since(self.now);
                    self.plan_jvm(thread, pause);
                }
                Phase::Holds(_) => {
                    let pause = state.between(ms(0), ms(500));
                    self.plan_jvm(thread, pause);
                }
            }
        }
    }
}
