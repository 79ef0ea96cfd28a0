//! Renewals: when the session renews which holds, in which batches, and which holds are lost; extensions by a caller.
//!
//! A hold is renewed after about a third of its lease. Holds that are due together share a call: see [`Renewals`]. An extension is a renewal
//! of one hold with the caller's own lease. The scripts never shorten a lease, so extensions and renewals may run in any order. An extension
//! is not repeated: its caller reads the outcome.
//!
//! A guard that sees the deadline pass marks its `HoldCell` and stops its work at once; the session loses the hold at its timer. A release
//! that finds its hold gone returns the loss to its caller, because no guard is left.

use crate::call::{Call, Replicas};
use crate::command::permits::MAX_AT_ONCE;
use crate::command::{Kind, Renewal, Renewed, WaitPolicy};
use crate::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use crate::link::{LinkError, ServerError};
use crate::name;
use crate::owner::HoldNumber;
use crate::reply::{DecodeError, Reply};
use crate::session::calls::{CallResult, Purpose};
use crate::session::grant::split_acknowledged;
use crate::session::hold::{Hold, shortfall};
use crate::session::lock::LockId;
use crate::session::request::RequestKind;
use crate::session::{Event, Failure, Session, Ticket, Window};
use crate::settings::{RENEWALS_BY_SLOT, Settings};
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::task::{Poll, Waker};
use std::time::Duration;

impl Session {
    /// Plans the next renewal of a hold: a third of the lease from now, less up to a fifth of that, so that the renewals of a fleet drift
    /// apart. Rounds down to a sixty-fourth of the period, so that the renewals of one client meet in batches.
    pub(super) fn schedule_renewal(&mut self, now: Instant, number: HoldNumber) {
        let hold = &mut self.holds[number];
        let mut period = hold.lease / 3;
        let mut wants = hold.count.is_renewed();
        if self.locks[hold.lock].protocol().shares_key() {
            // A reader of a JVM sets the key's time to live when it renews, and may die after that.
            let jvm_period = self.settings.jvm_watchdog / 3;
            hold.verify |= !wants && hold.lease > jvm_period;
            wants |= hold.lease > jvm_period;
            period = period.min(jvm_period);
        }
        let mut at = now + period - (period / 5).mul_f64(self.rng.f64());
        let deadline = hold.cell.deadline();
        if deadline < hold.cell.max_hold_at {
            // A slow reply may have left less than two thirds of the lease.
            at = at.min(now + deadline.since(now) / 2);
        }
        let step = u64::try_from((period / 64).as_nanos()).unwrap_or(u64::MAX).max(1);
        let at = Instant::from_nanos(at.as_nanos() / step * step).max(now);
        hold.renew_at = (wants && hold.wants_renewal()).then_some(at);
    }

    pub(super) fn hold_is_due(&mut self, now: Instant, number: HoldNumber) {
        let hold = &mut self.holds[number];
        hold.timer = None;
        self.lose_if_passed(now, number);
        let hold = &self.holds[number];
        if hold.lingers_until().is_some_and(|until| until <= now) {
            return self.stop_lingering(now, number);
        }
        let is_due = hold.is_live() && hold.renew_at.is_some_and(|at| at <= now);
        if is_due && hold.is_restorable() {
            self.restore(now, number);
        } else if is_due {
            self.queue_renewal(number);
        }
        self.reconcile(now, number);
    }

    fn queue_renewal(&mut self, number: HoldNumber) {
        let hold = &mut self.holds[number];
        hold.renew_at = None;
        let by_slot = self.settings.cluster || self.renewals.sharing != Sharing::All;
        let slot = if by_slot { name::slot(self.locks[hold.lock].name.key()) } else { 0 };
        let Some(script) = self.locks[hold.lock].protocol().renewal() else { return };
        // A check does not extend the lease, so replicas have nothing to acknowledge.
        let replicas = hold.replicas().filter(|_| hold.count.is_renewed());
        self.renewals.push((script.name(), slot, replicas), number);
    }

    pub(super) fn send_renewals(&mut self, now: Instant) {
        while let Some(group) = self.renewals.next_group() {
            let permits = |number: HoldNumber| {
                let hold = self.holds.get(number).filter(|hold| hold.wants_renewal())?;
                Some(hold.cell.permits())
            };
            let batch = self.renewals.take(group, self.settings.renew_batch, permits);
            if !batch.is_empty() {
                self.send_batch(now, batch, group.2, None);
            }
        }
    }

