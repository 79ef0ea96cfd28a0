//! Renewals: which holds are renewed when, in which batches, and which holds are lost.

use crate::call::{Call, Replicas};
use crate::command::permits::MAX_AT_ONCE;
use crate::command::{Kind, Renewal, Renewed, WaitPolicy};
use crate::error::{AcquireError, LossReason, ReleaseError};
use crate::link::LinkError;
use crate::name;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::calls::{Batch, Purpose};
use crate::session::hold::{Change, Deadline, Hold, Observed, Range};
use crate::session::lock::LockId;
use crate::session::{Event, Session, Window};
use crate::settings::{RENEWALS_BY_SLOT, Settings};
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The next step after an answered renewal of a hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    AsPlanned,
    /// It is repeated soon.
    Again,
}

impl Session {
    /// Sets the next renewal of a hold: a third of the lease from now, less up to a fifth of that, so that the renewals of a
    /// fleet drift apart. Instants are rounded down to a sixty-fourth of the period, so that those of one client meet in
    /// batches.
    pub(super) fn schedule_renewal(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        let mut period = hold.lease / 3;
        // A reader of a JVM sets the key's time to live when it renews, and may die after that.
        let shares = self.locks[hold.lock].protocol().shares_key();
        let reasserts = shares && period * 3 > self.settings.jvm_watchdog / 3;
        if shares {
            period = period.min(self.settings.jvm_watchdog / 3);
        }
        let at = now + period - self.jitter(period / 5);
        if let Some(hold) = self.holds.known_mut(number) {
            hold.plan_renewal(now, at, period / 64, reasserts);
        }
    }

