//! Renewals: when the session renews which holds, in which batches, and which holds are lost.
//!
//! A hold is renewed after about a third of its lease. Holds that are due together share a call: see [`Renewals`].
//!
//! # Losses
//!
//! Several flows find a loss; all of them call [`Session::lose`].
//!
//! | found by | reason |
//! |---|---|
//! | the deadline: the hold's timer, the end of a guard, a re-entry, or a reply that comes after it | that of the deadline |
//! | a renewal, a re-entry or a release whose reply says that the hold is gone | `Removed` |
//! | a renewal or a re-entry whose reply has another count | `CountMismatch` |
//! | a grant to another hold that excludes this hold (`lose_excluded`) | `Removed` |
//! | a refusal of what was granted without the server (`offline.rs`) | `NotRestored` |
//! | the end of the client (`client.rs`) | `ShutDown` |
//!
//! A guard that sees the deadline pass marks its `HoldCell` and stops its work at once; the session loses the hold at its timer. A release
//! that finds its hold gone returns the loss to its caller, because no guard is left. A guard of several locks or servers counts the ended
//! cells of its members (`Cells::ended` in `crates/leasehold/src/lock/loss.rs`).

use crate::call::{Call, Replicas};
use crate::command::permits::MAX_AT_ONCE;
use crate::command::{Kind, Renewal, Renewed, WaitPolicy};
use crate::error::{AcquireError, LossReason, ReleaseError};
use crate::link::LinkError;
use crate::name;
use crate::owner::HoldNumber;
use crate::session::calls::{Batch, CallResult, Purpose};
use crate::session::hold::{Change, Deadline, Hold, Observed, Range};
use crate::session::{Event, Failure, Session, Window};
use crate::settings::{RENEWALS_BY_SLOT, Settings};
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

impl Session {
    /// Plans the next renewal of a hold: a third of the lease from now, less up to a fifth of that, so that the renewals of a fleet drift
    /// apart. Rounds down to a sixty-fourth of the period, so that the renewals of one client meet in batches.
    pub(super) fn schedule_renewal(&mut self, now: Instant, number: HoldNumber) {
        let hold = &mut self.holds[number];
        let (lease, mut period) = (hold.lease, hold.lease / 3);
        // A reader of a JVM sets the key's time to live when it renews, and may die after that.
        let shares = self.locks[hold.lock].protocol().shares_key();
        let reasserts = shares && lease > self.settings.jvm_watchdog / 3;
        if shares {
            period = period.min(self.settings.jvm_watchdog / 3);
        }
        let at = now + period - (period / 5).mul_f64(self.rng.f64());
        hold.plan_renewal(now, at, period / 64, reasserts);
    }

    pub(super) fn hold_is_due(&mut self, now: Instant, number: HoldNumber) {
        let hold = &mut self.holds[number];
        hold.timer = None;
        self.lose_if_passed(now, number);
        let hold = &self.holds[number];
        if hold.lingers_until().is_some_and(|until| until <= now) {
            return self.stop_lingering(now, number);
        }
        if !hold.is_restorable() {
            self.queue_renewal(now, number);
        } else if hold.renew_at.is_some_and(|at| at <= now) {
            self.restore(now, number);
        }
        self.reconcile(now, number);
    }

    pub(super) fn queue_renewal(&mut self, now: Instant, number: HoldNumber) {
        let hold = &mut self.holds[number];
        if !hold.is_live() || hold.renew_at.is_none_or(|at| at > now) {
            return;
        }
        hold.renew_at = None;
        let by_slot = self.settings.cluster || self.renewals.sharing != Sharing::All;
        let slot = if by_slot { name::slot(self.locks[hold.lock].name.key()) } else { 0 };
        let Some(script) = self.locks[hold.lock].protocol().renewal() else { return };
        // A check does not extend the lease, so replicas have nothing to acknowledge.
        let replicas = hold.replicas().filter(|_| hold.count.is_renewed());
        self.renewals.push((script.name(), slot, replicas), number);
    }