    /// Sends one call for holds of one group, with the lease of their own or of a caller's extension.
    fn send_batch(
        &mut self,
        now: Instant,
        holds: Vec<HoldNumber>,
        replicas: Option<Replicas>,
        extension: Option<(Ticket, Duration)>,
    ) {
        let mut renewal = Renewal { publish: self.settings.publish.clone(), ..Renewal::default() };
        let mut script = None;
        for number in &holds {
            let hold = &mut self.holds[*number];
            hold.count.begin_renewal();
            let lock = &self.locks[hold.lock];
            let protocol = lock.protocol();
            script = protocol.renewal();
            let lease = extension.map_or_else(|| hold.lease_of_renewal(now), |(_, lease)| lease);
            protocol.renew(&mut renewal, &lock.name, lock.keys(), &hold.cell.key(), lease);
        }
        let Some(script) = script else { return };
        let call = Call::new(script, renewal.keys, renewal.args).with_replicas(replicas);
        if extension.is_none() {
            self.renewals.window(replicas).begin();
        }
        self.send(now, call, Purpose::Renewal(Box::new(Batch { sent_at: now, holds, replicas, extension })));
    }

    pub(super) fn handle_renewed(&mut self, now: Instant, batch: Batch, result: CallResult) {
        if let Some((ticket, lease)) = batch.extension {
            return self.handle_extended(now, &batch, ticket, lease, result);
        }
        let is_answered = matches!(&result, Ok(_) | Err(LinkError::Refused(_)));
        self.renewals.ended(batch.replicas, is_answered.then(|| now.since(batch.sent_at)));
        let several_slots = matches!(&result, Err(LinkError::Refused(refusal)) if refusal.is_of_several_slots());
        if several_slots && self.split_batch(now, &batch.holds) {
            return self.send_renewals(now);
        }
        let decoded = match result {
            Ok(reply) => batch.decode(&reply).map_err(|error| (error.to_string(), true)),
            Err(error) => Err((error.to_string(), error.is_lasting())),
        };
        let mut failed = Vec::new();
        match decoded {
            Ok((outcomes, acknowledged)) => {
                let holds = batch.holds.len();
                let cells = || batch.holds.iter().filter_map(|number| Some(&self.holds.get(*number)?.cell));
                let left = cells().map(|cell| cell.deadline().since(now)).min().unwrap_or_default();
                let oldest = cells().map(|cell| now.since(cell.acquired_at())).max().unwrap_or_default();
                let event = match shortfall(batch.replicas, acknowledged) {
                    None => Event::Renewed { holds, left, oldest },
                    Some(error) => {
                        let (why, lasting) = (error.to_string(), self.note_refusals(&batch.holds));
                        Event::RenewalFailed(holds, Failure { why, lasting })
                    }
                };
                self.out.emit(event);
                for (number, outcome) in batch.holds.into_iter().zip(outcomes) {
                    if !self.hold_renewed(now, batch.sent_at, number, outcome, acknowledged) {
                        failed.push(number);
                    }
                }
            }
            Err((why, lasting)) => {
                let lasting = lasting && self.note_refusals(&batch.holds);
                self.out.emit(Event::RenewalFailed(batch.holds.len(), Failure { why, lasting }));
                batch.holds.iter().for_each(|number| self.renewal_failed(now, *number));
                failed = batch.holds;
            }
        }
        self.retry_renewals(now, &failed);
        self.send_renewals(now);
    }

