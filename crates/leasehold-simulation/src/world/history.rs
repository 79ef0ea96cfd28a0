//! What has happened in a world: the facts that an observer sees, the doubts that faults leave behind, and the last faults.

use crate::world::World;
use crate::world::client::{Guard, Outcome};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use leasehold_embedded::RefusalEffect;
use rustc_hash::FxHashSet;
use std::any::Any;
use std::time::Duration;

/// An epoch of the server's data that no other hold has.
pub(crate) const OF_NO_EPOCH: u32 = u32::MAX;

/// Something that happens, in the instant in which it does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact<'a> {
    /// A client sends a call about a hold.
    Sent { client: usize, hold: &'a Bytes },
    /// A command of ours is about to reach the server,
    Arrives(&'a Call),
    /// and has run there.
    Executed { call: &'a Call, result: &'a Result<Reply, ServerError>, met: RefusalEffect },
    /// A copy of a call is about to reach the server.
    Copied(&'a Call),
    /// A caller has a new guard, of a hold that it has so many times. `ended` if the hold was refused before that.
    Granted { guard: usize, count: u32, handed_on: bool, ended: bool },
    /// A caller is told of the outcome of its task.
    Told { client: usize, task: usize, outcome: &'a Outcome },
    /// A command of a JVM is about to reach the queue of a lock.
    JvmArrives { lock: &'a Bytes },
    /// A thread of a JVM has a new place, behind all others,
    JvmJoined { lock: &'a Bytes, thread: usize },
    /// has given its place up,
    JvmLeft { lock: &'a Bytes, thread: usize },
    /// has taken an entry out whose deadline had passed,
    JvmTookOut { lock: &'a Bytes, thread: usize, entry: &'a Bytes },
    /// has a lock that it did not have before,
    JvmGranted { lock: &'a Bytes, thread: usize },
    /// or has unlocked it for the last time.
    JvmReleased { lock: &'a Bytes, thread: usize },
    /// So much is left of a latch.
    LatchSet { lock: &'a Bytes, left: i64 },
    /// A count of a latch was answered.
    CountedDown { call: &'a Call, reply: &'a Reply },
    /// What the server promised does not hold any more, so far.
    Voided(Promises<'a>),
    /// Holds may have been removed from the server. Their holders are told within this, and the time that a command takes.
    Removed { within: Duration },
    /// A step has ended.
    Stepped,
}

/// The promises of a server that a fault voids.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Promises<'a> {
    /// Those for the holds that exist.
    All,
    /// Those that rest on times that the server has written down.
    Timed,
    /// Those that no replica has acknowledged.
    Unacknowledged,
    OfLock(&'a Bytes),
    OfClient(usize),
    OfHold {
        id: &'a Bytes,
        lock: &'a Bytes,
    },
}

/// Somebody who sees all that happens in a world.
pub(crate) trait Observer: Any {
    fn see(&mut self, world: &mut World, fact: Fact<'_>);
}

impl World {
    /// Lets the observer see a fact.
    pub(crate) fn tell(&mut self, fact: Fact<'_>) {
        let observer = self.observer.clone();
        observer.borrow_mut().see(self, fact);
    }

    /// The promises for the holds that exist do not hold any more; those for later grants do.
    pub(crate) fn void_guarantees(&mut self) {
        self.server.data_epoch += 1;
        self.void(Promises::All);
    }

    /// Promises of the server do not hold any more.
    pub(crate) fn void(&mut self, promises: Promises<'_>) {
        let now = self.now;
        let is_voided = |guard: &Guard| match promises {
            Promises::All | Promises::Timed | Promises::Unacknowledged => false,
            Promises::OfLock(lock) => guard.name.key() == lock,
            Promises::OfClient(client) => guard.client == client,
            Promises::OfHold { id, .. } => guard.wire_id == id,
        };
        self.guards.iter_mut().filter(|guard| is_voided(guard)).for_each(|guard| guard.epoch_of_data = OF_NO_EPOCH);
        if !matches!(promises, Promises::OfClient(_) | Promises::OfHold { .. }) {
            self.doubts.broken = true;
            self.note_fault(now);
        }
        self.tell(Fact::Voided(promises));
    }
}

/// The doubts that faults leave behind: rules allow for them.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// The server has lost data or time, so that what is promised of holds is not promised of those that it had.
    pub(crate) broken: bool,
    /// Something is left to time on the server: the hold of a client that crashed, or what a fault brought back.
    pub(crate) leftovers: bool,
    /// Fencing tokens were lost with other data.
    pub(crate) lost_tokens: bool,
    /// The server's data or time was put back.
    pub(crate) restored: bool,
    /// The server has lost what tells waiters of ours from those of a JVM.
    pub(crate) forgot_processes: bool,
    /// Holds of which a call was sent whose outcome is not known.
    pub(crate) doubtful: FxHashSet<Bytes>,
    /// Holds of which a release was refused because the server did not know its script, and was not sent again.
    pub(crate) refused_releases: FxHashSet<Bytes>,
    /// Holds of which a script was refused something in its middle.
    pub(crate) half_done: FxHashSet<Bytes>,
    /// Holds of which an acquire was on its way for longer than the lease that it asks for.
    pub(crate) outlasted: FxHashSet<Bytes>,
}

/// When something last went wrong, and with whom.
#[derive(Debug, Default)]
pub(crate) struct LastFaults {
    with_all: Instant,
    with_each: Vec<Instant>,
}

impl World {
    /// Something goes wrong with the server, until this instant.
    pub(crate) fn note_fault(&mut self, until: Instant) {
        let last = &mut self.last_faults.with_all;
        *last = until.max(*last);
    }

    /// Something goes wrong with one client, or on the way from it or to it, until this instant.
    pub(crate) fn note_fault_of(&mut self, client: usize, until: Instant) {
        let each = &mut self.last_faults.with_each;
        each.resize(each.len().max(client + 1), Instant::default());
        each[client] = until.max(each[client]);
    }

    /// Until when something last went wrong that a client could be aware of.
    pub(crate) fn last_fault_of(&self, client: usize) -> Instant {
        let own = self.last_faults.with_each.get(client).copied().unwrap_or_default();
        own.max(self.last_faults.with_all)
    }

    /// Whether nothing has gone wrong for a client for so long.
    pub(crate) fn has_been_fault_free(&self, client: usize, pause: Duration) -> bool {
        self.now >= self.last_fault_of(client) + pause
    }
}
