//! The JVMs of a world: their processes and threads, and the keys of the fair locks in whose queues they stand.

use crate::world::World;
use bytes::Bytes;
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer};
use std::time::Duration;

/// A process with Redisson.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its connection for notices; nothing once it has crashed.
    pub(crate) link: Option<EmbeddedLink>,
    /// It does nothing until then.
    pub(crate) paused_until: Option<Instant>,
    /// How many milliseconds its clock is ahead of the server's.
    pub(crate) ahead: i64,
}

/// The JVMs of a world; most worlds have none.
#[derive(Debug, Default)]
pub(crate) struct Jvms {
    pub(crate) processes: Vec<Process>,
    pub(crate) threads: Vec<Thread>,
    /// The wait of a thread that waits without an end, in milliseconds.
    pub(crate) fair_wait: i64,
    /// How likely it is that a notice to a thread is lost,
    pub(crate) lose_notice: f64,
    /// and that a thread is slow.
    pub(crate) slow: f64,
    /// The server's memory is full, so that it refuses whatever may grow.
    pub(crate) memory_is_full: bool,
    /// The threads that listened to the notices of the last command.
    pub(crate) told: Vec<usize>,
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

/// A thread of a JVM: what it is at, and when it acts next.
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
    pub(crate) epoch: u64,
    pub(crate) next_at: Instant,
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

/// The keys of a fair lock, as both sides know them, and what stands in them.
#[derive(Clone, Debug)]
pub(crate) struct FairKeys {
    pub(crate) lock: Bytes,
    pub(crate) queue: Bytes,
    pub(crate) deadlines: Bytes,
    channel: String,
}

impl FairKeys {
    pub(crate) fn of(lock: &LockName) -> Self {
        Self {
            lock: lock.to_key(),
            queue: lock.prefixed("redisson_lock_queue"),
            deadlines: lock.prefixed("redisson_lock_timeout"),
            channel: String::from_utf8_lossy(&lock.prefixed("redisson_lock__channel")).into_owned(),
        }
    }

    /// Where the waiter of an entry listens.
    pub(crate) fn channel_of(&self, entry: &Bytes) -> Bytes {
        format!("{}:{}", self.channel, String::from_utf8_lossy(entry)).into()
    }

    /// The queue, the next one first.
    pub(crate) fn entries(&self, server: &EmbeddedServer) -> Vec<Bytes> {
        texts(run(server, &[b"LRANGE", &self.queue, b"0", b"-1"]))
    }

    pub(crate) fn head(&self, server: &EmbeddedServer) -> Option<Bytes> {
        text(run(server, &[b"LINDEX", &self.queue, b"0"]))
    }

    pub(crate) fn score(&self, server: &EmbeddedServer, entry: &Bytes) -> Option<i64> {
        let score = text(run(server, &[b"ZSCORE", &self.deadlines, entry]))?;
        std::str::from_utf8(&score).ok()?.parse::<f64>().ok().map(|score| score as i64)
    }

    pub(crate) fn is_held(&self, server: &EmbeddedServer) -> bool {
        run(server, &[b"EXISTS", &self.lock]) == Reply::Int(1)
    }
}

pub(crate) fn run(server: &EmbeddedServer, words: &[&[u8]]) -> Reply {
    server.command(words).unwrap_or_else(|error| panic!("a JVM's command is refused: {error:?}"))
}

pub(crate) fn text(reply: Reply) -> Option<Bytes> {
    match reply {
        Reply::Bulk(text) => Some(text),
        _ => None,
    }
}

pub(crate) fn texts(reply: Reply) -> Vec<Bytes> {
    match reply {
        Reply::Array(parts) => parts.into_iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}

impl World {
    /// How long the places in a queue last whose waiters do not live.
    pub(crate) fn deadlines_left(&self, lock: &LockName) -> Vec<Duration> {
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
