//! A thread of a JVM that has a lock: its watchdog lengthens the lease, and it unlocks as often as it has locked.

use crate::jvms::commands::{Asked, Unlocked};
use crate::jvms::event::JvmEvent;
use crate::jvms::keys::FairKeys;
use crate::jvms::thread::{Hold, Phase, Wish};
use crate::report::stats::Coverage;
use crate::world::{World, ms, trace};
use bytes::Bytes;
use std::time::Duration;

impl World {
    /// A thread has the lock; `is_new` if it did not have it before.
    pub(super) fn jvm_is_granted(&mut self, thread: usize, wish: &Wish, is_new: bool) {
        let keys = FairKeys::of(&wish.lock);
        if is_new {
            self.check_grant_to_jvm(thread, &keys);
        }
        self.jvm_listens(thread, wish, false);
        let until = self.server.wall_millis() + wish.lease;
        let over = self.plan.over;
        let held = self.plan.hold * 2;
        let state = &mut self.jvms.threads[thread];
        state.holds += 1;
        let most = if over { held.min(ms(300)) } else { held };
        let pause = state.between(Duration::ZERO, most);
        let locks_again = state.rng.u8(..8) == 0;
        let number = state.holds;
        let mut hold =
            Hold { lock: wish.lock.clone(), lease: wish.lease, renewed: wish.renewed, locked: 1, until, number };
        if locks_again {
            let again = self.jvms.caller(self, thread, &keys, self.jvms.fair_wait, wish.lease).acquire();
            assert_eq!(again, Asked::Entered, "a JVM that has {} enters", wish.lock);
            hold.locked = 2;
        }
        self.jvms.threads[thread].phase = Phase::Holds(hold);
        if wish.renewed {
            self.after(third(wish.lease), JvmEvent::Renew { thread, hold: number });
        }
        self.plan_jvm(thread, pause);
    }

    /// The watchdog of a hold comes by. Its thread is not told where the hold is gone.
    pub(super) fn jvm_renews(&mut self, thread: usize, number: u32) {
        if let Some(until) = self.jvm_paused(thread) {
            return self.at(until, JvmEvent::Renew { thread, hold: number });
        }
        let Phase::Holds(hold) = &self.jvms.threads[thread].phase else { return };
        if hold.number != number || !hold.renewed || !self.jvms.lives(thread) {
            return;
        }
        let (keys, lease) = (FairKeys::of(&hold.lock), hold.lease);
        if !self.jvms.caller(self, thread, &keys, 0, lease).renew() {
            return;
        }
        let until = self.server.wall_millis() + lease;
        if let Phase::Holds(hold) = &mut self.jvms.threads[thread].phase {
            hold.until = until;
        }
        self.after(third(lease), JvmEvent::Renew { thread, hold: number });
    }

    /// A thread unlocks once. Its belief in the hold ends before that with the last time.
    pub(super) fn jvm_unlocks(&mut self, thread: usize, mut hold: Hold) {
        let keys = FairKeys::of(&hold.lock);
        if self.jvms.memory_is_full {
            // The server refuses to count, and the exception ends the watchdog: the hold lasts for its lease.
            trace!(self, "JVM thread {thread} cannot unlock {}", hold.lock);
            return self.jvm_rests(thread);
        }
        self.note_silence_at(&keys.lock);
        let caller = self.jvms.caller(self, thread, &keys, 0, hold.lease);
        let (gone, unlocked) = (caller.drop_stale(), caller.unlock());
        trace!(self, "JVM thread {thread} unlocks {}: {unlocked:?}, and {gone:?} went", hold.lock);
        self.jvm_took_out(thread, &keys, &gone);
        if unlocked == Unlocked::Released {
            let entry = self.jvms.threads[thread].entry.clone();
            self.invariants.grants.free(&keys.lock, &entry, None);
        }
        self.deliver_to_jvms();
        self.deliver_notices();
        hold.locked -= 1;
        if unlocked != Unlocked::Lowered || hold.locked == 0 {
            return self.jvm_rests(thread);
        }
        hold.until = self.server.wall_millis() + hold.lease;
        self.jvms.threads[thread].phase = Phase::Holds(hold);
        let delay = self.jvm_delay(thread);
        self.plan_jvm(thread, delay);
    }

    /// A JVM's command has taken these out of a queue.
    pub(super) fn jvm_took_out(&mut self, thread: usize, keys: &FairKeys, gone: &[Bytes]) {
        for entry in gone {
            self.check_taken_out_by_jvm(thread, keys, entry);
            self.note_dead_jvm(entry);
            self.invariants.fair_order.leave_at(&keys.lock, entry);
        }
    }

    /// Counts a dead JVM that stood in the way and does no more.
    pub(crate) fn note_dead_jvm(&mut self, entry: &Bytes) {
        let is_dead = self.jvms.thread_of(entry).is_some_and(|thread| !self.jvms.lives(thread));
        self.stats.reach_all(is_dead.then_some(Coverage::DeadJvmSkipped));
    }

    /// The server's memory is full, or is not any more: a JVM's commands that count or join are refused before they change anything.
    pub(crate) fn deny_growth_to_jvms(&mut self, deny: bool) {
        self.jvms.memory_is_full = deny && !self.jvms.is_empty();
    }
}

const fn third(lease: i64) -> Duration {
    ms(lease.unsigned_abs() / 3)
}