    fn verify_hold(&mut self, number: HoldNumber, at: Instant) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.look_by(at);
        self.set_hold_timer(number);
    }

    /// Repeats a renewal that failed for these holds, soon enough to try several times while the leases last. They stay together, and
    /// come upon others that failed: what was one batch is one batch in its next try, too.
    fn retry_renewals(&mut self, now: Instant, numbers: &[HoldNumber]) {
        let holds = numbers.iter().filter_map(|number| self.holds.get(*number));
        // If the server's clock was put back, far more is left than was asked for.
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

    /// Puts a hold whose renewal is due among those that go out next.
    pub(super) fn queue_renewal(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        if !hold.take_due_renewal(now) {
            return;
        }
        let by_slot = self.settings.cluster || self.renewals.sharing != Sharing::All;
        let slot = if by_slot { name::slot(self.locks[hold.lock].name.key()) } else { 0 };
        let Some(script) = self.locks[hold.lock].protocol().renewal() else { return };
        let replicas = hold.replicas_of_renewal();
        self.renewals.push((script.name(), slot, replicas), number);
    }

    /// Sends what is due, as far as there is room. A renewal that waits for replicas may take long, and takes no room from the others.
    pub(super) fn send_renewals(&mut self, now: Instant) {
        loop {
            let Some(group) = self.renewals.next_group(|durable| self.pending.renewals(durable)) else { return };
            let permits = |number: HoldNumber| {
                let hold = self.holds.get(number).filter(|hold| hold.wants_renewal())?;
                Some(hold.cell.permits())
            };
            // The server works on each permit by itself, and serves no other client meanwhile.
            let batch = self.renewals.take(group, self.settings.renew_batch, MAX_AT_ONCE, permits);
            if !batch.is_empty() {
                self.send_batch(now, batch, group.2);
            }
        }
    }

    fn send_batch(&mut self, now: Instant, batch: Vec<HoldNumber>, replicas: Option<Replicas>) {
        for number in &batch {
            if let Some(hold) = self.holds.known_mut(*number) {
                hold.begin_renewal();
            }
        }
        let mut renewal = Renewal { publish: self.settings.publish.clone(), ..Renewal::default() };
        let mut script = None;
        for number in &batch {
            let Some(hold) = self.holds.known(*number) else { continue };
            let lock = &self.locks[hold.lock];
            let lease = hold.lease_of_renewal(now);
            let protocol = lock.protocol();
            script = script.or_else(|| protocol.renewal());
            protocol.renew(&mut renewal, &lock.name, lock.keys(), &hold.key(), lease);
        }
        let Some(script) = script else { return };
        let call = Call::new(script, renewal.keys, renewal.args).with_replicas(replicas);
        self.send_by_background(now, call, Purpose::Renewal(Batch { sent_at: now, holds: batch, replicas }));
    }

    /// Has every hold renewed at once, spread over a moment: what the server had may be gone.
    pub(super) fn renew_all(&mut self, now: Instant) {
        let mut live: Vec<_> = self.holds.iter().filter(|(_, hold)| hold.is_live()).map(|(number, _)| number).collect();
        live.sort_unstable();
        // Together, as far as a batch goes: where each has an instant of its own, each is a batch of its own.
        let batch = u32::try_from(self.settings.renew_batch).unwrap_or(u32::MAX);
        let most = Duration::from_secs(1);
        for (index, batch_of) in (0_u32..).zip(live.chunks(self.settings.renew_batch.max(1))) {
            let at = now + Duration::from_micros(50).saturating_mul(batch.saturating_mul(index)).min(most);
            batch_of.iter().for_each(|number| self.verify_hold(*number, at));
        }
    }

    /// Plans a look at each hold of this name.
    pub(super) fn look_at_holds(&mut self, now: Instant, name: &str) {
        let mut live: Vec<_> = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.is_live() && self.locks[hold.lock].name.as_str() == name)
            .map(|(number, _)| number)
            .collect();
        live.sort_unstable();
        for number in live {
            self.verify_hold(number, now);
        }
    }

    fn hold_renewed(
        &mut self,
        now: Instant,
        sent_at: Instant,
        number: HoldNumber,
        outcome: Renewed,
        acknowledged: Option<u32>,
    ) -> Next {
        let counts = self.protocol_of(number).counts();
        self.extend_clean_up(now, number);
        let Some(hold) = self.holds.get_mut(number) else { return Next::AsPlanned };
        let window = hold.end_renewal(outcome != Renewed::Refused).filter(|_| counts);
        if !hold.is_live() {
            // It may be forgotten now.
            self.reconcile(now, number);
            return Next::AsPlanned;
        }
        if hold.has_passed(now) {
            self.lose_by_deadline(now, number);
            return Next::AsPlanned;
        }
        match outcome {
            Renewed::Held { count, left } => {
                if window.is_some_and(|window| !window.has(count)) {
                    self.lose(now, number, LossReason::CountMismatch);
                    return Next::AsPlanned;
                }
                if !hold.observe_reply(now, sent_at, left) {
                    self.lose_by_deadline(now, number);
                    return Next::AsPlanned;
                }
                let enough = |replicas: Replicas| acknowledged.is_some_and(|count| count >= replicas.at_least);
                if !hold.replicas().is_none_or(enough) {
                    // A failover could undo it: the deadline is put off by acknowledged renewals alone.
                    return Next::Again;
                }
                if !hold.extend(sent_at, left) {
                    self.lose_by_deadline(now, number);
                    return Next::AsPlanned;
                }
                hold.note_acknowledged(acknowledged);
                hold.refusal_told = false;
                self.schedule_renewal(now, number);
                self.set_hold_timer(number);
            }
            Renewed::Gone => self.lose(now, number, LossReason::Removed),
            Renewed::Refused => return Next::Again,
        }
        Next::AsPlanned
    }

    /// The server, or a proxy in front of it, refused to renew these holds in one command, and renewed none. Retries at
    /// once with smaller groups. Returns false for a single hold.
    fn part_renewals(&mut self, now: Instant, numbers: &[HoldNumber]) -> bool {
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

    /// Records for each hold that the server refused its command. Returns whether that is new for any hold.
    fn note_refusal_of(&mut self, numbers: &[HoldNumber]) -> bool {
        let news = |number: &HoldNumber| self.holds.get_mut(*number).is_some_and(Hold::note_refusal);
        // `fold`, not `any`: every hold must be recorded.
        numbers.iter().map(news).fold(false, |any, news| any | news)
    }

    /// Takes the outcome of a renewal.
    pub(super) fn handle_renewed(&mut self, now: Instant, batch: Batch, result: Result<Reply, LinkError>) {
        if batch.replicas.is_none() {
            let is_answered = matches!(&result, Ok(_) | Err(LinkError::Refused(_)));
            self.renewals.ended(is_answered.then(|| now.since(batch.sent_at)));
        }
        let is_parted = matches!(&result, Err(LinkError::Refused(refusal)) if refusal.is_of_several_slots());
        if is_parted && self.part_renewals(now, &batch.holds) {
            self.send_renewals(now);
            return;
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
                    Some(why) => Event::RenewalFailed { holds, why, lasting: self.note_refusal_of(&batch.holds) },
                };
                self.out.tell(event);
                let mut again = Vec::new();
                for (number, outcome) in batch.holds.iter().copied().zip(outcomes) {
                    if self.hold_renewed(now, batch.sent_at, number, outcome, acknowledged) == Next::Again {
                        again.push(number);
                    }
                }
                self.retry_renewals(now, &again);
            }
            Err((why, lasting)) => {
                let lasting = lasting && self.note_refusal_of(&batch.holds);
                self.out.tell(Event::RenewalFailed { holds: batch.holds.len(), why, lasting });
                for number in &batch.holds {
                    if let Some(hold) = self.holds.get_mut(*number) {
                        hold.end_renewal(false);
                    }
                    // The server may have applied it just now.
                    self.extend_clean_up(now, *number);
                }
                self.retry_renewals(now, &batch.holds);
            }
        }
        self.send_renewals(now);
    }

    /// A grant of permits tells how many the server knows to be held. If this client alone believes in more, some of its holds are gone:
    /// the server is asked at once which. Holds whose last reply came after the grant was asked for do not count, as above.
    pub(super) fn look_where_permits_are_missing(
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
        let counts = |other: &HoldNumber, hold: &Hold| {
            let certain = hold.is_disproved_by(sent_at);
            hold.lock == lock && (*other == number || certain)
        };
        let believed = self.holds.iter().filter(|(other, hold)| counts(other, hold));
        let believed: u64 = believed.map(|(_, hold)| hold.permits()).sum();
        if believed > in_all {
            let name = self.locks[lock].name.clone();
            self.look_at_holds(now, name.as_str());
        }
    }
}

