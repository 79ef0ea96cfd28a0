//! Calls: queued output, calls in flight, deadlines, replies and settlements.
//!
//! The session queues each call with its purpose and waits for the reply until the command timeout. A call without a reply has an unknown
//! outcome: the server may still apply a copy of it. The session **settles** such a call before it sends anything else for the hold: the link
//! makes sure that no copy can be applied any more.
//!
//! One settlement serves all holds of a hash slot whose calls wait for replicas, or all whose calls do not. Without a cluster there is
//! one slot. A hold that comes during a settlement waits for the next one: its call may have been sent too late for the first.

use crate::call::{Call, Replicas};
use crate::command::{AcquireArgs, Acquired, KindProtocol, WaitPolicy, record};
use crate::link::{LinkError, Settled};
use crate::name;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::grant::split_acknowledged;
use crate::session::hold::{Change, CountChange};
use crate::session::lock::LockId;
use crate::session::renew::Batch;
use crate::session::request::Acquire;
use crate::session::{Action, CallId, Event, Failure, Outgoing, Patience, Session, Ticket, Timer, pause_before};
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

/// Extra time for a call beyond the command timeout. By then the link reports its own error, which may prove that it sent nothing.
const REPLY_GRACE: Duration = Duration::from_millis(20);

/// The output of a session. It is drained after every public call.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) calls: VecDeque<(CallId, Call)>,
    pub(super) actions: VecDeque<Action>,
    pub(super) events: VecDeque<Event>,
    /// The first of the woken: most calls wake one future and need no list.
    first_woken: Option<Waker>,
    pub(super) woken: Vec<Waker>,
}

impl Out {
    pub(super) fn emit(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(super) fn wake(&mut self, waker: Waker) {
        if self.woken.is_empty() && self.first_woken.is_none() {
            self.first_woken = Some(waker);
        } else {
            self.woken.push(waker);
        }
    }

    pub(super) fn take_woken(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.first_woken.take().into_iter().chain(std::mem::take(&mut self.woken))
    }
}

/// Sends calls.
impl Session {
    /// The next call to send. A reply that misses the command timeout counts as an unknown outcome.
    pub fn poll_call(&mut self) -> Option<Outgoing> {
        // A suspended thread may send late: skip calls that the session has given up.
        let mut queued = std::iter::from_fn(|| self.out.calls.pop_front());
        let (id, call) = queued.find(|(id, _)| self.pending.calls.contains_key(id))?;
        Some(Outgoing { id, call, of_request: self.is_of_request(id) })
    }

    pub(super) fn is_of_request(&self, id: CallId) -> bool {
        match self.pending.calls.get(&id) {
            Some(Purpose::Change(number)) => {
                self.holds[*number].change.as_ref().is_some_and(|change| change.by.is_some())
            }
            Some(Purpose::Renewal(batch)) => batch.extension.is_some(),
            _ => false,
        }
    }

    pub(super) fn protocol_of(&self, number: HoldNumber) -> &'static dyn KindProtocol {
        let kind = self.holds.get(number).map(|hold| self.locks[hold.lock].kind);
        kind.unwrap_or_default().protocol()
    }

    /// Sends an acquire that raises a hold's count to `count`: for a request, or to restore the hold.
    pub(super) fn send_acquire(
        &mut self,
        now: Instant,
        number: HoldNumber,
        by: Option<Ticket>,
        count: u32,
        lease: Duration,
        not_after: Option<u64>,
    ) {
        let (hold, acquire) = (&self.holds[number], by.map(|ticket| &self.requests[ticket]));
        let lock = &self.locks[hold.lock];
        let call = lock.protocol().acquire(&AcquireArgs {
            name: &lock.name,
            keys: lock.keys(),
            hold: &hold.cell.key(),
            beside: acquire.and_then(Acquire::beside),
            count,
            lease,
            not_after,
            waits: acquire.is_some_and(|acquire| acquire.request.patience != Patience::Try),
            placed: acquire.is_some_and(|acquire| acquire.had_place),
            prefer_writers: acquire.and_then(|acquire| acquire.request.prefer_writers),
            settings: &self.settings,
        });
        let of_request = acquire.and_then(|acquire| acquire.request.replicas);
        let replicas = hold.replicas().into_iter().chain(of_request).reduce(Replicas::and);
        let call = call.with_replicas(replicas).repeating(acquire.is_some_and(|acquire| acquire.polls > 0));
        self.send_change(now, number, by, CountChange::RaiseTo(count), call);
    }

