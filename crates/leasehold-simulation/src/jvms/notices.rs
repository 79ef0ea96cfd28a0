//! The notices to threads of JVMs, each of which listens on a channel of its own.

use crate::jvms::Phase;
use crate::jvms::keys::FairKeys;
use crate::jvms::thread::Wish;
use crate::report::stats::FaultKind;
use crate::world::subscriptions::{at_once, next_event_of};
use crate::world::{World, trace};
use bytes::Bytes;
use leasehold_core::link::{Link, LinkEvent};

impl World {
    /// A thread begins to listen, or listens no more.
    pub(super) fn jvm_listens(&mut self, thread: usize, wish: &Wish, wanted: bool) {
        let state = &self.jvms.threads[thread];
        let channel = FairKeys::of(&wish.lock).channel_of(&state.entry);
        let Some(link) = self.jvms.processes[state.process].link.as_ref().filter(|_| wish.listens) else { return };
        if wanted { at_once(link.subscribe(channel)) } else { at_once(link.unsubscribe(channel)) }
            .expect("an embedded link can subscribe");
    }

    /// Sends what was published to the threads that listen. Gives those to whom something was sent, even if it is lost on the way.
    pub(crate) fn deliver_to_jvms(&mut self) -> Vec<usize> {
        let mut told = Vec::new();
        for process in 0..self.jvms.processes.len() {
            while let Some(event) = self.jvms.processes[process].link.as_ref().and_then(next_event_of) {
                let LinkEvent::Notice { channel } = event else { continue };
                let Some(thread) = self.listener(&channel) else { continue };
                told.push(thread);
                self.jvm_hears(thread);
            }
        }
        told
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
}