    fn renewal_failed(&mut self, now: Instant, number: HoldNumber) {
        if let Some(hold) = self.holds.get_mut(number) {
            hold.end_renewal(false);
        }
        // The server may have applied the renewal just now.
        self.extend_clean_up(now, number);
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
            }
        }
        self.retry_renewals_at(now, numbers);
        true
    }

    /// Records for each hold that the server refuses its command. Returns whether that is new for any hold.
    fn note_refusals(&mut self, numbers: &[HoldNumber]) -> bool {
        let is_new = |number: &HoldNumber| self.holds.get_mut(*number).is_some_and(Hold::note_refusal);
        // `fold`, not `any`: every hold must be recorded.
        numbers.iter().map(is_new).fold(false, |any, is_new| any | is_new)
    }

    /// Applies the reply to the renewal of one hold. Returns false if the renewal must be retried.
    fn hold_renewed(
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
        let possible = hold.end_renewal(outcome != Renewed::Refused);
        if !hold.is_live() {
            // The renewal in flight may have been all that kept the session from forgetting the hold.
            self.reconcile(now, number);
            return true;
        }
        // A failover could undo a renewal without enough replicas: it does not move the deadline.
        let is_durable = shortfall(hold.replicas(), acknowledged).is_none();
        let lost = match outcome {
            _ if hold.has_passed(now) => Some(hold.cell.reason_of_deadline()),
            Renewed::Refused => return false,
            Renewed::Gone => Some(LossReason::Removed),
            Renewed::Held { count, .. } if counts && !possible.contains(&count) => Some(LossReason::CountMismatch),
            Renewed::Held { left, .. } if hold.observe_reply(now, sent_at, left, is_durable) => None,
            Renewed::Held { .. } => Some(hold.cell.reason_of_deadline()),
        };
        if let Some(reason) = lost {
            self.lose(now, number, reason);
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
        self.retry_renewals_at(at, numbers);
    }

    fn retry_renewals_at(&mut self, at: Instant, numbers: &[HoldNumber]) {
        for number in numbers {
            if let Some(hold) = self.holds.get_mut(*number) {
                hold.renew_at = hold.wants_renewal().then_some(at);
            }
            self.set_hold_timer(*number);
        }
    }

    /// Renews every hold at once, spread over at most a second: the server may have lost holds.
    pub(super) fn renew_all(&mut self, now: Instant) {
        // Holds of one batch share an instant: a hold with its own instant is its own batch.
        let batch = self.settings.renew_batch.max(1);
        let mut at = now;
        for holds in self.holds_where(Hold::is_live).chunks(batch) {
            holds.iter().for_each(|number| self.verify_hold(*number, at));
            let pause = Duration::from_micros(50).saturating_mul(u32::try_from(batch).unwrap_or(u32::MAX));
            at = (at + pause).min(now + Duration::from_secs(1));
        }
    }

    /// Checks the holds of a lock now.
    pub(super) fn verify_holds(&mut self, now: Instant, lock: LockId) {
        for number in self.holds_where(|hold| hold.is_live() && hold.lock == lock) {
            self.verify_hold(number, now);
        }
    }

    /// Plans a check of a hold for `at` at the latest, even if no guard wants the lease renewed.
    pub(super) fn verify_hold(&mut self, number: HoldNumber, at: Instant) {
        let hold = &mut self.holds[number];
        if !hold.count.is_renewed() && !hold.verify {
            hold.verify = true;
            hold.renew_at = Some(at);
        } else {
            // Without an instant, the renewal is queued or in flight.
            hold.renew_at = hold.renew_at.map(|planned| planned.min(at));
        }
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
        let is_believed = |other: HoldNumber, hold: &Hold| other == number || hold.is_disproved_by(sent_at);
        let of_lock = self.holds.iter().filter(|(_, hold)| hold.lock == lock);
        let believed = of_lock.filter(|(other, hold)| is_believed(*other, hold));
        if believed.map(|(_, hold)| hold.permits()).sum::<u64>() > in_all {
            self.verify_holds(now, lock);
        }
    }
}

/// Extensions.
impl Session {
    /// Sets the lease of a hold to at least `lease` from now, capped by its `max_hold`. Later renewals keep their own lease.
    ///
    /// The call goes on even if the caller does not wait for its outcome.
    pub fn extend(&mut self, now: Instant, number: HoldNumber, lease: Duration) -> Ticket {
        let ticket = Ticket::new(self.new_number());
        self.lose_if_passed(now, number);
        let mut outcome = Some(Ok(()));
        if let Some(reason) = self.lost_as(number) {
            outcome = Some(Err(AcquireError::Lost(reason)));
        } else {
            let hold = &mut self.holds[number];
            if hold.state.is_degraded() {
                hold.extend_lease(now, lease);
                self.set_hold_timer(number);
            } else if self.locks[hold.lock].protocol().renewal().is_some() {
                let (lease, replicas) = (hold.limit_renewal(now, lease), hold.replicas());
                self.send_batch(now, vec![number], replicas, Some((ticket, lease)));
                outcome = None;
            }
        }
        self.requests.insert(ticket, RequestKind::Extension { outcome });
        ticket
    }

    /// Polls an extension. The ticket is invalid once this is ready.
    pub fn poll_extension(&mut self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), AcquireError>> {
        self.poll_result(ticket, waker, outcome_of_extension).map(|outcome| outcome.unwrap_or(Ok(())))
    }