    /// Queues a call that changes the count of `number`. `by` is the request; `None` for the background.
    pub(super) fn send_change(
        &mut self,
        now: Instant,
        number: HoldNumber,
        by: Option<Ticket>,
        aim: CountChange,
        call: Call,
    ) {
        let replicas = call.replicas();
        self.send(now, call, Purpose::Change(number));
        let lease =
            by.and_then(|ticket| self.requests.acquire(ticket)).map_or(Duration::ZERO, |acquire| acquire.request.lease);
        let change = Change {
            by,
            aim,
            before: 0,
            resets: self.resets,
            sent_at: now,
            lease,
            is_settling: false,
            replicas,
            acknowledged: None,
        };
        self.holds[number].begin_change(self.pending.boxed(change));
    }

    /// Queues a call.
    pub(super) fn send(&mut self, now: Instant, call: Call, purpose: Purpose) {
        let id = CallId(self.new_number());
        let within = call.replicas().map_or(Duration::ZERO, |replicas| replicas.within);
        self.pending.insert(now + self.settings.command_timeout + within + REPLY_GRACE, id, purpose);
        self.out.calls.push_back((id, call));
    }

    pub(super) fn end_change(&mut self, number: HoldNumber) -> Option<Change> {
        let change = self.holds.get_mut(number)?.change.take()?;
        Some(self.pending.unboxed(change))
    }

    /// Extends the clean-up by the queue's idle time. A place in a queue has no lease, and the client may have missed the reply about it.
    pub(super) fn keep_until_queue_expires(&mut self, now: Instant, number: HoldNumber) {
        let idle = self.settings.fair.idle;
        let in_places = self.protocol_of(number).wait_policy() == WaitPolicy::ServerQueue;
        if let Some(hold) = self.holds.get_mut(number).filter(|hold| hold.state.is_queued() || in_places) {
            hold.clean_up.until = hold.clean_up.until.max(now + idle);
        }
    }

    /// Decodes the reply to an acquire, and stores how many replicas acknowledged it.
    pub(super) fn raised(&mut self, number: HoldNumber, result: CallResult) -> Result<Acquired, LinkError> {
        let (reply, protocol) = (result?, self.protocol_of(number));
        let mut change = self.holds[number].change.as_mut();
        let replicas = change.as_ref().and_then(|change| change.replicas);
        let acquired = split_acknowledged(&reply, replicas).and_then(|(reply, acknowledged)| {
            if let Some(change) = &mut change {
                change.acknowledged = acknowledged;
            }
            protocol.acquired(reply)
        });
        acquired.map_err(|error| LinkError::Unknown(error.to_string()))
    }

    /// The server time after which the script refuses a first acquire that is sent now; 0 while the server's clock is unknown.
    pub(super) fn not_after(&self, now: Instant) -> u64 {
        self.server_clock.as_ref().map_or(0, |clock| {
            let millis = (now.since(clock.at) + self.settings.command_timeout).as_millis();
            clock.time.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX))
        })
    }

    /// Stores the server's time. The server read it after the call left, so an estimate from it is never behind.
    pub(super) fn note_time(&mut self, now: Instant, sent_at: Instant, time: Option<u64>) {
        if let Some(time) = time {
            let known_since = self.server_clock.as_ref().map_or(now, |clock| clock.known_since);
            self.server_clock = Some(ServerClock { time, at: sent_at, known_since });
        }
    }

    /// Whether a call was sent before the client knew the server's time.
    pub(super) fn was_time_unknown(&self, sent_at: Instant) -> bool {
        self.server_clock.as_ref().is_none_or(|clock| sent_at <= clock.known_since)
    }
}