// ===== Renewals in flight =====
//
// The renewals that are due; those on the way are among the pending calls.

/// How many times its first size the window of renewals may have. With a round trip of 400 ms and a first size of four,
/// the client renews 16 000 locks a second.
const GROWTH: usize = 16;

/// The renewals that are due.
#[derive(Debug)]
pub(super) struct Renewals {
    /// Due, in the order in which they became so within each group.
    due: BTreeMap<Group, VecDeque<HoldNumber>>,
    pub(super) sharing: Sharing,
    /// For renewals that wait for no replicas.
    window: Window,
    /// Maximum number in flight of renewals that wait for replicas. The time of their replies is that of the replicas, so it
    /// does not measure the server.
    durable: usize,
}

/// The holds that may share a renewal. A refusal of keys of several hash slots narrows it for the rest of the client's
/// life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sharing {
    /// Holds of all slots.
    #[default]
    All,
    /// Holds of one slot.
    Slot,
    /// A single hold: the server does not place keys by hash slots.
    None,
}

impl Renewals {
    /// No renewal is due. `in_flight` is the first size of the window.
    pub(super) fn new(in_flight: usize) -> Self {
        Self {
            due: BTreeMap::new(),
            sharing: Sharing::default(),
            window: Window::new(in_flight..=in_flight * GROWTH),
            durable: in_flight,
        }
    }

    /// Adds a hold whose renewal is due.
    pub(super) fn push(&mut self, group: Group, number: HoldNumber) {
        self.due.entry(group).or_default().push_back(number);
    }

    /// Whether one more renewal may be sent, with replicas or without.
    fn has_room(&self, in_flight: usize, durable: bool) -> bool {
        if durable { in_flight < self.durable } else { self.window.has_room(in_flight) }
    }