    /// Drops the future of an extension. A call in flight still counts.
    pub fn abandon_extension(&mut self, ticket: Ticket) {
        self.remove_request(ticket);
    }

    /// The lease that the renewals of a hold ask for, or its fixed lease; zero for a hold that is gone.
    pub fn lease_of(&self, number: HoldNumber) -> Duration {
        self.holds.get(number).map_or(Duration::ZERO, |hold| hold.lease)
    }

    /// The reason why a guard's hold cannot be extended. The hold exists until the guard ends, unless the session ends first.
    fn lost_as(&self, number: HoldNumber) -> Option<LossReason> {
        match self.holds.get(number).map(|hold| hold.end()) {
            Some(None) => None,
            Some(Some(HoldEnd::Lost(reason))) => Some(reason),
            Some(Some(HoldEnd::Released | HoldEnd::Detached)) | None => Some(LossReason::ShutDown),
        }
    }

    fn handle_extended(&mut self, now: Instant, batch: &Batch, ticket: Ticket, lease: Duration, result: CallResult) {
        let number = batch.holds[0];
        // The server may have applied the extension just now.
        if let Some(hold) = self.holds.get_mut(number) {
            hold.clean_up.until = hold.clean_up.until.max(now + lease);
        }
        let decode = |reply| batch.decode(&reply).map_err(|error| LinkError::Unknown(error.to_string()));
        let outcome = match result.and_then(decode) {
            Ok((outcomes, acknowledged)) => {
                let done = self.hold_renewed(now, batch.sent_at, number, outcomes[0], acknowledged);
                let lost = self.lost_as(number).map(AcquireError::Lost);
                let short = shortfall(batch.replicas, acknowledged).filter(|_| outcomes[0] != Renewed::Refused);
                match lost {
                    None if done => Ok(()),
                    lost => Err(lost.or(short).unwrap_or_else(|| AcquireError::Refused(ServerError::new(REFUSED)))),
                }
            }
            Err(error) => {
                self.renewal_failed(now, number);
                self.reconcile(now, number);
                Err(match error {
                    LinkError::NotSent(why) => AcquireError::Unreachable(why),
                    LinkError::Unknown(why) => AcquireError::OutcomeUnknown(why),
                    LinkError::Refused(refusal) => AcquireError::Refused(refusal),
                })
            }
        };
        self.set_result(ticket, outcome_of_extension, outcome);
    }
}

pub(super) const fn outcome_of_extension(request: &mut RequestKind) -> Option<&mut Option<Result<(), AcquireError>>> {
    match request {
        RequestKind::Extension { outcome } => Some(outcome),
        _ => None,
    }
}

/// The error of a server that refuses a command for the lock's key without an error of the script.
const REFUSED: &str = "NOPERM the server refuses to read or to renew the key of the lock";

/// Losses.
impl Session {
    /// Ends a hold for its guards, and fails the requests that wait for it. The first loss counts.
    pub(super) fn lose(&mut self, now: Instant, number: HoldNumber, reason: LossReason) {
        let hold = &mut self.holds[number];
        if !hold.cell.end(HoldEnd::Lost(reason), &mut self.out.woken) {
            return;
        }
        hold.renew_at = None;
        if reason == LossReason::Removed {
            hold.count.on_server = 0;
        }
        let waiting = hold.take_waiting();
        self.out.emit(hold.lost(now, self.locks[hold.lock].name.clone(), reason));
        for ticket in waiting {
            self.fail_acquire(now, ticket, AcquireError::Lost(reason));
            self.finish_release(ticket, Err(ReleaseError::Lost(reason)));
        }
    }

    pub(super) fn lose_by_deadline(&mut self, now: Instant, number: HoldNumber) {
        let reason = self.holds[number].cell.reason_of_deadline();
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
        let is_excluded = |hold: &Hold| {
            let certain = !hold.state.is_degraded() && hold.is_disproved_by(sent_at);
            let conflicts =
                || !is_reader || (self.locks[hold.lock].kind == Kind::Write && beside != Some(&hold.cell.field()));
            certain && self.locks.same_name(lock).any(|at| at == hold.lock) && conflicts()
        };
        for other in self.holds_where(is_excluded).into_iter().filter(|other| *other != number) {
            self.lose(now, other, LossReason::Removed);
            self.reconcile(now, other);
        }
    }
}

/// The lease of a hold.
impl Hold {
    pub(super) fn has_passed(&self, now: Instant) -> bool {
        now >= self.cell.deadline()
    }

