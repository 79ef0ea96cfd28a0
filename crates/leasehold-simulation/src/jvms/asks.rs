//! A thread of a JVM that asks for a lock: it asks, listens, asks again, sleeps for as long as it is told or until its notice comes, and
//! asks again. If its patience ends, it takes its place back. If it is interrupted, it does not.

use crate::jvms::commands::Asked;
use crate::jvms::keys::FairKeys;
use crate::jvms::thread::{Phase, Wish};
use crate::report::stats::{Coverage, FaultKind};
use crate::workload::plan::LEASE;
use crate::world::{World, ms, name, trace};
use std::time::Duration;

/// A JVM that is told to sleep for no time at all asks at once, and again. The ones here take this long.
const SPIN: u64 = 10;

/// Every deadline that is so many milliseconds ago is that of an entry of ours that was given up.
const GIVEN_UP: i64 = 1_000_000_000_000;

impl World {
    /// A thread wants a lock.
    pub(super) fn jvm_begins(&mut self, thread: usize) {
        if self.jvm_is_done(thread) {
            return;
        }
        self.stats.operations += 1;
        let (now, fair_wait) = (self.now, self.jvms.fair_wait);
        let state = &mut self.jvms.threads[thread];
        state.left -= 1;
        let lock = name(&format!("lock{}", state.rng.u64(..self.plan.locks)));
        let (wait, until) = match state.rng.u8(..10) {
            0 => (None, None),
            1..=4 => {
                let wait = state.between(ms(100), ms(fair_wait.unsigned_abs()));
                (Some(i64::try_from(wait.as_millis()).unwrap_or(fair_wait)), Some(now + wait))
            }
            _ => (Some(fair_wait), None),
        };
        let is_interrupted = until.is_none() && state.rng.u8(..10) == 0;
        let interrupted = is_interrupted.then(|| now + state.between(ms(10), ms(1_000)));
        let renewed = state.rng.u8(..3) > 0;
        let lease = if renewed { LEASE } else { state.between(ms(100), LEASE) };
        let lease = i64::try_from(lease.as_millis()).unwrap_or_default();
        trace!(self, "JVM thread {thread} asks for {lock}, waiting {wait:?} ms with a lease of {lease} ms");
        let wish =
            Wish { lock, wait, until, interrupted, lease, renewed, has_asked: false, listens: false, placed: false };
        self.jvm_asks(thread, wish);
    }

    /// A thread asks, or does what comes before it asks again.
    pub(super) fn jvm_asks(&mut self, thread: usize, mut wish: Wish) {
        if wish.has_asked && wish.until.is_some_and(|until| until <= self.now) {
            return self.jvm_gives_up(thread, &wish);
        }
        if wish.interrupted.is_some_and(|at| at <= self.now) {
            self.stats.fault(FaultKind::JvmInterrupted);
            return self.jvm_walks_away(thread, &wish, "is interrupted");
        }
        if wish.has_asked && !wish.listens {
            wish.listens = true;
            self.jvm_listens(thread, &wish, true);
            let delay = self.jvm_delay(thread);
            return self.jvm_asks_again(thread, wish, delay);
        }
        if self.jvms.memory_is_full {
            return self.jvm_walks_away(thread, &wish, "is refused");
        }
        wish.has_asked = true;
        let keys = FairKeys::of(&wish.lock);
        self.note_silence_at(&keys.lock);
        let caller = self.jvms.caller(self, thread, &keys, wish.wait.unwrap_or(self.jvms.fair_wait), wish.lease);
        let gone = caller.drop_stale();
        let asked = if wish.wait.is_some() { Some(caller.acquire()) } else { caller.try_acquire() };
        trace!(self, "JVM thread {thread} has asked for {}: {asked:?}, and {gone:?} went", wish.lock);
        self.jvm_took_out(thread, &keys, &gone);
        match asked {
            Some(Asked::Granted) => self.jvm_is_granted(thread, &wish, true),
            Some(Asked::Entered) => self.jvm_is_granted(thread, &wish, false),
            Some(Asked::Sleeps { millis, joined }) => {
                if joined {
                    // The deadline of an entry that was given up is long ago, and whoever comes behind it would have the same.
                    assert!(
                        millis > -GIVEN_UP,
                        "JVM thread {thread} stands behind an entry of {} that was given up",
                        wish.lock
                    );
                    let entry = self.jvms.threads[thread].entry.clone();
                    self.invariants.fair_order.join_anew(&keys.lock, &entry);
                    self.stats.reach_all(wish.placed.then_some(Coverage::JvmCameAnew));
                    wish.placed = true;
                }
                let delay = self.jvm_delay(thread);
                // It listens before it sleeps.
                let sleep = if wish.listens { ms(millis.max(0).unsigned_abs()).max(ms(SPIN)) } else { Duration::ZERO };
                self.jvm_asks_again(thread, wish, sleep + delay);
            }
            None => self.jvm_rests(thread),
        }
    }

    fn jvm_asks_again(&mut self, thread: usize, wish: Wish, pause: Duration) {
        let ends = [wish.until, wish.interrupted].into_iter().flatten().map(|at| at.since(self.now));
        let pause = ends.chain([pause]).min().unwrap_or(pause);
        self.jvms.threads[thread].phase = Phase::Asks(wish);
        self.plan_jvm(thread, pause);
    }

    /// Its patience has ended. A thread that waits by a future takes the longest wait off those behind it, whatever its own was.
    fn jvm_gives_up(&mut self, thread: usize, wish: &Wish) {
        let by_a_future = self.jvms.threads[thread].rng.u8(..6) == 0;
        let wait = wish.wait.filter(|_| !by_a_future).unwrap_or(self.jvms.fair_wait);
        let keys = FairKeys::of(&wish.lock);
        if self.jvms.memory_is_full {
            return self.jvm_walks_away(thread, wish, "cannot give up its place");
        }
        trace!(self, "JVM thread {thread} gives up waiting for {}", wish.lock);
        self.stats.reach(Coverage::JvmGaveUp);
        self.note_silence_at(&keys.lock);
        self.jvms.caller(self, thread, &keys, wait, wish.lease).give_up();
        let entry = self.jvms.threads[thread].entry.clone();
        self.invariants.fair_order.leave_at(&keys.lock, &entry);
        self.jvm_listens(thread, wish, false);
        self.jvm_rests(thread);
    }

    /// It waits no longer, and its place stays.
    fn jvm_walks_away(&mut self, thread: usize, wish: &Wish, why: &str) {
        trace!(self, "JVM thread {thread} {why} at {}", wish.lock);
        self.jvm_listens(thread, wish, false);
        self.jvm_rests(thread);
    }
}