    /// A renewal without replicas has ended: the reply came after `took`, or there was none.
    pub(super) fn ended(&mut self, took: Option<Duration>) {
        match took {
            None => self.window.not_answered(),
            Some(_) if self.due.is_empty() => self.window.begin_anew(),
            Some(took) => self.window.answered(took),
        }
    }

    /// Narrows the holds that share a renewal. Due renewals are regrouped by the slots of the holds.
    pub(super) fn narrow(&mut self, sharing: Sharing, slot: impl Fn(HoldNumber) -> u16) {
        self.sharing = self.sharing.max(sharing);
        // The commands become many and short.
        self.durable = self.durable.max(RENEWALS_BY_SLOT);
        self.window = Window::new(self.durable..=self.durable * GROWTH);
        for ((script, _, replicas), numbers) in std::mem::take(&mut self.due) {
            for number in numbers {
                self.push((script, slot(number), replicas), number);
            }
        }
    }

    /// The first group that has room for one more call. `in_flight` counts the calls with replicas, or without.
    pub(super) fn next_group(&self, in_flight: impl Fn(bool) -> usize) -> Option<Group> {
        let has_room = |durable| self.has_room(in_flight(durable), durable);
        self.due.keys().find(|(_, _, replicas)| has_room(replicas.is_some())).copied()
    }

