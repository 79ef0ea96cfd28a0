//! JVMs in the queues of fair locks: neither side grants what the other believes to have, takes the other's places away before they are
//! over, or leaves the other asleep before a free lock.

use crate::jvms::{FairKeys, Phase};
use crate::report::stats::Coverage;
use crate::world::World;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;

/// The JVMs in a queue as a command of ours finds them.
#[derive(Debug)]
pub(crate) struct ForeignEntries {
    keys: FairKeys,
    held: bool,
    /// Each with its deadline.
    entries: Vec<(Bytes, i64)>,
}

impl World {
    /// A command of ours is about to reach a queue.
    pub(crate) fn note_foreign(&self, call: &Call) -> Option<ForeignEntries> {
        if self.jvms.is_empty() || !call.script().name().contains("fair/") {
            return None;
        }
        let keys = self.plan.lock_names().find(|lock| *lock.key() == call.keys()[0]).map(|lock| FairKeys::of(&lock))?;
        let held = keys.is_held(&self.server);
        let foreign = keys.entries(&self.server).into_iter().filter(|entry| self.jvms.thread_of(entry).is_some());
        let entries = foreign.filter_map(|entry| Some((entry.clone(), keys.score(&self.server, &entry)?))).collect();
        Some(ForeignEntries { keys, held, entries })
    }

    /// It has run: it has taken out no JVM but those that are overdue while the lock is free, and has told one whose turn it is.
    pub(crate) fn check_foreign(
        &mut self,
        call: &Call,
        before: Option<ForeignEntries>,
        result: &Result<Reply, ServerError>,
    ) {
        let Some(ForeignEntries { keys, held, entries }) = before else { return };
        let script = call.script().name();
        let (now, skew) = (self.server.wall_millis(), self.plan.settings.fair.clock_skew.as_millis());
        let left = keys.entries(&self.server);
        for (entry, deadline) in entries.iter().filter(|(entry, _)| !left.contains(entry)) {
            let is_overdue = *deadline <= now - i64::try_from(skew).unwrap_or_default();
            let is_free = !held || script.ends_with("release");
            assert!(
                is_overdue && is_free || result.is_err(),
                "{script} took {entry:?} of a JVM out at {now}, due {deadline}"
            );
            self.note_dead_jvm(entry);
            self.invariants.fair_order.leave_at(&keys.lock, entry);
        }
        let told = self.deliver_to_jvms();
        let code = match result {
            Ok(Reply::Int(code)) => *code,
            Ok(reply) => reply.array().ok().and_then(|parts| parts.first()?.int().ok()).unwrap_or(-1),
            Err(_) => return,
        };
        if code < 0 || keys.is_held(&self.server) {
            return;
        }
        let next = keys.head(&self.server).and_then(|head| self.jvms.thread_of(&head).map(|thread| (head, thread)));
        if let Some((head, thread)) = next
            && self.server.subscribers(&keys.channel_of(&head)) > 0
        {
            assert!(told.contains(&thread), "{script} left {head:?} of a JVM asleep before a free lock");
        }
    }

    /// A client of ours is granted a lock.
    pub(crate) fn check_grant_beside_jvms(&mut self, lock: &Bytes, id: &Bytes) {
        if self.jvms.is_empty() {
            return;
        }
        let now = self.server.wall_millis();
        let believer = (0..self.jvms.threads.len()).find(|thread| match &self.jvms.threads[*thread].phase {
            Phase::Holds(hold) => self.jvms.lives(*thread) && hold.lock.key() == lock && hold.until > now,
            Phase::Idle | Phase::Asks(_) => false,
        });
        assert_eq!(believer, None, "the server granted {lock:?} to {id:?}, and a JVM's thread believes that it has it");
        if self.jvms.note_side(lock, false) {
            self.stats.reach(Coverage::NativeAfterJvm);
        }
    }

    /// A JVM has taken a lock.
    pub(crate) fn check_grant_to_jvm(&mut self, thread: usize, keys: &FairKeys) {
        let entry = self.jvms.threads[thread].entry.clone();
        let lock = &keys.lock;
        let reached = self.invariants.fair_order.check(self, "fair/of-a-jvm", lock, &entry);
        self.stats.reach_all(reached.into_iter().flatten());
        self.invariants.exclusion.check_grant(self, "fair/of-a-jvm", lock, &entry);
        let holders = self.server.command(&[b"HLEN", lock]);
        assert_eq!(holders, Ok(Reply::Int(1)), "{lock:?} has one holder");
        self.invariants.grants.hand_over(lock.clone(), &entry, None);
        self.invariants.fair_order.leave_at(lock, &entry);
        if self.jvms.note_side(lock, true) {
            self.stats.reach(Coverage::JvmAfterNative);
        }
    }

    /// A JVM's command has taken an entry out because its deadline had passed: none of ours that lives, and is heard of in time.
    pub(crate) fn check_taken_out_by_jvm(&self, thread: usize, keys: &FairKeys, entry: &Bytes) {
        let keeps = self.invariants.fair_order.keeps_its_place(self, &keys.lock, entry);
        let by = &self.jvms.threads[thread].entry;
        assert!(!keeps, "{by:?} of a JVM took {entry:?} out of the queue of {:?}, which lives", keys.lock);
    }
}