    pub(super) fn send_renewals(&mut self, now: Instant) {
        loop {
            let Some(group) = self.renewals.next_group(|durable| self.pending.renewals(durable)) else { return };
            let permits = |number: HoldNumber| {
                let hold = self.holds.get(number).filter(|hold| hold.wants_renewal())?;
                Some(hold.cell.permits())
            };
            let batch = self.renewals.take(group, self.settings.renew_batch, permits);
            if !batch.is_empty() {
                self.send_batch(now, batch, group.2);
            }
        }
    }

    fn send_batch(&mut self, now: Instant, batch: Vec<HoldNumber>, replicas: Option<Replicas>) {
        let mut renewal = Renewal { publish: self.settings.publish.clone(), ..Renewal::default() };
        let mut script = None;
        for number in &batch {
            let hold = &mut self.holds[*number];
            hold.count.begin_renewal();
            let lock = &self.locks[hold.lock];
            let protocol = lock.protocol();
            script = script.or_else(|| protocol.renewal());
            protocol.renew(&mut renewal, &lock.name, lock.keys(), &hold.cell.key(), hold.lease_of_renewal(now));
        }
        let Some(script) = script else { return };
        let call = Call::new(script, renewal.keys, renewal.args).with_replicas(replicas);
        self.send_by_background(now, call, Purpose::Renewal(Batch { sent_at: now, holds: batch, replicas }));
    }

    pub(super) fn handle_renewed(&mut self, now: Instant, batch: Batch, result: CallResult) {
        if batch.replicas.is_none() {
            let is_answered = matches!(&result, Ok(_) | Err(LinkError::Refused(_)));
            self.renewals.ended(is_answered.then(|| now.since(batch.sent_at)));
        }
        let several_slots = matches!(&result, Err(LinkError::Refused(refusal)) if refusal.is_of_several_slots());
        if several_slots && self.split_batch(now, &batch.holds) {
            return self.send_renewals(now);
        }
        let decoded = match result {
            Ok(reply) => batch.decode(&reply).map_err(|error| (error.to_string(), true)),
            Err(error) => Err((error.to_string(), error.is_lasting())),
        };
        match decoded {
            Ok((outcomes, acknowledged)) => {
                let holds = batch.holds.len();
                let cells = || batch.holds.iter().filter_map(|number| Some(&self.holds.get(*number)?.cell));
                let left = cells().map(|cell| cell.deadline().since(now)).min().unwrap_or_default();
                let oldest = cells().map(|cell| now.since(cell.acquired_at())).max().unwrap_or_default();
                let event = match batch.shortfall(acknowledged) {
                    None => Event::Renewed { holds, left, oldest },
                    Some(why) => {
                        Event::RenewalFailed(holds, Failure { why, lasting: self.note_refusals(&batch.holds) })
                    }
                };
                self.out.emit(event);
                let mut failed = Vec::new();
                for (number, outcome) in batch.holds.iter().copied().zip(outcomes) {
                    if !self.hold_renewed(now, batch.sent_at, number, outcome, acknowledged) {
                        failed.push(number);
                    }
                }
                self.retry_renewals(now, &failed);
            }
            Err((why, lasting)) => {
                let lasting = lasting && self.note_refusals(&batch.holds);
                self.out.emit(Event::RenewalFailed(batch.holds.len(), Failure { why, lasting }));
                for number in &batch.holds {
                    if let Some(hold) = self.holds.get_mut(*number) {
                        hold.end_renewal(false);
                    }
                    // The server may have applied the renewal just now.
                    self.extend_clean_up(now, *number);
                }
                self.retry_renewals(now, &batch.holds);
            }
        }
        self.send_renewals(now);
    }

    /// Retries a batch in smaller groups, after the server or a proxy refused keys of several slots. Returns false for a single hold.
    fn split_batch(&mut self, now: Instant, numbers: &[HoldNumber]) -> bool {
        if numbers.len() < 2 {
            return false;
        }
        let (holds, locks) = (&self.holds, &self.locks);
        let slot = |number: HoldNumber| holds.get(number).map_or(0, |hold| name::slot(locks[hold.lock].name.key()));
        let of_one_slot = numbers.iter().all(|number| slot(*number) == slot(numbers[0]));
        self.renewals.narrow(if of_one_slot { Sharing::None } else { Sharing::Slot }, slot);
        for number in numbers {
            if let Some(hold) = self.holds.get_mut(*number) {
                hold.end_renewal(false);
                hold.retry_renewal(now);
            }
            self.set_hold_timer(*number);
        }
        true
    }

