//! The rules that every world keeps.
//!
//! A rule is checked over the world as it is. If it needs the past, it keeps a record of its own, made of the facts that it sees.

mod grants;
mod leaks;
pub(crate) mod losses;
pub(crate) mod outcomes;
mod queues;

use crate::terms::LockFamily;
use crate::world::World;
use crate::world::client::Outcome;
use crate::world::events::{hold_of, lock_of};
use crate::world::history::{Fact, Promises};
use crate::world::stats::Coverage;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use leasehold_embedded::RefusalEffect;
use rustc_hash::FxHashMap;
use std::time::Duration;

pub(crate) use grants::check_sum;

/// The records of the rules that need the past.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    degraded: losses::Degraded,
    pub(crate) exclusion: grants::Exclusion,
    pub(crate) fair_order: queues::FairOrder,
    foreign: Option<queues::ForeignEntries>,
    pub(crate) grants: grants::Grants,
    kept: grants::Kept,
    /// Whether the last hold of each lock was a JVM's.
    last_is_jvm: FxHashMap<Bytes, bool>,
    latches: outcomes::Latches,
    pub(crate) nothing_acquired: outcomes::NothingAcquired,
    pub(crate) tokens: grants::Tokens,
}

impl Invariants {
    /// Records a fact, and checks the rules that it is about.
    pub(crate) fn see(&mut self, world: &mut World, fact: Fact<'_>) {
        match fact {
            Fact::Sent { client, hold } => self.grants.sent_by(hold, client),
            Fact::Arrives(call) => {
                if call.script().name().contains("fair/") {
                    self.fair_order.note_silence(world, &lock_of(call));
                }
                self.foreign = Self::note_foreign(world, call);
            }
            Fact::Executed { call, result, met } => {
                self.check_foreign(world, call, result);
                self.note_result(world, call, result, met);
            }
            Fact::Copied(call) => {
                let released = hold_of(call).is_some_and(|(id, _)| self.grants.is_released(&id));
                if call.script().name().ends_with("/acquire") && released {
                    world.stats.reach(Coverage::LateDuplicate);
                }
            }
            Fact::Granted { guard, count, handed_on, ended } => {
                let state = &world.guards[guard];
                let (wire_id, epoch) = (state.wire_id.clone(), self.epoch_of_promise(world, guard, count));
                world.guards[guard].epoch_of_data = epoch;
                if !ended {
                    self.exclusion.check_belief(world, &world.guards[guard]);
                }
                if handed_on {
                    self.grants.note_handed_on(wire_id);
                }
                self.note_degraded(world, guard);
            }
            Fact::Told { client, task, outcome } => self.check_outcome(world, client, task, outcome),
            Fact::JvmArrives { lock } => self.fair_order.note_silence(world, lock),
            Fact::JvmJoined { lock, thread } => self.fair_order.join_anew(lock, &world.jvms.threads[thread].entry),
            Fact::JvmLeft { lock, thread } => self.fair_order.leave_at(lock, &world.jvms.threads[thread].entry),
            Fact::JvmTookOut { lock, thread, entry } => self.check_taken_out_by_jvm(world, thread, lock, entry),
            Fact::JvmGranted { lock, thread } => self.check_grant_to_jvm(world, thread, lock),
            Fact::JvmReleased { lock, thread } => self.grants.free(lock, &world.jvms.threads[thread].entry, None),
            Fact::LatchSet { lock, left } => self.latches.set(lock.clone(), left),
            Fact::CountedDown { call, reply } => {
                let expected = self.latches.count_down(call);
                let is_right = *reply == Reply::Array(expected.map(Reply::Int).to_vec());
                assert!(
                    is_right || world.doubts.broken,
                    "the count of {:?}: {reply:?}, not {expected:?}",
                    lock_of(call)
                );
            }
            Fact::Voided(promises) => self.void(promises),
            Fact::Removed { within } => losses::note_removals(world, within),
            Fact::Stepped => self.check(world),
        }
    }

    /// The checks of the world after every step.
    fn check(&mut self, world: &mut World) {
        if world.plan.family == LockFamily::Permits {
            check_sum(world);
        }
        losses::check_ends(world);
        self.check_degraded(world);
    }

    /// Nothing is promised any more of what these promises were about.
    fn void(&mut self, promises: Promises<'_>) {
        match promises {
            Promises::All => {
                self.grants.forget_holders();
                self.fair_order.forget();
            }
            Promises::Timed => self.fair_order.forget(),
            Promises::Unacknowledged => {
                self.grants.forget_holders();
                self.kept.forget();
                self.fair_order.forget();
            }
            Promises::OfLock(lock) => {
                self.fair_order.forget_lock(lock);
                self.grants.forget_holder(lock);
                self.grants.void_lock(lock);
            }
            Promises::OfClient(client) => self.grants.void_client(client),
            Promises::OfHold { id, lock } => {
                self.grants.void(id.clone());
                self.grants.forget_holder(lock);
            }
        }
    }

    /// A caller is told of this.
    fn check_outcome(&mut self, world: &mut World, client: usize, task: usize, outcome: &Outcome) {
        outcomes::check_release(world, &self.grants, client, task, outcome);
        self.kept.note(world, client, task, outcome);
        for id in self.nothing_acquired.check(world, client, task, outcome) {
            world.stats.reach(Coverage::NothingThere);
            if world.doubts.half_done.contains(&id) {
                world.stats.reach(Coverage::HalfDone);
            }
            self.nothing_acquired.tell(id);
        }
        if *outcome == Outcome::Opened {
            let opened = self.latches.check(world, client, task);
            world.stats.reach_all(opened);
        }
    }

