//! JVMs with Redisson that stand in the queues of fair locks, beside clients of ours.
//!
//! A thread of a JVM is a small machine. It does to the keys what [the documents](../../../docs/redisson.md) say of Redisson's fair lock,
//! as plain commands within one step of the world, where nothing comes between them. It draws from a source of its own, so that a world
//! without JVMs is what it would be if there were none.

mod asks;
mod commands;
pub(crate) mod event;
mod holds;
mod keys;
mod notices;
pub(crate) mod plan;
mod thread;

use crate::world::World;
use bytes::Bytes;
use leasehold_core::name::LockName;
use leasehold_core::time::Instant;
use leasehold_embedded::EmbeddedLink;
use rustc_hash::FxHashMap;
use std::time::Duration;

pub(crate) use keys::FairKeys;
pub(crate) use thread::{Phase, Thread};

/// By which the holds of JVMs differ from those of clients, whose last digits are small numbers.
const PROCESS: &str = "0a0b0000-0000-4000-8000-ffff0000000";

/// A process with Redisson.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its connection for notices; nothing once it has crashed.
    link: Option<EmbeddedLink>,
    /// It does nothing until then.
    paused_until: Option<Instant>,
    /// How many milliseconds its clock is ahead of the server's.
    ahead: i64,
}

/// The JVMs of a world; most worlds have none.
#[derive(Debug, Default)]
pub(crate) struct Jvms {
    processes: Vec<Process>,
    pub(crate) threads: Vec<Thread>,
    /// The wait of a thread that waits without an end, in milliseconds.
    fair_wait: i64,
    /// How likely it is that a notice to a thread is lost,
    lose_notice: f64,
    /// and that a thread is slow.
    slow: f64,
    /// The server's memory is full, so that it refuses whatever may grow.
    pub(crate) memory_is_full: bool,
    /// Whether the last hold of each lock was a JVM's.
    last: FxHashMap<Bytes, bool>,
}

impl Jvms {
    pub(crate) const fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The thread that an entry of a queue is of.
    pub(crate) fn thread_of(&self, entry: &[u8]) -> Option<usize> {
        self.threads.iter().position(|thread| thread.entry == entry)
    }

    pub(crate) fn lives(&self, thread: usize) -> bool {
        self.processes[self.threads[thread].process].link.is_some()
    }

    /// A lock has a new holder, of a JVM or of ours. Whether the one before was of the other side.
    pub(crate) fn note_side(&mut self, lock: &Bytes, is_jvm: bool) -> bool {
        self.last.insert(lock.clone(), is_jvm) == Some(!is_jvm)
    }

    /// Whether a thread waits for a lock and would take it.
    pub(crate) fn waits(&self, thread: usize, lock: &[u8]) -> bool {
        let wish = match &self.threads[thread].phase {
            Phase::Asks(wish) => Some(wish),
            Phase::Idle | Phase::Holds(_) => None,
        };
        self.lives(thread) && wish.is_some_and(|wish| wish.lock.key() == lock)
    }

    /// The threads that have not come to an end.
    pub(crate) fn busy(&self) -> impl Iterator<Item = &Thread> {
        (0..self.threads.len())
            .filter(|thread| self.lives(*thread) && !matches!(self.threads[*thread].phase, Phase::Idle))
            .map(|thread| &self.threads[thread])
    }
}

impl World {
    /// How much longer a waiter may wait because JVMs stand in its queue: the dead of them keep their places until their deadlines, one that
    /// listens is told and given time, and one that missed its notice sleeps for as long as the lease that it has seen.
    pub(crate) fn patience_with_jvms(&self) -> Duration {
        if self.jvms.is_empty() {
            return Duration::ZERO;
        }
        let fair = self.plan.settings.fair;
        let threads = u32::try_from(self.jvms.threads.len()).unwrap_or_default();
        let locks: Vec<_> = self.plan.lock_names().collect();
        let longest = locks.iter().flat_map(|lock| self.deadlines_left(lock)).max().unwrap_or_default();
        // A copy that comes late may stand in a queue for a client that is silent, and be guarded from every JVM in front of it.
        let guarded = if self.plan.copies { fair.max_wait * threads } else { Duration::ZERO };
        longest + guarded + (fair.clock_skew + fair.grace + crate::workload::plan::LEASE) * (threads + 1)
    }

    /// How long the places in a queue last whose waiters do not live.
    fn deadlines_left(&self, lock: &LockName) -> Vec<Duration> {
        let keys = FairKeys::of(lock);
        let is_left = |entry: &Bytes| match self.jvms.thread_of(entry) {
            Some(thread) => !self.jvms.waits(thread, lock.key()),
            None => self.client_of(entry).is_none_or(|client| self.clients[client].dead),
        };
        let now = self.server.wall_millis();
        let scores =
            keys.entries(&self.server).into_iter().filter(is_left).filter_map(|entry| keys.score(&self.server, &entry));
        scores.map(|score| Duration::from_millis((score - now).max(0).unsigned_abs())).collect()
    }

    /// Whether a key is of a queue in which JVMs stand: these belong to Redisson, and last until the next command takes the dead out.
    pub(crate) fn is_queue_of_jvms(&self, key: &Bytes) -> bool {
        let names = self.plan.lock_names().map(|lock| FairKeys::of(&lock));
        let Some(keys) = names.into_iter().find(|keys| keys.queue == *key || keys.deadlines == *key) else {
            return false;
        };
        let is_left =
            |entry: &Bytes| self.jvms.thread_of(entry).is_some() || self.is_of_the_dead(entry) || self.plan.copies;
        !self.jvms.is_empty() && keys.entries(&self.server).iter().all(is_left)
    }
}