    /// Records for each hold that the server refuses its command. Returns whether that is new for any hold.
    fn note_refusals(&mut self, numbers: &[HoldNumber]) -> bool {
        let is_new = |number: &HoldNumber| self.holds.get_mut(*number).is_some_and(Hold::note_refusal);
        // `fold`, not `any`: every hold must be recorded.
        numbers.iter().map(is_new).fold(false, |any, is_new| any | is_new)
    }

    /// Applies the reply to the renewal of one hold. Returns false if the renewal must be retried.
    pub(super) fn hold_renewed(
        &mut self,
        now: Instant,
        sent_at: Instant,
        number: HoldNumber,
        outcome: Renewed,
        acknowledged: Option<u32>,
    ) -> bool {
        let counts = self.protocol_of(number).counts();
        self.extend_clean_up(now, number);
        let Some(hold) = self.holds.get_mut(number) else { return true };
        let range = hold.end_renewal(outcome != Renewed::Refused).filter(|_| counts);
        if !hold.is_live() {
            // The renewal in flight may have been all that kept the session from forgetting the hold.
            self.reconcile(now, number);
            return true;
        }
        if hold.has_passed(now) {
            self.lose_by_deadline(now, number);
            return true;
        }
        let (count, left) = match outcome {
            Renewed::Held { count, left } => (count, left),
            Renewed::Gone => {
                self.lose(now, number, LossReason::Removed);
                return true;
            }
            Renewed::Refused => return false,
        };
        if range.is_some_and(|range| !range.has(count)) {
            self.lose(now, number, LossReason::CountMismatch);
            return true;
        }
        let enough = |replicas: Replicas| acknowledged.is_some_and(|count| count >= replicas.at_least);
        // A failover could undo a renewal without enough replicas: it does not move the deadline.
        let is_durable = hold.replicas().is_none_or(enough);
        if !hold.observe_reply(now, sent_at, left) || (is_durable && !hold.deadline.extend(&hold.cell, sent_at, left)) {
            self.lose_by_deadline(now, number);
            return true;
        }
        if is_durable {
            hold.cell.set_acknowledged(acknowledged);
            hold.refusal_reported = false;
            self.schedule_renewal(now, number);
            self.set_hold_timer(number);
        }
        is_durable
    }

    /// Retries failed renewals soon enough for several attempts while the leases last. The holds stay together, and join other failed
    /// holds: one batch is one batch in its next attempt, too.
    fn retry_renewals(&mut self, now: Instant, numbers: &[HoldNumber]) {
        let holds = numbers.iter().filter_map(|number| self.holds.get(*number));
        // If the server's clock was set back, far more than the lease is left.
        let Some(left) = holds.map(|hold| hold.cell.deadline().since(now).min(hold.lease)).min() else { return };
        let pause = (left / 8).clamp(Duration::from_millis(20), Duration::from_secs(1));
        let at = now + pause / 2 + self.jitter(pause / 2);
        let slot = u64::try_from((pause / 8).as_nanos()).unwrap_or(u64::MAX).next_power_of_two() / 2;
        let at = Instant::from_nanos(at.as_nanos().div_ceil(slot) * slot);
        for number in numbers {
            if let Some(hold) = self.holds.get_mut(*number) {
                hold.retry_renewal(at);
            }
            self.set_hold_timer(*number);
        }
    }

    /// Renews every hold at once, spread over at most a second: the server may have lost holds.
    pub(super) fn renew_all(&mut self, now: Instant) {
        let mut live: Vec<_> = self.holds.iter().filter(|(_, hold)| hold.is_live()).map(|(number, _)| number).collect();
        live.sort_unstable();
        // Holds of one batch share an instant: a hold with its own instant is its own batch.
        let batch = u32::try_from(self.settings.renew_batch).unwrap_or(u32::MAX);
        let most = Duration::from_secs(1);
        for (index, batch_of) in (0_u32..).zip(live.chunks(self.settings.renew_batch.max(1))) {
            let at = now + Duration::from_micros(50).saturating_mul(batch.saturating_mul(index)).min(most);
            batch_of.iter().for_each(|number| self.verify_hold(*number, at));
        }
    }

