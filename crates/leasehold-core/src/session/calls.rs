//! Calls: queued output, calls in flight, deadlines, replies and settlements.
//!
//! The session queues each call with its purpose and waits for the reply until the command timeout. A call without a reply has an unknown
//! outcome: the server may still apply a copy of it. The session **settles** such a call before it sends anything else for the hold: the link
//! makes sure that no copy can be applied any more.
//!
//! One settlement serves all holds of a hash slot whose calls wait for replicas, or all whose calls do not. Without a cluster there is
//! one slot. A hold that comes during a settlement waits for the next one: its call may have been sent too late for the first.

use crate::call::{Call, Replicas};
use crate::command::{AcquireArgs, Acquired, KindProtocol, ReleaseArgs, Renewed, WaitPolicy, record};
use crate::link::{LinkError, Settled};
use crate::name;
use crate::owner::HoldNumber;
use crate::reply::{DecodeError, Reply};
use crate::session::extend::Extension;
use crate::session::grant::split_acknowledged;
use crate::session::hold::{Change, CountChange, Hold};
use crate::session::lock::{Lock, LockId};
use crate::session::request::Acquire;
use crate::session::{Action, CallId, Event, Failure, Outgoing, Patience, Session, Ticket, Timer, pause_before};
use crate::settings::Settings;
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
    /// The flag marks a request's call.
    calls: VecDeque<(CallId, Call, bool)>,
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

    /// The next call of a request, or of the background.
    #[cfg(test)]
    pub(super) fn poll_call_of(&mut self, request: bool) -> Option<(CallId, Call)> {
        let at = self.calls.iter().position(|(_, _, of_request)| *of_request == request)?;
        self.calls.remove(at).map(|(id, call, _)| (id, call))
    }

    pub(super) fn take_woken(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.first_woken.take().into_iter().chain(std::mem::take(&mut self.woken))
    }
}

pub(super) fn release_call(now: Instant, lock: &Lock, hold: &Hold, settings: &Settings) -> Call {
    lock.protocol().release(&ReleaseArgs {
        name: &lock.name,
        keys: lock.keys(),
        hold: &hold.cell.key(),
        count: hold.count.wanted,
        granted: hold.is_surely_granted(now),
        keep: hold.left_of_least_time(now),
        settings,
    })
}

/// Sends calls.
impl Session {
    /// The next call to send. A reply that misses the command timeout counts as an unknown outcome.
    pub fn poll_call(&mut self) -> Option<Outgoing> {
        // A suspended thread may send late: skip calls that the session has given up.
        let mut queued = std::iter::from_fn(|| self.out.calls.pop_front());
        let (id, call, of_request) = queued.find(|(id, ..)| self.pending.calls.contains_key(id))?;
        Some(Outgoing { id, call, of_request })
    }