    /// Takes a batch of at most `most` holds out of a group. `permits` says how many permits a hold renews, or `None` where it wants no
    /// renewal any more; together they are not more than `most_permits`, unless it is one hold alone.
    pub(super) fn take(
        &mut self,
        group: Group,
        most: usize,
        most_permits: u32,
        permits: impl Fn(HoldNumber) -> Option<u32>,
    ) -> Vec<HoldNumber> {
        let Some(queue) = self.due.get_mut(&group) else { return Vec::new() };
        let most = if self.sharing == Sharing::None { 1 } else { most };
        let mut batch = Vec::with_capacity(queue.len().min(most));
        let mut in_all = 0;
        while batch.len() < most
            && let Some(number) = queue.front().copied()
        {
            let wanted = permits(number);
            in_all += wanted.unwrap_or_default();
            if in_all > most_permits && !batch.is_empty() {
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
}

/// The holds that may be renewed together: by script; by hash slot, because a script may only touch keys of one, where elsewhere than on a
/// cluster all have one number for a slot; and by the replicas that must acknowledge it, because the answer is about all of it.
pub(super) type Group = (&'static str, u16, Option<Replicas>);

// ===== The renewal of a hold =====
//
// The lease of a hold: until when it is believed in, and when it is renewed.

impl Hold {
    /// Takes a grant or a renewal that was sent at `sent_at` and left `left` of the lease. Says whether the hold is not yet known to be
    /// lost.
    pub(super) fn extend(&mut self, sent_at: Instant, left: Duration) -> bool {
        self.deadline.extend(&self.cell, sent_at, left)
    }

    /// Looks at the reply to a command that said how much of the lease is left. Says whether the deadline has not passed. A hold whose deadline
    /// was contradicted is renewed at once, unless a renewal is on its way.
    pub(super) fn observe_reply(&mut self, now: Instant, sent_at: Instant, left: Duration) -> bool {
        match self.deadline.observe_reply(&self.cell, now, sent_at, left) {
            Observed::Holds => true,
            Observed::Contradicted => {
                self.renew_at = self.renew_at.and(Some(now));
                true
            }
            Observed::Passed => false,
        }
    }

    /// Whether its deadline has passed.
    pub(super) fn has_passed(&self, now: Instant) -> bool {
        now >= self.cell.deadline()
    }

    /// Whether a command that was sent at `sent_at` proves by its grant that this hold is gone: nothing newer is known of it, and nothing is
    /// on its way.
    pub(super) fn is_disproved_by(&self, sent_at: Instant) -> bool {
        self.is_live() && self.change.is_none() && self.deadline.is_older_than(sent_at)
    }

    /// Notes how many replicas have its last grant or renewal.
    pub(super) fn note_acknowledged(&mut self, replicas: Option<u32>) {
        self.cell.set_acknowledged(replicas);
    }

    /// From now on these replicas must acknowledge it.
    pub(super) fn require_replicas(&mut self, replicas: Option<Replicas>) {
        self.set_replicas(replicas);
    }

    /// The server has granted what was granted without it. That never makes the deadline later.
    pub(super) fn restore(&mut self, now: Instant, change: &Change, left: Duration) {
        self.state.restore();
        self.deadline.told_at = now;
        self.cell.set_degraded(false);
        self.cell.set_acknowledged(change.acknowledged);
        self.cell.set_deadline(Deadline::from_reply(change.sent_at, left).min(self.cell.deadline()));
        self.extend_clean_up(now);
    }

    /// It is asked for again at this instant, while the server does not have it.
    pub(super) fn restore_at(&mut self, at: Instant) {
        self.renew_at = self.is_restorable().then_some(at);
    }

    /// Whether a renewal is to be sent, were it only to see whether the hold is still there.
    pub(super) fn wants_renewal(&self) -> bool {
        self.is_live() && !self.state.is_degraded() && (self.count.is_renewed() || self.look)
    }

    /// Plans the next renewal for `at`, or earlier where a reply that took long leaves less than two thirds of the lease. Instants are rounded
    /// down to slots, so that renewals of one client meet in batches. A lease that is not renewed is looked at where `reasserts` says so.
    pub(super) fn plan_renewal(&mut self, now: Instant, at: Instant, slot: Duration, reasserts: bool) {
        let deadline = self.cell.deadline();
        let at = if deadline < self.deadline.latest { at.min(now + deadline.since(now) / 2) } else { at };
        let slot = u64::try_from(slot.as_nanos()).unwrap_or(u64::MAX).max(1);
        let at = Instant::from_nanos(at.as_nanos() / slot * slot).max(now);
        self.look |= reasserts && !self.count.is_renewed();
        self.renew_at = (self.wants_renewal() && (self.count.is_renewed() || reasserts)).then_some(at);
    }

    /// Has it looked at by then, although its lease may not be renewed.
    pub(super) fn look_by(&mut self, at: Instant) {
        if !self.count.is_renewed() && !self.look {
            self.look = true;
            self.renew_at = Some(at);
        } else {
            // A hold without an instant has its renewal on the way, or waiting to go out.
            self.renew_at = self.renew_at.map(|planned| planned.min(at));
        }
    }

    /// A renewal of it failed, and is repeated at this instant.
    pub(super) fn retry_renewal(&mut self, at: Instant) {
        self.renew_at = self.wants_renewal().then_some(at);
    }

    /// Takes the plan of a renewal that is due. Says whether one is.
    pub(super) fn take_due_renewal(&mut self, now: Instant) -> bool {
        let is_due = self.renew_at.is_some_and(|at| at <= now) && self.is_live();
        if is_due {
            self.renew_at = None;
        }
        is_due
    }

    /// The replicas that must acknowledge a renewal. A lease that is only looked at is not renewed, so there is nothing to acknowledge.
    pub(super) fn replicas_of_renewal(&self) -> Option<Replicas> {
        self.replicas().filter(|_| self.count.is_renewed())
    }

    /// The lease that a renewal asks for. It ends with the longest time for which the lock is to be held. A lease that is not renewed is only
    /// looked at: a millisecond extends nothing.
    pub(super) fn lease_of_renewal(&self, now: Instant) -> Duration {
        let most = self.deadline.latest.since(now).saturating_add(Settings::margin(self.lease));
        let lease = if self.count.is_renewed() { self.lease.min(most) } else { Duration::ZERO };
        lease.max(Duration::from_millis(1))
    }

    /// A renewal is sent.
    pub(super) fn begin_renewal(&mut self) {
        self.count.begin_renewal();
    }

    /// A renewal is answered. Gives the counts of which its reply may tell. Where it `looked`, the look is done.
    pub(super) fn end_renewal(&mut self, looked: bool) -> Option<Range> {
        self.look &= !looked;
        self.count.end_renewal()
    }
}

// ===== Losses =====
//
// What a loss does, and which holds a grant proves lost.
//
// Several flows find that a hold is lost, and all of them call [`Session::lose`], which calls `Hold::lose`:
//
// | found by | reason |
// |---|---|
// | the deadline: the hold's timer (`hold_is_due`), a guard that goes (`take_guard`, `detach`), a re-entry (`check_entry`), or a reply that comes after it (`renew`, `reenter`, `restore`) | that of the deadline |
// | a renewal (`renew`), a re-entry (`reenter`) or a release (`release_reply`) whose reply says that the hold is gone | `Removed` |
// | a renewal or a re-entry whose reply has another count | `CountMismatch` |
// | a grant to another hold that this one would exclude (`lose_what_a_grant_excludes`) | `Removed` |
// | a refusal of what was granted without the server (`restore`) | `NotRestored` |
// | the end of the client (`shut_down`) | `ShutDown` |
//
// A guard that sees the deadline pass marks its `HoldCell` and stops its work at once; the session loses the hold when its timer comes. A
// release that finds its hold gone tells its caller so by itself: there is no guard left that could be told. A guard of several locks or
// servers counts the ended cells of its members (`Cells::ended` in `crates/leasehold/src/loss.rs`).

impl Session {
    /// Loses a hold: its guards are told, and nothing renews it any more.
    pub(super) fn lose(&mut self, now: Instant, number: HoldNumber, reason: LossReason) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        if !hold.lose(reason, &mut self.out.woken) {
            return;
        }
        let waiting = hold.take_waiting();
        self.out.tell(hold.lost(now, self.locks[hold.lock].name.clone(), reason));
        for ticket in waiting {
            self.fail_acquire(now, ticket, AcquireError::Lost(reason));
            self.finish_release(ticket, Err(ReleaseError::Lost(reason)));
        }
    }

    /// Loses a hold because of its deadline, which a guard may have seen pass already.
    pub(super) fn lose_by_deadline(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        let reason = hold.cell.reason_of_deadline();
        self.lose(now, number, reason);
    }

    /// Loses a hold whose deadline has passed, although the session has not said so yet.
    pub(super) fn lose_if_passed(&mut self, now: Instant, number: HoldNumber) {
        if self.holds.get(number).is_some_and(|hold| hold.is_live() && hold.has_passed(now)) {
            self.lose_by_deadline(now, number);
        }
    }

    /// A grant proves that the server has no other hold that it excludes. Such a hold of this client is lost, unless the server may have
    /// granted or renewed it later than the grant: then its last reply came after the grant was asked for.
    ///
    /// A reader excludes writers alone, but not the one `beside` whom it was let in.
    pub(super) fn lose_what_a_grant_excludes(
        &mut self,
        now: Instant,
        number: HoldNumber,
        sent_at: Instant,
        beside: Option<&Bytes>,
    ) {
        let Some(lock) = self.holds.get(number).filter(|hold| hold.is_live()).map(|hold| hold.lock) else { return };
        let is_reader = self.locks[lock].kind == Kind::Read;
        if !is_reader && !matches!(self.locks[lock].wait_policy(), WaitPolicy::Exclusive | WaitPolicy::ServerQueue) {
            return;
        }
        if self.locks.same_name(lock).map(|at| self.locks[at].held).sum::<u32>() < 2 {
            return;
        }
        let same: Vec<LockId> = self.locks.same_name(lock).collect();
        let is_excluded = |other: &HoldNumber, hold: &Hold| {
            let certain = !hold.is_degraded() && hold.is_disproved_by(sent_at);
            let conflicts = !is_reader || (self.locks[hold.lock].kind == Kind::Write && beside != Some(&hold.field()));
            *other != number && certain && conflicts && same.contains(&hold.lock)
        };
        let lost: Vec<HoldNumber> =
            self.holds.iter().filter(|(other, hold)| is_excluded(other, hold)).map(|(other, _)| other).collect();
        for other in lost {
            self.lose(now, other, LossReason::Removed);
            self.reconcile(now, other);
        }
    }
}

#[cfg(test)]
mod tests;