    pub(super) fn verify_holds(&mut self, now: Instant, name: &str) {
        let is_it = |hold: &Hold| hold.is_live() && self.locks[hold.lock].name.as_str() == name;
        let mut live: Vec<_> = self.holds.iter().filter(|(_, hold)| is_it(hold)).map(|(number, _)| number).collect();
        live.sort_unstable();
        for number in live {
            self.verify_hold(number, now);
        }
    }

    fn verify_hold(&mut self, number: HoldNumber, at: Instant) {
        let hold = &mut self.holds[number];
        hold.verify_by(at);
        self.set_hold_timer(number);
    }

    /// Checks the holds of a lock after a grant of permits, if this client alone believes in more than `in_all`, the held permits that the
    /// server knows. Holds with a reply newer than `sent_at` do not count.
    pub(super) fn verify_missing_permits(
        &mut self,
        now: Instant,
        number: HoldNumber,
        sent_at: Instant,
        in_all: Option<u64>,
    ) {
        let (Some(in_all), Some(lock)) = (in_all, self.holds.get(number).map(|hold| hold.lock)) else { return };
        if self.locks[lock].permits <= in_all {
            return;
        }
        let believed = self.holds.iter().filter(|(_, hold)| hold.lock == lock);
        let believed = believed.filter(|(other, hold)| *other == number || hold.is_disproved_by(sent_at));
        if believed.map(|(_, hold)| hold.permits()).sum::<u64>() > in_all {
            let name = self.locks[lock].name.clone();
            self.verify_holds(now, name.as_str());
        }
    }
}

/// Losses.
impl Session {
    /// Ends a hold for its guards, and fails the requests that wait for it. The first loss counts.
    pub(super) fn lose(&mut self, now: Instant, number: HoldNumber, reason: LossReason) {
        let hold = &mut self.holds[number];
        if !hold.lose(reason, &mut self.out.woken) {
            return;
        }
        let waiting = hold.take_waiting();
        self.out.emit(hold.lost(now, self.locks[hold.lock].name.clone(), reason));
        for ticket in waiting {
            self.fail_acquire(now, ticket, AcquireError::Lost(reason));
            self.finish_release(ticket, Err(ReleaseError::Lost(reason)));
        }
    }

    pub(super) fn lose_by_deadline(&mut self, now: Instant, number: HoldNumber) {
        let hold = &self.holds[number];
        let reason = hold.cell.reason_of_deadline();
        self.lose(now, number, reason);
    }

    /// Loses a hold whose deadline has passed before its timer.
    pub(super) fn lose_if_passed(&mut self, now: Instant, number: HoldNumber) {
        if self.holds.get(number).is_some_and(|hold| hold.is_live() && hold.has_passed(now)) {
            self.lose_by_deadline(now, number);
        }
    }

    /// Loses the holds of this client that a grant excludes. A hold with a reply newer than `sent_at` stays: the server may have granted or
    /// renewed it after this grant.
    ///
    /// A reader excludes writers only, except the writer that it reads `beside`.
    pub(super) fn lose_excluded(&mut self, now: Instant, number: HoldNumber, sent_at: Instant, beside: Option<&Bytes>) {
        let Some(lock) = self.holds.get(number).filter(|hold| hold.is_live()).map(|hold| hold.lock) else { return };
        let is_reader = self.locks[lock].kind == Kind::Read;
        if !is_reader && !matches!(self.locks[lock].wait_policy(), WaitPolicy::Exclusive | WaitPolicy::ServerQueue) {
            return;
        }
        if self.locks.same_name(lock).map(|at| self.locks[at].permits).sum::<u64>() < 2 {
            return;
        }
        let is_excluded = |other: HoldNumber, hold: &Hold| {
            let certain = !hold.state.is_degraded() && hold.is_disproved_by(sent_at);
            let conflicts =
                || !is_reader || (self.locks[hold.lock].kind == Kind::Write && beside != Some(&hold.cell.field()));
            other != number && certain && self.locks.same_name(lock).any(|at| at == hold.lock) && conflicts()
        };
        let excluded = self.holds.iter().filter(|(other, hold)| is_excluded(*other, hold));
        for other in excluded.map(|(other, _)| other).collect::<Vec<_>>() {
            self.lose(now, other, LossReason::Removed);
            self.reconcile(now, other);
        }
    }
}