    pub(super) fn protocol_of(&self, number: HoldNumber) -> &'static dyn KindProtocol {
        let kind = self.holds.get(number).map(|hold| self.locks[hold.lock].kind);
        kind.unwrap_or_default().protocol()
    }

    /// The call that raises a hold's count to `count`: for a request, or to restore the hold.
    pub(super) fn acquire_call(
        &self,
        number: HoldNumber,
        ticket: Option<Ticket>,
        count: u32,
        lease: Duration,
        not_after: Option<u64>,
    ) -> Call {
        let (hold, acquire) = (&self.holds[number], ticket.map(|ticket| &self.requests[ticket]));
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
        call.with_replicas(replicas).repeating(acquire.is_some_and(|acquire| acquire.polls > 0))
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
        let id = CallId(self.new_number());
        let lease =
            by.and_then(|ticket| self.requests.acquire(ticket)).map_or(Duration::ZERO, |acquire| acquire.request.lease);
        let hold = &mut self.holds[number];
        let change = Change { lease, replicas, ..Change::new(now, id, by, aim, self.resets) };
        hold.begin_change(self.pending.boxed(change));
        let purpose = match (by, aim) {
            (Some(_), _) => Purpose::Request(number),
            (None, CountChange::LowerTo(_)) => Purpose::Lowering(number),
            (None, CountChange::RaiseTo(_) | CountChange::Offer | CountChange::Adopt) => Purpose::Restoration(number),
        };
        self.send(now, id, call, purpose, by.is_some());
    }

    /// Queues a background call that changes no hold count.
    pub(super) fn send_by_background(&mut self, now: Instant, call: Call, purpose: Purpose) {
        let id = CallId(self.new_number());
        self.send(now, id, call, purpose, false);
    }

    /// Queues a call of a request that changes no hold count.
    pub(super) fn send_for_request(&mut self, now: Instant, call: Call, purpose: Purpose) {
        let id = CallId(self.new_number());
        self.send(now, id, call, purpose, true);
    }

    pub(super) fn send(&mut self, now: Instant, id: CallId, call: Call, purpose: Purpose, of_request: bool) {
        let within = call.replicas().map_or(Duration::ZERO, |replicas| replicas.within);
        self.pending.insert(now + self.settings.command_timeout + within + REPLY_GRACE, id, purpose);
        self.out.calls.push_back((id, call, of_request));
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
        let change = self.holds.get_mut(number).and_then(|hold| hold.change.as_mut());
        let acquired = match change.filter(|change| change.replicas.is_some()) {
            None => protocol.acquired(&reply),
            Some(change) => split_acknowledged(&reply).and_then(|(reply, acknowledged)| {
                change.acknowledged = Some(acknowledged);
                protocol.acquired(reply)
            }),
        };
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
            Purpose::Request(number) => self.handle_reply(now, number, id, result),
            Purpose::Renewal(batch) => self.handle_renewed(now, batch, result),
            Purpose::Extension(extension) => self.handle_extended(now, &extension, result),
            Purpose::Restoration(number) => self.handle_restored(now, number, result),
            Purpose::Lowering(number) => {
                self.note_lowered(now, number, result.is_ok());
                self.handle_lowered(now, number, result);
                self.lower_more(now);
            }
            Purpose::Heartbeat(lock) => self.handle_heartbeat(now, lock, result),
            Purpose::Record => self.record.written(now, result.is_ok_and(|reply| record::put_done(&reply).is_ok())),
            Purpose::Nothing => {}
        }
    }

    fn handle_reply(&mut self, now: Instant, number: HoldNumber, id: CallId, result: CallResult) {
        let Some(hold) = self.holds.get(number) else { return };
        let change = hold.change.as_ref().filter(|change| change.id == id && !change.is_settling);
        let Some((change, ticket)) = change.and_then(|change| Some((change, change.by?))) else { return };
        match change.aim {
            CountChange::LowerTo(_) => return self.handle_lowered(now, number, result),
            CountChange::Offer => return self.handle_offered(now, ticket, number, result),
            CountChange::Adopt => return self.handle_adopted(now, ticket, number, result),
            CountChange::RaiseTo(_) => {}
        }
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
        let Some(durable) = hold.begin_settling() else { return };
        let key = self.locks[hold.lock].name.to_key();
        self.settle(key, durable, number);
    }

    fn settle(&mut self, key: Bytes, durable: bool, number: HoldNumber) {
        let slot = if self.settings.cluster { name::slot(&key) } else { 0 };
        if self.settlements.add((slot, durable), key, number) {
            self.send_settle((slot, durable));
        }
    }

    fn send_settle(&mut self, scope: Scope) {
        let id = CallId(self.new_number());
        if let Some(key) = self.settlements.begin(scope, id) {
            self.out.actions.push_back(Action::Settle { id, key, durable: scope.1 });
        }
    }

    /// Handles the result of [`Action::Settle`].
    pub fn handle_settled(&mut self, now: Instant, id: CallId, result: Result<Settled, LinkError>) {
        let Some((scope, settlement)) = self.settlements.take(now, id) else { return };
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
                let hold = settlement.holds.first().and_then(|number| self.holds.get(*number));
                if let Some(hold) = hold {
                    let name = self.locks[hold.lock].name.clone();
                    let lasting = error.is_lasting();
                    self.out.emit(Event::CleanUpFailed(name, Failure { why: error.to_string(), lasting }));
                }
                self.settlements.retry(now, scope, settlement, self.rng.f64());
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
    state: State,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    UnderWay(CallId),
    RetryAt(Instant),
    New,
}

impl Settlements {
    /// Whether a settlement was in flight at `since` or later. The link resends no call that was in flight during it.
    pub(super) fn at_work_since(&self, since: Instant) -> bool {
        let is_under_way = |settlement: &Settlement| matches!(settlement.state, State::UnderWay(_));
        self.answered_at.is_some_and(|at| at >= since) || self.open.values().any(is_under_way)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let retries = self.open.values().filter_map(|settlement| match settlement.state {
            State::RetryAt(at) => Some(at),
            State::UnderWay(_) | State::New => None,
        });
        retries.min()
    }

    /// Adds a hold. Returns whether to send a settlement now.
    #[must_use]
    pub(super) fn add(&mut self, scope: Scope, key: Bytes, number: HoldNumber) -> bool {
        let new = || Settlement { key, holds: Vec::new(), late: Vec::new(), state: State::New, failures: 0 };
        let settlement = self.open.entry(scope).or_insert_with(new);
        match settlement.state {
            State::UnderWay(_) => settlement.late.push(number),
            State::RetryAt(_) | State::New => settlement.holds.push(number),
        }
        settlement.state == State::New
    }

    pub(super) fn due(&self, now: Instant) -> Vec<Scope> {
        let is_due = |settlement: &Settlement| matches!(settlement.state, State::RetryAt(at) if at <= now);
        self.open.iter().filter(|(_, settlement)| is_due(settlement)).map(|(scope, _)| *scope).collect()
    }