/// The server's clock.
#[derive(Debug)]
pub(super) struct ServerClock {
    /// Milliseconds since the epoch, at or after `at`.
    time: u64,
    at: Instant,
    known_since: Instant,
}

/// Handles replies and timeouts.
impl Session {
    /// Handles the outcome of a call. Ignores calls that the session has given up.
    pub fn handle_called(&mut self, now: Instant, id: CallId, result: Result<Reply, LinkError>) {
        let Some(purpose) = self.pending.take(id) else { return };
        match purpose {
            Purpose::Change(number) => self.handle_changed(now, number, result),
            Purpose::Renewal(batch) => self.handle_renewed(now, *batch, result),
            Purpose::Heartbeat(lock) => self.handle_heartbeat(now, lock, result),
            Purpose::Record => self.record_written(now, result.is_ok_and(|reply| record::put_done(&reply).is_ok())),
            Purpose::Nothing => {}
        }
    }

    fn handle_changed(&mut self, now: Instant, number: HoldNumber, result: CallResult) {
        let hold = &self.holds[number];
        let Some(change) = &hold.change else { return };
        let ticket = match (change.by, change.aim) {
            (Some(_), CountChange::LowerTo(_)) => return self.handle_lowered(now, number, result),
            (None, CountChange::LowerTo(_)) => {
                self.to_lower.ended(result.is_ok().then(|| now.since(change.sent_at)));
                self.handle_lowered(now, number, result);
                return self.lower_more(now);
            }
            (None, _) => return self.handle_restored(now, number, result),
            (Some(ticket), CountChange::Offer) => return self.handle_offered(now, ticket, number, result),
            (Some(ticket), CountChange::Adopt) => return self.handle_adopted(now, ticket, number, result),
            (Some(ticket), CountChange::RaiseTo(_)) => ticket,
        };
        match self.requests.acquire(ticket).filter(|_| hold.raising == Some(ticket)) {
            Some(acquire) if acquire.hold == Some(number) => self.handle_first_reply(now, ticket, number, result),
            Some(acquire) if acquire.entering() == Some(number) => {
                self.handle_enter_reply(now, ticket, number, result);
            }
            _ => return self.handle_abandoned_reply(now, number, result),
        }
        // The next poll reads the outcome or sends the next call.
        self.wake(ticket);
    }

    /// Processes the outcome of an acquire. Returns `None` for an unknown outcome, and settles the call. The request fails now if this was its
    /// last attempt.
    pub(super) fn end_raise(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: CallResult,
    ) -> Option<(Change, Result<Acquired, LinkError>)> {
        let outcome = self.raised(number, result);
        if let Err(LinkError::Unknown(why)) = &outcome {
            self.requests[ticket].failures.set_outcome_unknown(true);
            self.record_failure(now, ticket, why);
            self.begin_settling(number);
            if self.requests.acquire(ticket).is_some_and(|acquire| acquire.is_final_attempt) {
                let error = self.failure_error(ticket);
                self.fail_acquire(now, ticket, error);
            }
            return None;
        }
        if outcome.is_ok() {
            self.outages.seen_since = None;
            // The clean-up must cover the change's lease too, so extend it before the change ends.
            self.extend_clean_up(now, number);
        }
        let change = self.end_change(number)?;
        self.extend_clean_up(now, number);
        Some((change, outcome))
    }

    /// Handles the reply to a call whose request ended or no longer needs it. The background reverts the call's effect.
    fn handle_abandoned_reply(&mut self, now: Instant, number: HoldNumber, result: CallResult) {
        match result {
            Err(LinkError::Unknown(_)) => self.begin_settling(number),
            Err(LinkError::NotSent(_)) => {
                let Some(change) = self.end_change(number) else { return };
                self.holds[number].count.on_server = change.before;
                self.reconcile(now, number);
            }
            Ok(_) | Err(LinkError::Refused(_)) => self.change_settled(now, number, true),
        }
    }