/// The lease of a hold.
impl Hold {
    /// Applies the rest of the lease in a reply to the deadline. Returns false if the deadline has passed. A contradicted deadline makes
    /// the next renewal due at once, unless a renewal is in flight.
    pub(super) fn observe_reply(&mut self, now: Instant, sent_at: Instant, left: Duration) -> bool {
        let observed = self.deadline.observe_reply(&self.cell, now, sent_at, left);
        if observed == Observed::Contradicted {
            self.renew_at = self.renew_at.and(Some(now));
        }
        observed != Observed::Passed
    }

    pub(super) fn has_passed(&self, now: Instant) -> bool {
        now >= self.cell.deadline()
    }

    /// Whether a grant to another hold, by a command sent at `sent_at`, proves this hold gone: no reply is newer, and no change in flight.
    pub(super) fn is_disproved_by(&self, sent_at: Instant) -> bool {
        self.is_live() && self.change.is_none() && self.deadline.is_older_than(sent_at)
    }

    /// The server has granted a degraded hold. This never moves the deadline later.
    pub(super) fn restore(&mut self, now: Instant, change: &Change, left: Duration) {
        self.state.restore();
        self.deadline.last_reply_at = now;
        self.cell.set_degraded(false);
        self.cell.set_acknowledged(change.acknowledged);
        self.cell.set_deadline(Deadline::from_reply(change.sent_at, left).min(self.cell.deadline()));
        self.extend_clean_up(now);
    }

    pub(super) fn restore_at(&mut self, at: Instant) {
        self.renew_at = self.is_restorable().then_some(at);
    }

    /// Whether to send a renewal, even if it only checks that the hold exists.
    pub(super) fn wants_renewal(&self) -> bool {
        self.is_live() && !self.state.is_degraded() && (self.count.is_renewed() || self.verify)
    }

    /// Plans the next renewal for `at`, or earlier if a slow reply has left less than two thirds of the lease. Rounds down to `slot`. With
    /// `reasserts`, the renewal checks a hold whose lease is not renewed.
    fn plan_renewal(&mut self, now: Instant, at: Instant, slot: Duration, reasserts: bool) {
        let deadline = self.cell.deadline();
        let at = if deadline < self.deadline.latest { at.min(now + deadline.since(now) / 2) } else { at };
        let slot = u64::try_from(slot.as_nanos()).unwrap_or(u64::MAX).max(1);
        let at = Instant::from_nanos(at.as_nanos() / slot * slot).max(now);
        self.verify |= reasserts && !self.count.is_renewed();
        self.renew_at = (self.wants_renewal() && (self.count.is_renewed() || reasserts)).then_some(at);
    }

    /// Plans a check for `at` at the latest, even if no guard wants the lease renewed.
    pub(super) fn verify_by(&mut self, at: Instant) {
        if !self.count.is_renewed() && !self.verify {
            self.verify = true;
            self.renew_at = Some(at);
        } else {
            // Without an instant, the renewal is queued or in flight.
            self.renew_at = self.renew_at.map(|planned| planned.min(at));
        }
    }

    fn retry_renewal(&mut self, at: Instant) {
        self.renew_at = self.wants_renewal().then_some(at);
    }

    /// The lease of a renewal, capped by the rest of `max_hold`. A check asks for a millisecond, which extends nothing.
    fn lease_of_renewal(&self, now: Instant) -> Duration {
        let most = self.deadline.latest.since(now).saturating_add(Settings::margin(self.lease));
        let lease = if self.count.is_renewed() { self.lease.min(most) } else { Duration::ZERO };
        lease.max(Duration::from_millis(1))
    }

