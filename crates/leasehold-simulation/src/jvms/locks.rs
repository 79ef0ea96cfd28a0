//! A thread of a JVM that wants a lock or has one.
//!
//! It asks, listens, asks again, sleeps for as long as it is told or until its notice comes, and asks again. If its patience ends, it takes
//! its place back. If it is interrupted, it does not. Once it has the lock, its watchdog lengthens the lease, and it unlocks as often as it
//! has locked.

use crate::jvms::JvmEvent;
use crate::jvms::commands::{Asked, Unlocked};
use crate::terms::LEASE;
use crate::world::history::Fact;
use crate::world::jvms::{FairKeys, Hold, Phase, Wish};
use crate::world::stats::{Coverage, FaultKind};
use crate::world::{World, ms, name, trace};
use bytes::Bytes;
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
        self.tell(Fact::JvmArrives { lock: &keys.lock });
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
                    self.tell(Fact::JvmJoined { lock: &keys.lock, thread });
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
        self.tell(Fact::JvmArrives { lock: &keys.lock });
        self.jvms.caller(self, thread, &keys, wait, wish.lease).give_up();
        self.tell(Fact::JvmLeft { lock: &keys.lock, thread });
        self.jvm_listens(thread, wish, false);
        self.jvm_rests(thread);
    }

    /// It waits no longer, and its place stays.
    fn jvm_walks_away(&mut self, thread: usize, wish: &Wish, why: &str) {
        trace!(self, "JVM thread {thread} {why} at {}", wish.lock);
        self.jvm_listens(thread, wish, false);
        self.jvm_rests(thread);
    }

    /// A thread has the lock; `is_new` if it did not have it before.
    pub(super) fn jvm_is_granted(&mut self, thread: usize, wish: &Wish, is_new: bool) {
        let keys = FairKeys::of(&wish.lock);
        if is_new {
            self.tell(Fact::JvmGranted { lock: &keys.lock, thread });
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
        self.tell(Fact::JvmArrives { lock: &keys.lock });
        let caller = self.jvms.caller(self, thread, &keys, 0, hold.lease);
        let (gone, unlocked) = (caller.drop_stale(), caller.unlock());
        trace!(self, "JVM thread {thread} unlocks {}: {unlocked:?}, and {gone:?} went", hold.lock);
        self.jvm_took_out(thread, &keys, &gone);
        if unlocked == Unlocked::Released {
            self.tell(Fact::JvmReleased { lock: &keys.lock, thread });
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
    fn jvm_took_out(&mut self, thread: usize, keys: &FairKeys, gone: &[Bytes]) {
        for entry in gone {
            self.tell(Fact::JvmTookOut { lock: &keys.lock, thread, entry });
        }
    }
}

const fn third(lease: i64) -> Duration {
    ms(lease.unsigned_abs() / 3)
}