    /// Whether a grant to another hold, by a command sent at `sent_at`, proves this hold gone: no reply is newer, and no change in flight.
    pub(super) fn is_disproved_by(&self, sent_at: Instant) -> bool {
        self.is_live() && self.change.is_none() && self.last_reply_at < sent_at
    }

    pub(super) fn restore_at(&mut self, at: Instant) {
        self.renew_at = self.is_restorable().then_some(at);
    }

    /// Whether to send a renewal, even if it only checks that the hold exists.
    pub(super) fn wants_renewal(&self) -> bool {
        self.is_live() && !self.state.is_degraded() && (self.count.is_renewed() || self.verify)
    }

    /// The lease of a renewal. A check asks for a millisecond, which extends nothing.
    fn lease_of_renewal(&self, now: Instant) -> Duration {
        self.limit_renewal(now, if self.count.is_renewed() { self.lease } else { Duration::ZERO })
    }

    /// The lease, capped by the rest of `max_hold`.
    fn limit_renewal(&self, now: Instant, lease: Duration) -> Duration {
        let most = self.cell.max_hold_at.since(now).saturating_add(Settings::margin(lease));
        lease.min(most).max(Duration::from_millis(1))
    }

    /// Ends a renewal. Returns the counts that its reply may have. `verified` ends a check.
    fn end_renewal(&mut self, verified: bool) -> RangeInclusive<u32> {
        self.verify &= !verified;
        self.count.end_renewal()
    }
}

/// A renewal in flight.
#[derive(Debug)]
pub(super) struct Batch {
    sent_at: Instant,
    holds: Vec<HoldNumber>,
    /// The replicas that must acknowledge the renewal.
    replicas: Option<Replicas>,
    /// The request that extends the one hold, and its lease.
    pub(super) extension: Option<(Ticket, Duration)>,
}

impl Batch {
    /// The outcome for each hold, and the number of replicas that acknowledged a durable renewal.
    fn decode(&self, reply: &Reply) -> Result<(Vec<Renewed>, Option<u32>), DecodeError> {
        let (reply, acknowledged) = split_acknowledged(reply, self.replicas)?;
        Ok((Renewed::decode(reply, self.holds.len())?, acknowledged))
    }
}

/// Growth limit of the window of renewals, in first sizes. With a round trip of 400 ms and a first size of four, the client renews 16 000
/// locks a second.
const GROWTH: usize = 16;

/// The renewals that are due, and the windows of those in flight.
#[derive(Debug)]
pub(super) struct Renewals {
    /// First due, first out within each group.
    due: BTreeMap<Group, VecDeque<HoldNumber>>,
    sharing: Sharing,
    window: Window,
    /// For renewals with replicas. It does not grow: their replies take as long as the replicas, and do not measure the server.
    durable: Window,
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
    /// `size` is the first size of the windows.
    pub(super) fn new(size: usize) -> Self {
        Self {
            due: BTreeMap::new(),
            sharing: Sharing::default(),
            window: Window::new(size..=size * GROWTH),
            durable: Window::new(size..=size),
        }
    }

    const fn window(&mut self, replicas: Option<Replicas>) -> &mut Window {
        if replicas.is_some() { &mut self.durable } else { &mut self.window }
    }

    fn push(&mut self, group: Group, number: HoldNumber) {
        self.due.entry(group).or_default().push_back(number);
    }

    /// The first group with room for a call.
    fn next_group(&mut self) -> Option<Group> {
        let room = [self.window.has_room(), self.durable.has_room()];
        self.due.keys().find(|(_, _, replicas)| room[usize::from(replicas.is_some())]).copied()
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

    /// A renewal ended: with a reply after `took`, or without a reply.
    fn ended(&mut self, replicas: Option<Replicas>, took: Option<Duration>) {
        let more = !self.due.is_empty();
        self.window(replicas).end(took, more);
    }

    /// Narrows the sharing, and regroups the due renewals by slot.
    fn narrow(&mut self, sharing: Sharing, slot: impl Fn(HoldNumber) -> u16) {
        self.sharing = self.sharing.max(sharing);
        // The calls become many and short.
        let size = RENEWALS_BY_SLOT.max(*self.durable.bounds.start());
        self.durable.restart(size..=size);
        self.window.restart(size..=size * GROWTH);
        for ((script, _, replicas), numbers) in std::mem::take(&mut self.due) {
            for number in numbers {
                self.push((script, slot(number), replicas), number);
            }
        }
    }
}

#[cfg(test)]
mod tests;
