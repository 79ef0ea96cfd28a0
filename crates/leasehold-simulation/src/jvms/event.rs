//! What is about to happen to a JVM, or to a thread of one.

use crate::jvms::Phase;
use crate::report::mask::Part;
use crate::report::stats::FaultKind;
use crate::world::{World, ms, trace};
use std::time::Duration;

/// See the [module](self).
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

/// Lets something happen to a JVM.
pub(crate) fn apply(world: &mut World, event: JvmEvent) {
    match event {
        JvmEvent::Act { thread, epoch } => world.jvm_acts(thread, epoch),
        JvmEvent::Renew { thread, hold } => world.jvm_renews(thread, hold),
        JvmEvent::Crash { process } => world.jvm_crashes(process),
        JvmEvent::Pause { process, pause } => world.jvm_pauses(process, pause),
    }
}

impl World {
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