    /// In which epoch the promise was made that a client believes in once it has a guard, of a hold that it has so many times.
    fn epoch_of_promise(&self, world: &World, guard: usize, count: u32) -> u32 {
        let guard = &world.guards[guard];
        let deadline = guard.cell.deadline();
        // A message on its way may still bring a promise that is older.
        let is_new = count > 1 && deadline < Instant::FAR_FUTURE && world.net.is_idle(guard.client);
        let until = is_new.then(|| world.clients[guard.client].clock.when(deadline));
        self.grants.epoch_of_promise(&guard.wire_id, until)
    }

    /// A command has run on the server.
    fn note_result(&mut self, world: &mut World, call: &Call, result: &Result<Reply, ServerError>, met: RefusalEffect) {
        let hold = hold_of(call);
        if let Some((id, _)) = hold.as_ref().filter(|_| met == RefusalEffect::AfterWriting) {
            // The replies do not tell whether it took its place before.
            self.fair_order.doubt_hold(id.clone());
        }
        match result {
            Ok(reply) => self.fair_order.note_place(world, call, reply),
            // A script that was refused a command has done what comes before that.
            Err(_) => self.fair_order.doubt(&lock_of(call)),
        }
        if let ("ticket/adopt", Ok(Reply::Array(parts))) = (call.script().name(), result)
            && let [Reply::Int(1), Reply::Int(left), token] = &parts[..]
        {
            self.was_adopted(world, call, Duration::from_millis(left.unsigned_abs()), token.int().ok());
        }
        let Some((id, count)) = hold else { return };
        match result {
            Ok(Reply::Int(code @ (1..=4 | 6 | 7))) => self.was_released(world, call, &id, count, *code),
            Ok(Reply::Array(parts)) if parts[0] == Reply::Int(1) => {
                // The fourth number of a grant of permits is how many are held.
                let token = parts.get(3).filter(|_| !world.plan.family.counts());
                let token = token.and_then(|token| token.int().ok());
                let left = parts.get(1).and_then(|left| left.int().ok());
                self.was_granted(world, call, id.clone(), count, token);
                self.was_promised(world, &id, Duration::from_millis(left.map_or(0, i64::unsigned_abs)));
            }
            _ => {}
        }
        // A count that is lowered leaves a place in a queue where it is.
        if result.is_ok() && count == 0 && call.script().name().ends_with("/release") {
            self.fair_order.leave(&id);
        }
    }

    /// A hold was begun on the server.
    pub(crate) fn was_granted(&mut self, world: &mut World, call: &Call, id: Bytes, count: u32, token: Option<i64>) {
        let script = call.script().name();
        let lock = lock_of(call);
        self.nothing_acquired.check_grant(world, &id);
        Self::check_not_passing_through(world, &id);
        self.check_grant_beside_jvms(world, &lock, &id);
        if count == 1 {
            self.kept.check(world, &self.grants, &lock);
            let reached = self.fair_order.check(world, script, &lock, &id);
            world.stats.reach_all(reached.into_iter().flatten());
            if let Some(token) = token {
                self.tokens.check(world, &lock, &id, token);
                self.tokens.issue(lock.clone(), token);
            }
            if world.plan.family.excludes() && !script.starts_with("read") {
                let client = world.client_of(&id);
                let reached = self.grants.hand_over(lock.clone(), &id, client);
                world.stats.reach_all(reached.into_iter().flatten());
            }
        }
        if world.plan.family.counts() {
            grants::check_grant_of_permits(world, call, &lock, &id);
        } else {
            self.exclusion.check_grant(world, script, &lock, &id);
        }
        self.fair_order.leave(&id);
        self.grants.begin(lock, id, world.server.data_epoch, count > 1);
    }

    /// The hold of an adopter has replaced an offered hold on the server.
    fn was_adopted(&mut self, world: &mut World, call: &Call, left: Duration, token: Option<i64>) {
        let mut args = call.args().into_iter();
        let [id, offered] = [args.next(), args.next()].map(|hold| Bytes::copy_from_slice(hold.expect("a hold")));
        let lock = lock_of(call);
        if let Some(token) = token.filter(|token| *token > 0) {
            self.tokens.check(world, &lock, &id, token);
            self.tokens.issue(lock.clone(), token);
        }
        self.exclusion.check_grant(world, call.script().name(), &lock, &id);
        self.grants.hand_over(lock.clone(), &id, world.client_of(&id));
        self.grants.release(offered);
        self.grants.begin(lock, id.clone(), world.server.data_epoch, false);
        self.was_promised(world, &id, left);
    }

    /// The server says to whom it has granted something how much of the lease is left.
    fn was_promised(&mut self, world: &World, id: &Bytes, left: Duration) {
        let until = world.now + left - Settings::margin(left);
        self.grants.promise(id, until, world.server.data_epoch);
    }

    /// A release was carried out on the server, which ended the hold or found none if no count was left.
    fn was_released(&mut self, world: &World, call: &Call, id: &Bytes, count: u32, code: i64) {
        if count > 0 {
            return;
        }
        // The last two tell of connections that listened.
        if matches!(code, 1 | 6 | 7) {
            let client = world.client_of(id);
            self.grants.free(&lock_of(call), id, client);
        }
        self.grants.release(id.clone());
    }
}
