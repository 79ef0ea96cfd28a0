//! The JVMs of a world: whether there are any, how many, and what goes wrong with them.

use crate::faults::mix::FaultMix;
use crate::faults::plan::{any_length, some_time};
use crate::jvms::event::JvmEvent;
use crate::jvms::thread::Thread;
use crate::jvms::{PROCESS, Process};
use crate::workload::family::LockFamily;
use crate::workload::plan::DISTURBED;
use crate::world::{World, ms};
use leasehold_core::settings::Settings;

/// By which choices about JVMs differ from all others of a seed. It is such that the worlds which had found something before there were
/// JVMs have none, and are what they were.
const SOURCE: u64 = 0x0a0e_dfa8 << 32;

/// The wait of a JVM's thread that waits without an end. It is `fairLockWaitTimeout`, which no other wait of a world exceeds.
const FAIR_WAIT: u64 = 2_500;

/// How many milliseconds a JVM's clock may be wrong, and a little more.
const SKEW: (i64, u64) = (80, 100);

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
