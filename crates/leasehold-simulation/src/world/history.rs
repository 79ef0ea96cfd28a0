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

/// A fact of a world. The observer sees it before anything else happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact<'a> {
    /// A client sends a call about a hold.
    Sent { client: usize, hold: &'a Bytes },
    /// A call of a client is about to run on the server.
    Arrives(&'a Call),
    /// A call of a client has run on the server. `met` tells how far a refused script came.
    Executed { call: &'a Call, result: &'a Result<Reply, ServerError>, met: RefusalEffect },
    /// A late copy of a call is about to run on the server.
    Copied(&'a Call),
    /// A caller has a new guard of a hold with this count. `ended` if the hold ended before the caller read the grant.
    Granted { guard: usize, count: u32, handed_on: bool, ended: bool },
    /// A caller learns the outcome of its task.
    Told { client: usize, task: usize, outcome: &'a Outcome },
    /// A command of a JVM is about to reach the queue of a lock.
    JvmArrives { lock: &'a Bytes },
    /// A thread of a JVM joined the end of a queue.
    JvmJoined { lock: &'a Bytes, thread: usize },
    /// A thread of a JVM left the queue.
    JvmLeft { lock: &'a Bytes, thread: usize },
    /// A command of a JVM removed an overdue entry from the queue.
    JvmTookOut { lock: &'a Bytes, thread: usize, entry: &'a Bytes },
    /// A thread of a JVM acquired a lock.
    JvmGranted { lock: &'a Bytes, thread: usize },
    /// A thread of a JVM released a lock.
    JvmReleased { lock: &'a Bytes, thread: usize },
    /// A user set or opened a latch.
    LatchSet { lock: &'a Bytes, left: i64 },
    /// The server counted a latch down.
    CountedDown { call: &'a Call, reply: &'a Reply },
    /// A fault voided promises of the server.
    Voided(Promises<'a>),
    /// The server may have lost holds. Their holders must learn it within this time plus one command.
    Removed { within: Duration },
    /// A step of the world ended.
    Stepped,
}

/// The promises that a fault voids.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Promises<'a> {
    /// Promises about all present holds.
    All,
    /// Promises that rest on times in the data of the server.
    Timed,
    /// Promises that no replica acknowledged.
    Unacknowledged,
    OfLock(&'a Bytes),
    OfClient(usize),
    OfHold {
        id: &'a Bytes,
        lock: &'a Bytes,
    },
}

/// The observer of a world.
pub(crate) trait Observer: Any {
    fn see(&mut self, world: &mut World, fact: Fact<'_>);
}

impl World {
    /// Shows a fact to the observer.
    pub(crate) fn tell(&mut self, fact: Fact<'_>) {
        let observer = self.observer.clone();
        observer.borrow_mut().see(self, fact);
    }

    /// Voids the promises about all present holds. Promises about later grants stay.
    pub(crate) fn void_guarantees(&mut self) {
        self.server.data_epoch += 1;
        self.void(Promises::All);
    }

    /// Voids promises of the server.
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
    /// Holds of which a release was refused, and of which a copy may have been carried out.
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
