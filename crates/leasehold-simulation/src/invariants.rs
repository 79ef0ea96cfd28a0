//! The rules that every world keeps, a file for each.
//!
//! A rule is checked over the world as it is. If it needs the past, it keeps a record of its own, which the world adds to.

mod counts;
mod degraded;
mod exclusion;
mod fair_order;
mod foreign;
mod grants;
mod kept;
mod latches;
mod leaks;
pub(crate) mod losses;
mod nothing_acquired;
pub(crate) mod outcomes;
pub(crate) mod permits;
mod tokens;

use crate::report::stats::Coverage;
use crate::workload::family::{LockFamily, lock_of};
use crate::world::World;
use crate::world::client::{Guard, Outcome};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::reply::Reply;
use leasehold_core::session::Granted;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::time::Duration;

/// The records of the rules that need the past.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    pub(crate) degraded: degraded::Degraded,
    pub(crate) exclusion: exclusion::Exclusion,
    pub(crate) fair_order: fair_order::FairOrder,
    pub(crate) grants: grants::Grants,
    pub(crate) kept: kept::Kept,
    pub(crate) latches: latches::Latches,
    pub(crate) nothing_acquired: nothing_acquired::NothingAcquired,
    pub(crate) tokens: tokens::Tokens,
}

impl World {
    /// The checks of the world after every step.
    pub(crate) fn check(&mut self) {
        if self.plan.family == LockFamily::Permits {
            permits::check_sum(self);
        }
        self.check_ends();
        self.check_degraded();
        #[cfg(test)]
        if let Some(rule) = self.parts.rule {
            rule(self);
        }
    }

    pub(crate) fn check_counts(&mut self, fault_free_for: Duration) {
        self.stats.reach_all(counts::check(self, fault_free_for).then_some(Coverage::CountsCompared));
    }

    pub(crate) fn check_strays(&mut self) {
        self.stats.reach_all(leaks::check_strays(self).then_some(Coverage::StraysSought));
    }

    pub(crate) fn check_keys_left(&self, when: &str) {
        leaks::check_keys_left(self, when);
    }

    /// Also checks that no client is subscribed.
    pub(crate) fn check_left(&self, when: &str) {
        leaks::check_left(self, when);
    }

    pub(crate) fn check_nothing_left(&self) {
        leaks::check_nothing_left(self);
    }

    pub(crate) fn check_promptness(&mut self, guard: usize, removed: Instant) {
        self.stats.reach_all(losses::check_promptness(self, guard, removed));
    }

    /// A caller is told of this.
    pub(crate) fn check_outcome(&mut self, client: usize, task: usize, outcome: &Outcome) {
        outcomes::check_release(self, client, task, outcome);
        self.note_kept(client, task, outcome);
        for id in self.invariants.nothing_acquired.check(self, client, task, outcome) {
            self.stats.reach(Coverage::NothingThere);
            if self.doubts.half_done.contains(&id) {
                self.stats.reach(Coverage::HalfDone);
            }
            self.invariants.nothing_acquired.tell(id);
        }
        if *outcome == Outcome::Opened {
            self.stats.reach_all(self.invariants.latches.check(self, client, task));
        }
    }

    /// A client has a new guard.
    pub(crate) fn check_exclusion(&self, guard: &Guard) {
        self.invariants.exclusion.check_belief(self, guard);
    }

    /// A hold was begun on the server.
    pub(crate) fn was_granted(&mut self, call: &Call, id: Bytes, count: u32, token: Option<i64>) {
        let script = call.script().name();
        let lock = lock_of(call);
        self.invariants.nothing_acquired.check_grant(self, &id);
        self.check_not_passing_through(&id);
        self.check_grant_beside_jvms(&lock, &id);
        if count == 1 {
            self.check_kept(&lock);
            let reached = self.invariants.fair_order.check(self, script, &lock, &id);
            self.stats.reach_all(reached.into_iter().flatten());
            if let Some(token) = token {
                self.invariants.tokens.check(self, &lock, &id, token);
                self.invariants.tokens.issue(lock.clone(), token);
            }
            if self.plan.family.excludes() && !script.starts_with("read") {
                let client = self.client_of(&id);
                let reached = self.invariants.grants.hand_over(lock.clone(), &id, client);
                self.stats.reach_all(reached.into_iter().flatten());
            }
        }
        if self.plan.family.counts() {
            permits::check_grant(self, call, &lock, &id);
        } else {
            self.invariants.exclusion.check_grant(self, script, &lock, &id);
        }
        self.invariants.fair_order.leave(&id);
        self.invariants.grants.begin(lock, id, self.server.data_epoch, count > 1);
    }

    /// The server says to whom it has granted something how much of the lease is left.
    pub(crate) fn was_promised(&mut self, id: &Bytes, left: Duration) {
        let until = self.now + left - Settings::margin(left);
        self.invariants.grants.promise(id, until, self.server.data_epoch);
    }

    /// In which epoch the promise was made that a client believes in once it is granted so much of a hold.
    pub(crate) fn epoch_of_promise(&self, client: usize, id: &Bytes, granted: &Granted) -> u32 {
        let deadline = granted.cell.deadline();
        // A message on its way may still bring a promise that is older.
        let is_new = granted.count > 1 && deadline < Instant::FAR_FUTURE && self.net.is_idle(client);
        let until = is_new.then(|| self.clients[client].clock.when(deadline));
        self.invariants.grants.epoch_of_promise(id, until)
    }

    /// A release was carried out on the server, which ended the hold or found none if no count was left.
    pub(crate) fn was_released(&mut self, call: &Call, id: &Bytes, count: u32, code: i64) {
        if count > 0 {
            return;
        }
        // The last two tell of connections that listened.
        if matches!(code, 1 | 6 | 7) {
            let client = self.client_of(id);
            self.invariants.grants.free(&lock_of(call), id, client);
        }
        self.invariants.grants.release(id.clone());
    }

    /// A command is about to reach the server.
    pub(crate) fn note_silence(&mut self, call: &Call) {
        if call.script().name().contains("fair/") {
            self.note_silence_at(&lock_of(call));
        }
    }

    /// A command is about to reach the queue of a lock.
    pub(crate) fn note_silence_at(&mut self, lock: &Bytes) {
        for id in self.invariants.fair_order.silent(self, lock) {
            self.invariants.fair_order.doubt_hold(id);
        }
    }

    /// The server has answered, and has heard of a client, or given a place.
    pub(crate) fn note_place(&mut self, call: &Call, result: &Reply) {
        let Some((_, verb)) = call.script().name().split_once("fair/") else { return };
        let code = result.array().ok().and_then(|parts| parts.first()?.int().ok());
        let placed = verb == "acquire" && code == Some(4);
        let limit = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        // A command that comes too late, such as a copy, does not tell that its waiter lives.
        let in_time = || limit(&call.args()[5]).is_none_or(|limit| limit <= 0 || self.server.wall_millis() <= limit);
        // Nor does an entry to a hold that is there.
        let first = verb == "acquire" && call.args().get(1) == Some(b"1");
        let waits = first && call.args().get(3) == Some(b"1") && matches!(code, Some(1 | 4)) && in_time();
        let lock = lock_of(call);
        if let Some(client) = self.client_of(&call.args()[0]).filter(|_| waits || verb == "beat") {
            self.invariants.fair_order.hear(lock.clone(), client, self.now);
        }
        if placed {
            self.invariants.fair_order.join(lock, Bytes::copy_from_slice(&call.args()[0]));
        }
    }
}