    /// Ends a renewal. Returns the counts that its reply may have. `verified` ends a check.
    pub(super) fn end_renewal(&mut self, verified: bool) -> Option<Range> {
        self.verify &= !verified;
        self.count.end_renewal()
    }
}

/// Growth limit of the window of renewals, in first sizes. With a round trip of 400 ms and a first size of four, the client renews 16 000
/// locks a second.
const GROWTH: usize = 16;

/// The renewals that are due. [`Pending`](crate::session::calls::Pending) has those in flight.
#[derive(Debug)]
pub(super) struct Renewals {
    /// First due, first out within each group.
    due: BTreeMap<Group, VecDeque<HoldNumber>>,
    sharing: Sharing,
    /// For renewals without replicas.
    window: Window,
    /// Maximum number in flight of renewals with replicas. Their replies take as long as the replicas, so they do not measure the server.
    durable: usize,
}

/// Holds may share a renewal if they have the same script, hash slot and replica requirement.
///
/// A script may only touch keys of one slot in a cluster; elsewhere all slots are 0. The replicas acknowledge the whole call.
type Group = (&'static str, u16, Option<Replicas>);

/// The slots that may share a renewal. A refusal of keys of several slots narrows it for the rest of the client's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Sharing {
    #[default]
    All,
    Slot,
    /// A single hold: the server does not place keys by hash slots.
    None,
}

impl Renewals {
    /// `in_flight` is the first size of the window.
    pub(super) fn new(in_flight: usize) -> Self {
        Self {
            due: BTreeMap::new(),
            sharing: Sharing::default(),
            window: Window::new(in_flight..=in_flight * GROWTH),
            durable: in_flight,
        }
    }

    fn push(&mut self, group: Group, number: HoldNumber) {
        self.due.entry(group).or_default().push_back(number);
    }

    /// The first group with room for a call. `in_flight` counts the calls with replicas, or without.
    fn next_group(&self, in_flight: impl Fn(bool) -> usize) -> Option<Group> {
        let has_room = |replicas: Option<Replicas>| match replicas {
            Some(_) => in_flight(true) < self.durable,
            None => self.window.has_room(in_flight(false)),
        };
        self.due.keys().find(|(_, _, replicas)| has_room(*replicas)).copied()
    }

    /// Takes a batch of at most `most` holds from a group. `permits` returns the permits of a hold, or `None` if it wants no renewal.
    ///
    /// A batch of several holds has at most [`MAX_AT_ONCE`] permits: the server renews each permit, and serves no other client meanwhile.
    fn take(&mut self, group: Group, most: usize, permits: impl Fn(HoldNumber) -> Option<u32>) -> Vec<HoldNumber> {
        let Some(queue) = self.due.get_mut(&group) else { return Vec::new() };
        let most = if self.sharing == Sharing::None { 1 } else { most };
        let mut batch = Vec::with_capacity(queue.len().min(most));
        let mut in_all = 0;
        while batch.len() < most
            && let Some(number) = queue.front().copied()
        {
            let wanted = permits(number);
            in_all += wanted.unwrap_or_default();
            if in_all > MAX_AT_ONCE && !batch.is_empty() {
                break;
            }
            queue.pop_front();
            batch.extend(wanted.map(|_| number));
        }
        if queue.is_empty() {
            self.due.remove(&group);
        }
        batch
    }

    /// Adapts the window to the end of a renewal without replicas: a reply after `took`, or no reply.
    fn ended(&mut self, took: Option<Duration>) {
        match took {
            None => self.window.not_answered(),
            Some(_) if self.due.is_empty() => self.window.reset(),
            Some(took) => self.window.answered(took),
        }
    }

    /// Narrows the sharing, and regroups the due renewals by slot.
    fn narrow(&mut self, sharing: Sharing, slot: impl Fn(HoldNumber) -> u16) {
        self.sharing = self.sharing.max(sharing);
        // The calls become many and short.
        self.durable = self.durable.max(RENEWALS_BY_SLOT);
        self.window = Window::new(self.durable..=self.durable * GROWTH);
        for ((script, _, replicas), numbers) in std::mem::take(&mut self.due) {
            for number in numbers {
                self.push((script, slot(number), replicas), number);
            }
        }
    }
}

#[cfg(test)]
mod tests;