    /// Lets time pass up to `now`: everything that is due happens.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(due) = self.timers.pop(now) {
            match due {
                Timer::Lock(lock) => self.lock_is_due(now, lock),
                Timer::Hold(number) => self.hold_is_due(now, number),
                Timer::Listening(lock) => self.listening_is_due(now, lock),
                Timer::Channel(id) => self.subscriptions.is_due(id, &mut self.out),
                Timer::Request(ticket) => self.request_is_due(now, ticket),
            }
        }
        while let Some(id) = self.pending.pop_due(now) {
            let why = "no reply came within the command timeout".to_owned();
            self.handle_called(now, id, Err(LinkError::Unknown(why)));
        }
        for scope in self.settlements.due(now) {
            self.send_settle(scope);
        }
        self.record_is_due(now);
        self.send_renewals(now);
    }
}

/// Settles calls without a reply.
impl Session {
    /// Settles a hold's call after its reply was lost. The hold sends nothing until then.
    pub(super) fn begin_settling(&mut self, number: HoldNumber) {
        let hold = &mut self.holds[number];
        let Some(change) = hold.change.as_mut().filter(|change| !change.is_settling) else { return };
        change.is_settling = true;
        let (key, durable) = (self.locks[hold.lock].name.to_key(), change.replicas.is_some());
        hold.doubt_lowering();
        self.settle(key, durable, number);
    }

    fn settle(&mut self, key: Bytes, durable: bool, number: HoldNumber) {
        let scope = (if self.settings.cluster { name::slot(&key) } else { 0 }, durable);
        match self.settlements.open.get_mut(&scope) {
            None => {
                let state = SettlementState::RetryAt(Instant::FAR_FUTURE);
                let settlement = Settlement { key, holds: vec![number], late: Vec::new(), state, failures: 0 };
                self.settlements.open.insert(scope, settlement);
                self.send_settle(scope);
            }
            Some(Settlement { state: SettlementState::UnderWay(_), late, .. }) => late.push(number),
            Some(settlement) => settlement.holds.push(number),
        }
    }

    fn send_settle(&mut self, scope: Scope) {
        let id = CallId(self.new_number());
        if let Some(settlement) = self.settlements.open.get_mut(&scope) {
            settlement.state = SettlementState::UnderWay(id);
            self.out.actions.push_back(Action::Settle { id, key: settlement.key.clone(), durable: scope.1 });
        }
    }

    /// Handles the result of [`Action::Settle`].
    pub fn handle_settled(&mut self, now: Instant, id: CallId, result: Result<Settled, LinkError>) {
        self.settlements.answered_at = Some(now);
        let open = &mut self.settlements.open;
        let found = open.iter().find(|(_, settlement)| settlement.state == SettlementState::UnderWay(id));
        let Some(scope) = found.map(|(scope, _)| *scope) else { return };
        let Some(mut settlement) = open.remove(&scope) else { return };
        match result {
            Ok(settled) => {
                for number in settlement.holds {
                    self.change_settled(now, number, settled == Settled::Proven);
                }
                for number in settlement.late {
                    self.settle(settlement.key.clone(), scope.1, number);
                }
            }
            Err(error) => {
                if let Some(hold) = settlement.holds.first().and_then(|number| self.holds.get(*number)) {
                    let failure = Failure { why: error.to_string(), lasting: error.is_lasting() };
                    self.out.emit(Event::CleanUpFailed(self.locks[hold.lock].name.clone(), failure));
                }
                settlement.holds.append(&mut settlement.late);
                settlement.failures = settlement.failures.saturating_add(1);
                // Clean-up is not urgent.
                let pause = pause_before(settlement.failures.saturating_add(1));
                settlement.state = SettlementState::RetryAt(now + pause.mul_f64(0.5 + self.rng.f64() / 2.0));
                self.settlements.open.insert(scope, settlement);
            }
        }
    }

    /// Continues a hold after its change was settled. Only with `proven` is it certain that no copy can still be applied.
    fn change_settled(&mut self, now: Instant, number: HoldNumber, proven: bool) {
        // The server may have applied the change until now.
        self.extend_clean_up(now, number);
        let hold = &mut self.holds[number];
        if let Some(ticket) = hold.note_settled(now, proven) {
            if self.requests[ticket].is_final_attempt {
                let error = self.failure_error(ticket);
                self.fail_acquire(now, ticket, error);
            } else {
                self.resend_now(now, ticket);
            }
        }
        self.reconcile(now, number);
    }
}