    /// Starts a settlement with this id. Returns a key of its slot.
    pub(super) fn begin(&mut self, scope: Scope, id: CallId) -> Option<Bytes> {
        let settlement = self.open.get_mut(&scope)?;
        settlement.state = State::UnderWay(id);
        Some(settlement.key.clone())
    }

    /// Ends the settlement in flight with this id. The holds of `late` need another settlement.
    fn take(&mut self, now: Instant, id: CallId) -> Option<(Scope, Settlement)> {
        self.answered_at = Some(now);
        let found = self.open.iter().find(|(_, settlement)| settlement.state == State::UnderWay(id));
        let scope = *found?.0;
        self.open.remove(&scope).map(|settlement| (scope, settlement))
    }

    /// Retries a failed settlement for all of its holds. `spread` is between 0 and 1.
    fn retry(&mut self, now: Instant, scope: Scope, mut settlement: Settlement, spread: f64) {
        settlement.holds.append(&mut settlement.late);
        settlement.failures = settlement.failures.saturating_add(1);
        // Clean-up is not urgent.
        let pause = pause_before(settlement.failures.saturating_add(1));
        settlement.state = State::RetryAt(now + pause.mul_f64(0.5 + spread / 2.0));
        self.open.insert(scope, settlement);
    }
}

pub(super) type CallResult = Result<Reply, LinkError>;

#[derive(Debug)]
pub(super) enum Purpose {
    /// A request changes the count of this hold.
    Request(HoldNumber),
    Renewal(Batch),
    /// A caller extends the lease of a hold.
    Extension(Box<Extension>),
    /// The background lowers the count of a hold.
    Lowering(HoldNumber),
    /// The background requests a degraded hold from the server.
    Restoration(HoldNumber),
    /// A heartbeat for the waiters of a fair lock.
    Heartbeat(LockId),
    Record,
    Nothing,
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) sent_at: Instant,
    pub(super) holds: Vec<HoldNumber>,
    /// The replicas that must acknowledge the renewal.
    pub(super) replicas: Option<Replicas>,
}

impl Batch {
    /// The outcome for each hold, and the number of replicas that acknowledged a durable renewal.
    pub(super) fn decode(&self, reply: &Reply) -> Result<(Vec<Renewed>, Option<u32>), DecodeError> {
        let (reply, acknowledged) = match self.replicas {
            None => (reply, None),
            Some(_) => split_acknowledged(reply).map(|(reply, acknowledged)| (reply, Some(acknowledged)))?,
        };
        Ok((Renewed::decode(reply, self.holds.len())?, acknowledged))
    }

    /// The error text if too few replicas acknowledged the renewal.
    pub(super) fn shortfall(&self, acknowledged: Option<u32>) -> Option<String> {
        let wanted = self.replicas?.at_least;
        let count = acknowledged.unwrap_or_default();
        (count < wanted).then(|| format!("{count} replicas acknowledged it, and {wanted} were wanted"))
    }
}

/// Minimum number of entries before [`Pending::insert`] drops answered calls.
const MIN_TO_COMPACT: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) calls: BTreeMap<CallId, Purpose>,
    /// An answered call leaves at the front, because removal from the middle costs more than the memory.
    by_deadline: VecDeque<(Instant, CallId)>,
    compact_at: usize,
    pub(super) lowerings: usize,
    renewals: usize,
    durable_renewals: usize,
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
        if let Some(count) = self.count(&purpose) {
            *count += 1;
        }
        self.calls.insert(id, purpose);
        if self.by_deadline.len() >= self.compact_at {
            self.by_deadline.retain(|(_, id)| self.calls.contains_key(id));
            self.compact_at = (2 * self.by_deadline.len()).max(MIN_TO_COMPACT);
        }
        let at = match self.by_deadline.back() {
            Some((last, _)) if *last > until => self.by_deadline.partition_point(|(other, _)| *other <= until),
            _ => self.by_deadline.len(),
        };
        self.by_deadline.insert(at, (until, id));
    }

    /// Removes a call; `None` if the session has answered it or given it up.
    fn take(&mut self, id: CallId) -> Option<Purpose> {
        let purpose = self.calls.remove(&id)?;
        if let Some(count) = self.count(&purpose) {
            *count -= 1;
        }
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

    pub(super) const fn renewals(&self, durable: bool) -> usize {
        if durable { self.durable_renewals } else { self.renewals }
    }

    const fn count(&mut self, purpose: &Purpose) -> Option<&mut usize> {
        match purpose {
            Purpose::Renewal(batch) if batch.replicas.is_some() => Some(&mut self.durable_renewals),
            Purpose::Renewal(_) => Some(&mut self.renewals),
            Purpose::Lowering(_) => Some(&mut self.lowerings),
            Purpose::Request(_)
            | Purpose::Extension(_)
            | Purpose::Restoration(_)
            | Purpose::Heartbeat(_)
            | Purpose::Record
            | Purpose::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests;