/// The calls that are settled together: the hash slot, and whether they wait for replicas.
pub(super) type Scope = (u16, bool);

#[derive(Debug, Default)]
pub(super) struct Settlements {
    open: BTreeMap<Scope, Settlement>,
    /// The time of the last answer.
    answered_at: Option<Instant>,
}

#[derive(Debug)]
struct Settlement {
    key: Bytes,
    holds: Vec<HoldNumber>,
    /// Holds that came during the settlement, which may not cover them.
    late: Vec<HoldNumber>,
    state: SettlementState,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettlementState {
    UnderWay(CallId),
    RetryAt(Instant),
}

impl Settlements {
    /// Whether a settlement was in flight at `since` or later. The link resends no call that was in flight during it.
    pub(super) fn at_work_since(&self, since: Instant) -> bool {
        let is_under_way = |settlement: &Settlement| matches!(settlement.state, SettlementState::UnderWay(_));
        self.answered_at.is_some_and(|at| at >= since) || self.open.values().any(is_under_way)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let retries = self.open.values().filter_map(|settlement| match settlement.state {
            SettlementState::RetryAt(at) => Some(at),
            SettlementState::UnderWay(_) => None,
        });
        retries.min()
    }

    pub(super) fn due(&self, now: Instant) -> Vec<Scope> {
        let is_due = |settlement: &Settlement| matches!(settlement.state, SettlementState::RetryAt(at) if at <= now);
        self.open.iter().filter(|(_, settlement)| is_due(settlement)).map(|(scope, _)| *scope).collect()
    }
}

pub(super) type CallResult = Result<Reply, LinkError>;

#[derive(Debug)]
pub(super) enum Purpose {
    /// It changes the count of this hold, as its [`Change`] says.
    Change(HoldNumber),
    Renewal(Box<Batch>),
    /// A heartbeat for the waiters of a fair lock.
    Heartbeat(LockId),
    Record,
    Nothing,
}

/// Minimum number of entries before [`Pending::insert`] drops answered calls.
const MIN_TO_COMPACT: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) calls: BTreeMap<CallId, Purpose>,
    /// An answered call leaves at the front, because removal from the middle costs more than the memory.
    by_deadline: VecDeque<(Instant, CallId)>,
    /// The box of the last answered change, for the next one.
    spare: Option<Box<Change>>,
}

impl Pending {
    fn boxed(&mut self, change: Change) -> Box<Change> {
        let mut boxed = self.spare.take().unwrap_or_else(|| Box::new(change));
        *boxed = change;
        boxed
    }

    fn unboxed(&mut self, boxed: Box<Change>) -> Change {
        let change = *boxed;
        self.spare = Some(boxed);
        change
    }

    fn insert(&mut self, until: Instant, id: CallId, purpose: Purpose) {
        self.calls.insert(id, purpose);
        if self.by_deadline.len() >= MIN_TO_COMPACT.max(2 * self.calls.len()) {
            self.by_deadline.retain(|(_, id)| self.calls.contains_key(id));
        }
        let at = self.by_deadline.partition_point(|(other, _)| *other <= until);
        self.by_deadline.insert(at, (until, id));
    }

    /// Removes a call; `None` if the session has answered it or given it up.
    fn take(&mut self, id: CallId) -> Option<Purpose> {
        let purpose = self.calls.remove(&id)?;
        while self.by_deadline.front().is_some_and(|(_, id)| !self.calls.contains_key(id)) {
            self.by_deadline.pop_front();
        }
        Some(purpose)
    }

    /// Removes the next deadline that has passed, even of an answered call.
    fn pop_due(&mut self, now: Instant) -> Option<CallId> {
        let is_due = self.by_deadline.front().is_some_and(|(until, _)| *until <= now);
        if is_due { self.by_deadline.pop_front().map(|(_, id)| id) } else { None }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.by_deadline.front().map(|(until, _)| *until)
    }
}

#[cfg(test)]
mod tests;
