//! Calls: queued output, calls in flight, timeouts, replies and settlements.

use crate::call::{Call, Replicas};
use crate::command::{AcquireArgs, Acquired, KindProtocol, ReleaseArgs, Renewed, WaitPolicy};
use crate::link::{LinkError, Settled};
use crate::name;
use crate::owner::{HoldName, HoldNumber};
use crate::reply::{DecodeError, Reply};
use crate::session::grant::{both_conditions, split_acknowledged};
use crate::session::hold::{Change, CountChange, Hold};
use crate::session::line::Phase;
use crate::session::lock::{Lock, LockId};
use crate::session::release::AfterSettling;
use crate::session::request::{Due, LocalPlace, Request};
use crate::session::{Action, CallId, Event, Outgoing, Session, Ticket, Timer, pause_before};
use crate::settings::Settings;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

/// See the [module](self). It is drained after every public call.
#[derive(Debug, Default)]
pub(super) struct Out {
    /// The flag marks a request's call.
    calls: VecDeque<(CallId, Call, bool)>,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
    /// The first of the woken: most calls wake one future and need no list.
    first_woken: Option<Waker>,
    pub(super) woken: Vec<Waker>,
}

impl Out {
    /// Queues a call of a request or of the background.
    pub(super) fn call(&mut self, id: CallId, call: Call, of_request: bool) {
        self.calls.push_back((id, call, of_request));
    }

    /// Queues another action for the driver.
    pub(super) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Tells that something happened.
    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Has a future polled.
    pub(super) fn wake(&mut self, waker: Waker) {
        if self.woken.is_empty() && self.first_woken.is_none() {
            self.first_woken = Some(waker);
        } else {
            self.woken.push(waker);
        }
    }

    pub(super) fn poll_call(&mut self) -> Option<(CallId, Call, bool)> {
        self.calls.pop_front()
    }

    /// The next call of a request, or of the background.
    #[cfg(test)]
    pub(super) fn poll_call_of(&mut self, request: bool) -> Option<(CallId, Call)> {
        let at = self.calls.iter().position(|(_, _, of_request)| *of_request == request)?;
        self.calls.remove(at).map(|(id, call, _)| (id, call))
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn take_woken(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.first_woken.take().into_iter().chain(std::mem::take(&mut self.woken))
    }

    /// Whether there are actions or events to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.actions.is_empty() && self.events.is_empty()
    }
}

// ===== The purposes of calls in flight =====
//
// The calls in flight, and their purposes.

/// The purpose of a call.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A request changes the count of this hold.
    Request(HoldNumber),
    /// It renews holds.
    Renewal(Batch),
    /// The background lowers the count of a hold.
    Lowering(HoldNumber),
    /// It asks the server for a hold that was granted without it.
    Restoration(HoldNumber),
    /// It tells the server that the waiters of a fair lock live.
    Heartbeat(LockId),
    /// It writes the client's record.
    Record,
    /// The reply is ignored.
    Nothing,
}

/// One renewal on the way.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) sent_at: Instant,
    pub(super) holds: Vec<HoldNumber>,
    replicas: Option<Replicas>,
}

impl Batch {
    /// A renewal of these holds that is sent now, and that so many replicas must acknowledge.
    pub(super) const fn new(sent_at: Instant, holds: Vec<HoldNumber>, replicas: Option<Replicas>) -> Self {
        Self { sent_at, holds, replicas }
    }

    /// Whether it waits for replicas.
    pub(super) const fn is_durable(&self) -> bool {
        self.replicas.is_some()
    }

    /// The server's answer for each hold, and the number of replicas that acknowledged it, if they were asked.
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

/// The calls in flight, by id.
#[derive(Debug, Default)]
pub(super) struct Pending {
    calls: BTreeMap<CallId, Purpose>,
    pub(super) lowerings: usize,
    renewals: usize,
    durable_renewals: usize,
    /// The box of the change that was answered last, for the next one.
    spare: Option<Box<Change>>,
}

impl Pending {
    /// Notes what a call is for that is about to be sent.
    pub(super) fn insert(&mut self, id: CallId, purpose: Purpose) {
        if let Some(count) = self.count(&purpose) {
            *count += 1;
        }
        self.calls.insert(id, purpose);
    }

    /// Removes a call and returns its purpose; `None` if the session has answered it or given it up.
    pub(super) fn take(&mut self, id: CallId) -> Option<Purpose> {
        let purpose = self.calls.remove(&id)?;
        if let Some(count) = self.count(&purpose) {
            *count -= 1;
        }
        Some(purpose)
    }

    /// Boxes a change whose call is about to be sent.
    pub(super) fn boxed(&mut self, change: Change) -> Box<Change> {
        let mut boxed = self.spare.take().unwrap_or_else(|| Box::new(change));
        *boxed = change;
        boxed
    }

    /// Takes a change out of its box.
    pub(super) fn unboxed(&mut self, boxed: Box<Change>) -> Change {
        let change = *boxed;
        self.spare = Some(boxed);
        change
    }

    /// Whether no call is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether the call is in flight.
    pub(super) fn contains(&self, id: CallId) -> bool {
        self.calls.contains_key(&id)
    }

    /// How many renewals are under way: of those that wait for replicas, or of the others.
    pub(super) const fn renewals(&self, durable: bool) -> usize {
        if durable { self.durable_renewals } else { self.renewals }
    }

    /// The count in which a call is one, if it is counted.
    const fn count(&mut self, purpose: &Purpose) -> Option<&mut usize> {
        match purpose {
            Purpose::Renewal(batch) if batch.is_durable() => Some(&mut self.durable_renewals),
            Purpose::Renewal(_) => Some(&mut self.renewals),
            Purpose::Lowering(_) => Some(&mut self.lowerings),
            Purpose::Request(_)
            | Purpose::Restoration(_)
            | Purpose::Heartbeat(_)
            | Purpose::Record
            | Purpose::Nothing => None,
        }
    }
}

// ===== The deadlines of calls in flight =====
//
// The deadlines of the calls in flight.
//
// An answered call leaves the queue at the front, because removal from the middle costs more than the memory.

/// Minimum number of entries before [`Unanswered::push`] drops answered calls.
const COMPACT: usize = 1_024;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    by_deadline: VecDeque<(Instant, CallId)>,
    compact_at: usize,
}

impl Unanswered {
    /// Adds a call with the deadline `until`. `is_open` returns whether a call is in flight.
    pub(super) fn push(&mut self, until: Instant, id: CallId, is_open: impl Fn(CallId) -> bool) {
        if self.by_deadline.len() >= self.compact_at {
            self.by_deadline.retain(|(_, id)| is_open(*id));
            self.compact_at = (2 * self.by_deadline.len()).max(COMPACT);
        }
        let at = match self.by_deadline.back() {
            Some((last, _)) if *last > until => self.by_deadline.partition_point(|(other, _)| *other <= until),
            _ => self.by_deadline.len(),
        };
        self.by_deadline.insert(at, (until, id));
    }

    /// Drops answered calls at the front of the queue.
    pub(super) fn answered(&mut self, is_open: impl Fn(CallId) -> bool) {
        while self.by_deadline.front().is_some_and(|(_, id)| !is_open(*id)) {
            self.by_deadline.pop_front();
        }
    }

    /// Removes the next call that is due, even if answered.
    pub(super) fn pop(&mut self, now: Instant) -> Option<CallId> {
        let is_due = self.by_deadline.front().is_some_and(|(until, _)| *until <= now);
        if is_due { self.by_deadline.pop_front().map(|(_, id)| id) } else { None }
    }

    /// The next deadline.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.by_deadline.front().map(|(until, _)| *until)
    }
}

// ===== Sending =====
//
// Builds and queues calls about holds, and tracks each call until its reply.

/// Extra time for a call beyond the command timeout. By then the link reports its own error, which may prove that it sent nothing.
const LATE: Duration = Duration::from_millis(20);

/// The call that lowers a hold's count to the number of its guards.
pub(super) fn give(now: Instant, lock: &Lock, hold: &Hold, settings: &Settings) -> Call {
    lock.protocol().release(&ReleaseArgs {
        name: &lock.name,
        keys: lock.keys(),
        hold: &hold.key(),
        count: hold.count.wanted,
        granted: hold.is_surely_granted(now),
        keep: hold.left_of_least_time(now),
        settings,
    })
}

impl Session {
    /// The protocol of the kind of a hold's lock.
    pub(super) fn protocol_of(&self, number: HoldNumber) -> &'static dyn KindProtocol {
        let kind = self.holds.get(number).map(|hold| self.locks[hold.lock].kind);
        kind.unwrap_or_default().protocol()
    }

    /// The call that raises a hold's count to `count` for a request.
    pub(super) fn ask(
        &self,
        number: HoldNumber,
        ticket: Ticket,
        count: u32,
        lease: Duration,
        not_after: Option<u64>,
    ) -> Option<Call> {
        let hold = self.holds.get(number)?;
        let acquire = self.requests.acquire(ticket)?;
        let lock = &self.locks[hold.lock];
        let call = lock.protocol().acquire(&AcquireArgs {
            name: &lock.name,
            keys: lock.keys(),
            hold: &hold.key(),
            beside: acquire.beside(),
            count,
            lease,
            not_after,
            waits: acquire.wish.patience != crate::session::Patience::Try,
            placed: acquire.had_place,
            prefer_writers: acquire.wish.prefer_writers,
            settings: &self.settings,
        });
        let replicas = both_conditions(hold.replicas(), acquire.wish.replicas);
        Some(call.with_replicas(replicas).repeating(acquire.has_polled()))
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
        let id = CallId(self.next_id());
        let lease =
            by.and_then(|ticket| self.requests.acquire(ticket)).map_or(Duration::ZERO, |acquire| acquire.wish.lease);
        if let Some(hold) = self.holds.known_mut(number) {
            let change = Change::new(now, id, by, aim, self.resets).with_lease(lease).with_replicas(replicas);
            hold.begin_change(self.pending.boxed(change));
        }
        let purpose = match (by, aim) {
            (Some(_), _) => Purpose::Request(number),
            (None, CountChange::LowerTo(_)) => Purpose::Lowering(number),
            (None, CountChange::RaiseTo(_)) => Purpose::Restoration(number),
        };
        self.send(now, id, call, purpose, by.is_some());
    }

    /// The next call to send. A reply that misses the command timeout counts as an unknown outcome.
    pub fn poll_call(&mut self) -> Option<Outgoing> {
        // A suspended thread may send late: skip calls that the session has given up.
        let (id, call, of_request) =
            std::iter::from_fn(|| self.out.poll_call()).find(|(id, ..)| self.pending.contains(*id))?;
        Some(Outgoing { id, call, of_request })
    }

    /// Queues a background call that changes no hold count.
    pub(super) fn send_by_background(&mut self, now: Instant, call: Call, purpose: Purpose) {
        let id = CallId(self.next_id());
        self.send(now, id, call, purpose, false);
    }

    fn send(&mut self, now: Instant, id: CallId, call: Call, purpose: Purpose, of_request: bool) {
        let within = call.replicas().map_or(Duration::ZERO, |replicas| replicas.within);
        self.pending.insert(id, purpose);
        self.out.call(id, call, of_request);
        self.unanswered.push(now + self.settings.command_timeout + within + LATE, id, |id| self.pending.contains(id));
    }

    /// Ends and returns the hold's change in flight.
    pub(super) fn end_change(&mut self, number: HoldNumber) -> Option<Change> {
        let change = self.holds.get_mut(number)?.end_change()?;
        Some(self.pending.unboxed(change))
    }

    /// Extends the clean-up by the queue's idle time. A place in a queue has no lease, and the client may have missed the reply about it.
    pub(super) fn outlast_place(&mut self, now: Instant, number: HoldNumber) {
        let idle = self.settings.fair.idle;
        let in_places = self.protocol_of(number).wait_policy() == WaitPolicy::ServerQueue;
        if let Some(hold) = self.holds.get_mut(number).filter(|hold| hold.is_queued() || in_places) {
            hold.keep_until(now + idle);
        }
    }

    /// Decodes the reply to an acquire, and notes how many replicas acknowledged it.
    pub(super) fn raised(&mut self, number: HoldNumber, reply: &Reply) -> Result<Acquired, DecodeError> {
        let protocol = self.protocol_of(number);
        let durable = |hold: &&mut Hold| hold.change().is_some_and(|change| change.replicas.is_some());
        let Some(hold) = self.holds.get_mut(number).filter(durable) else { return protocol.acquired(reply) };
        let (reply, acknowledged) = split_acknowledged(reply)?;
        hold.note_replicas(acknowledged);
        protocol.acquired(reply)
    }

    /// The server time after which the script refuses a first acquire that is sent now; 0 while the server's clock is unknown.
    pub(super) fn not_after(&self, now: Instant) -> u64 {
        self.server_clock.map_or(0, |(time, at)| {
            let millis = (now.since(at) + self.settings.command_timeout).as_millis();
            time.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX))
        })
    }

    /// Stores the server's time. The server read it after the call left, so an estimate from it is never behind.
    pub(super) fn note_time(&mut self, sent_at: Instant, time: Option<u64>) {
        if let Some(time) = time {
            self.server_clock = Some((time, sent_at));
        }
    }

    /// The replicas that must acknowledge a hold.
    pub(super) fn replicas_of(&self, number: HoldNumber) -> Option<Replicas> {
        self.holds.get(number)?.replicas()
    }

    /// Creates the hold for an acquire, before its first call.
    pub(super) fn begin_hold(&mut self, now: Instant, ticket: Ticket) -> Option<HoldNumber> {
        self.requests.acquire(ticket)?;
        let number = self.new_hold();
        let acquire = self.requests.acquire_mut(ticket)?;
        let (wish, lock) = (&acquire.wish, &self.locks[acquire.lock]);
        // Whether the client receives requests of other clients before the server can show the mark.
        let hears = self.listening.contains(acquire.lock) && self.subscriptions.hears(acquire.lock);
        let may_linger = wish.may_linger() && lock.protocol().is_asked_for() && !lock.is_local && hears;
        let linger = wish.linger.filter(|_| may_linger && !self.contended.is_contended(now, lock.name.key()));
        let marked = linger.map(|_| self.client.marked_field(number));
        let name = HoldName::new(self.client, number, marked.as_ref().or(wish.field.as_ref()));
        let mut hold = Hold::new(now, acquire.lock, ticket, name, wish);
        linger.into_iter().for_each(|longest| hold.mark(longest.get()));
        acquire.hold = Some(number);
        self.locks[hold.lock].add_ref();
        self.holds.insert(number, hold);
        Some(number)
    }

    /// Restarts a hold's `max_hold` at its grant, because the hold waited in a queue.
    pub(super) fn begin_anew(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let most = self.requests.acquire(ticket).and_then(|acquire| acquire.wish.max_hold);
        if let Some(hold) = self.holds.known_mut(number) {
            hold.begin_anew(now, most);
        }
    }
}

// ===== Replies =====
//
// Dispatches each reply to its flow.

impl Session {
    /// Handles the outcome of a call. Ignores calls that the session has given up.
    pub fn handle_called(&mut self, now: Instant, id: CallId, result: Result<Reply, LinkError>) {
        let Some(purpose) = self.pending.take(id) else { return };
        self.unanswered.answered(|id| self.pending.contains(id));
        match purpose {
            Purpose::Request(number) => self.handle_reply(now, number, id, result),
            Purpose::Renewal(batch) => self.handle_renewed(now, batch, result),
            Purpose::Restoration(number) => self.handle_restored(now, number, result),
            Purpose::Lowering(number) => {
                self.note_lowered(now, number, result.is_ok());
                self.handle_lowered(now, number, result);
                self.lower_more(now);
            }
            Purpose::Heartbeat(lock) => self.handle_heartbeat(now, lock, result),
            Purpose::Record => self.handle_recorded(now, &result),
            Purpose::Nothing => {}
        }
    }

    /// Handles the outcome of a request's change.
    fn handle_reply(&mut self, now: Instant, number: HoldNumber, id: CallId, result: Result<Reply, LinkError>) {
        let Some(hold) = self.holds.get(number).filter(|hold| hold.is_flying(id)) else { return };
        let Some(change) = hold.change() else { return };
        let Some(ticket) = change.by else { return };
        if let CountChange::LowerTo(_) = change.aim {
            return self.handle_lowered(now, number, result);
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

    /// Handles the reply to a call whose request ended or no longer needs it. The background reverts the call's effect.
    fn handle_abandoned_reply(&mut self, now: Instant, number: HoldNumber, result: Result<Reply, LinkError>) {
        match result {
            Err(LinkError::Unknown(_)) => self.begin_settling(number),
            Err(LinkError::NotSent(_)) => {
                let Some(change) = self.end_change(number) else { return };
                if let Some(hold) = self.holds.known_mut(number) {
                    hold.undo_change(&change);
                }
                self.reconcile(now, number);
            }
            Ok(_) | Err(LinkError::Refused(_)) => self.change_settled(now, number, true),
        }
    }
}

// ===== Timeouts =====
//
// Handles due timers.

impl Session {
    /// Handles a request's timer: a pause or the request's patience has ended, or a deadline has passed.
    pub(super) fn request_is_due(&mut self, now: Instant, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        *request.timer() = None;
        let acquire = match request {
            Request::Acquire(acquire) => acquire,
            Request::Release(release) => {
                let number = release.hold;
                let why = "no reply came in time; the release is repeated in the background";
                self.give_up_release(ticket, number, why);
                return;
            }
            Request::Pause(_) => {
                self.wake(ticket);
                return;
            }
        };
        match acquire.due(now) {
            Due::Nothing => return,
            Due::Later => return self.set_request_timer(now, ticket),
            Due::Unread => return self.unread_too_long(now, ticket),
            Due::TakenBackTooLate => {
                return self.stop_taking_back(now, ticket, "no reply came within the command timeout");
            }
            Due::AwaitedTooLong => {
                acquire.stop_awaiting();
                return self.end_busy(now, ticket);
            }
            Due::Patience => {}
        }
        if acquire.end_pause(now) {
            self.wake(ticket);
        }
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        if self.end_of_patience(ticket, acquire) > now {
            self.set_request_timer(now, ticket);
            return;
        }
        self.end_wait(now, ticket);
    }

    fn end_wait(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, place, begun) = (
            acquire.lock,
            acquire.place,
            acquire
                .hold
                .and_then(|number| self.holds.get(number))
                .is_some_and(|hold| !hold.is_queued() || hold.has_change()),
        );
        let (wish_ended, more) =
            (acquire.end_of_wish(self.settings.command_timeout) <= now, self.settings.command_timeout);
        if !wish_ended && self.is_under_way(ticket) {
            // Wait for the call in flight: the server may still reply.
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.failures.postpone(more);
            }
            self.set_request_timer(now, ticket);
            return;
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.is_final_attempt = true;
        }
        let contends = place == LocalPlace::Line && self.locks[lock].line().is_contender(ticket);
        let Some(failures) = self.failures_of(ticket) else { return };
        let own = self.requests.acquire(ticket).and_then(|acquire| acquire.failures.since());
        let begun_at = [failures.since(), own].into_iter().flatten().min();
        let too_long = begun_at.is_some_and(|since| now >= since + self.settings.unreachable_after)
            || self.is_ended_by_outage(now, ticket);
        // One failure in the line is no outage: the contender's last attempt decides.
        let out_of_reach =
            too_long || if place == LocalPlace::Line { failures.tries() > 1 && !contends } else { own.is_some() };
        let flying = self.is_under_way(ticket);
        if flying {
            // The call in flight is the last attempt, and ends within the command timeout.
        } else if out_of_reach || (begun && (begun_at.is_some() || self.is_outcome_unknown(ticket))) {
            self.end_unreachable(now, ticket);
        } else if contends && self.locks[lock].line().phase != Phase::Gated {
            self.begin_turn(now, lock);
        } else if self.may_ask_beside(ticket) {
            self.wake(ticket);
        } else {
            self.end_busy(now, ticket);
        }
    }

    /// Handles a hold's timer: its deadline, its renewal, or its clean-up.
    pub(super) fn hold_is_due(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.timer = None;
        self.lose_if_passed(now, number);
        if self.end_stay(now, number) {
            return;
        }
        let restores = self.holds.get(number).is_some_and(|hold| hold.is_restorable());
        if !restores {
            self.queue_renewal(now, number);
        } else if self.holds.get(number).and_then(|hold| hold.renew_at).is_some_and(|at| at <= now) {
            self.restore(now, number);
        }
        self.reconcile(now, number);
    }

    /// Handles a lock's timer: the end of a turn, sleep or pause, or an outage beyond its limit.
    pub(super) fn lock_is_due(&mut self, now: Instant, lock: LockId) {
        if !self.locks.contains(lock) {
            return;
        }
        self.locks[lock].timer = None;
        self.heartbeat_is_due(now, lock);
        if self.give_up_on_server(now, lock) {
            return;
        }
        match self.locks[lock].line().phase {
            Phase::Due(until) if until <= now => {
                let contender = self.locks[lock].line().contender;
                if contender.is_some_and(|contender| self.is_under_way(contender)) {
                    // Its future was polled, and waits for the reply to an earlier call.
                    let turn = self.locks[lock].wait_policy().turn(&self.settings);
                    self.locks[lock].line_mut().set_due(now + turn);
                } else if let Some(contender) = contender {
                    let name = self.locks[lock].name.clone();
                    self.out.tell(Event::UnpolledTurn { name });
                    self.turn_missed(now, contender);
                }
            }
            Phase::Sleeping(until) | Phase::Ahead(until) | Phase::BackingOff(until) if until <= now => {
                self.begin_turn(now, lock);
            }
            _ => {}
        }
        self.set_lock_timer(lock);
    }

    /// Lets time pass up to `now`: whatever is due by then happens.
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
        while let Some(id) = self.unanswered.pop(now) {
            self.give_up_call(now, id);
        }
        self.retry_settlements(now);
        self.record_is_due(now);
        self.send_renewals(now);
    }

    /// Gives up a call that has no reply after the command timeout. Answered calls are ignored.
    fn give_up_call(&mut self, now: Instant, id: CallId) {
        let why = "no reply came within the command timeout".to_owned();
        self.handle_called(now, id, Err(LinkError::Unknown(why)));
    }
}

// ===== Settlements =====
//
// Settling: making sure that no copy of a call whose reply is missing can be applied any more.
//
// One settlement serves all holds of a hash slot whose calls wait for replicas, or all whose calls do not. Without a cluster there is one
// slot. A hold that comes while a settlement is under way waits for the next one, because its call may have been sent too late for the first.

/// The calls that are settled together: the hash slot, which is 0 without a cluster, and whether they wait for replicas.
pub(super) type Scope = (u16, bool);

/// The settlements that are under way, or to be tried again.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    open: BTreeMap<Scope, Settlement>,
    /// When a settlement was answered last.
    answered_at: Option<Instant>,
}

#[derive(Debug)]
struct Settlement {
    key: Bytes,
    holds: Vec<HoldNumber>,
    /// Those that came when the settlement was already under way, which may not cover them.
    late: Vec<HoldNumber>,
    state: State,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has been asked for under this name.
    UnderWay(CallId),
    /// It failed, and is asked for again at this instant.
    RetryAt(Instant),
    /// It is about to be asked for.
    New,
}

/// What the answer to a settlement means.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "holds wait for it"]
pub(super) enum Answered {
    /// It was not under way.
    Nothing,
    /// The calls of `settled` are settled; those of `late` want a settlement of their own.
    Done { scope: Scope, key: Bytes, settled: Vec<HoldNumber>, late: Vec<HoldNumber> },
    /// It is tried again for all of its holds, of which this is one.
    Failed(Option<HoldNumber>),
}

impl Settlements {
    /// Whether anything was being settled at `since` or later. A link sends nothing again that was under way meanwhile.
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

    /// Adds a hold whose call is to be settled. Says whether a settlement is to be asked for now.
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

    /// The settlements that are to be tried again.
    pub(super) fn due(&self, now: Instant) -> Vec<Scope> {
        let is_due = |settlement: &Settlement| matches!(settlement.state, State::RetryAt(at) if at <= now);
        self.open.iter().filter(|(_, settlement)| is_due(settlement)).map(|(scope, _)| *scope).collect()
    }

    /// A settlement is asked for under this name. Gives a key of its slot.
    pub(super) fn begin(&mut self, scope: Scope, id: CallId) -> Option<Bytes> {
        let settlement = self.open.get_mut(&scope)?;
        settlement.state = State::UnderWay(id);
        Some(settlement.key.clone())
    }

    /// Takes an answer. `spread` is between 0 and 1.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        id: CallId,
        is_settled: bool,
        spread: impl FnOnce() -> f64,
    ) -> Answered {
        self.answered_at = Some(now);
        let found = self.open.iter().find(|(_, settlement)| settlement.state == State::UnderWay(id));
        let Some(scope) = found.map(|(scope, _)| *scope) else { return Answered::Nothing };
        if is_settled {
            let Some(Settlement { key, holds, late, .. }) = self.open.remove(&scope) else { return Answered::Nothing };
            return Answered::Done { scope, key, settled: holds, late };
        }
        let Some(settlement) = self.open.get_mut(&scope) else { return Answered::Nothing };
        settlement.holds.append(&mut settlement.late);
        settlement.failures = settlement.failures.saturating_add(1);
        // Clean-up is in no hurry.
        let pause = pause_before(settlement.failures.saturating_add(1));
        settlement.state = State::RetryAt(now + pause.mul_f64(0.5 + spread() / 2.0));
        Answered::Failed(settlement.holds.first().copied())
    }
}

// ===== Settling =====
//
// Settling: making sure that the server can no longer apply any copy of a call.

impl Session {
    /// The hash slot of a key on a cluster; 0 without a cluster.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        if self.settings.cluster { name::slot(key) } else { 0 }
    }

    fn send_settle(&mut self, scope: Scope) {
        let id = CallId(self.next_id());
        if let Some(key) = self.settlements.begin(scope, id) {
            self.out.act(Action::Settle { id, key, durable: scope.1 });
        }
    }

    /// Settles the call that a hold sent.
    pub(super) fn settle(&mut self, key: Bytes, durable: bool, number: HoldNumber) {
        let scope = (self.slot_of(&key), durable);
        if self.settlements.add(scope, key, number) {
            self.send_settle(scope);
        }
    }

    /// Settles a hold's call after its reply was lost. The hold sends nothing until then.
    pub(super) fn begin_settling(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        let Some(durable) = hold.begin_settling() else { return };
        let key = self.locks[hold.lock].name.to_key();
        self.settle(key, durable, number);
    }

    /// Retries failed settlements.
    pub(super) fn retry_settlements(&mut self, now: Instant) {
        for scope in self.settlements.due(now) {
            self.send_settle(scope);
        }
    }
}

// ===== After a settlement =====
//
// The end of a settlement, and the replies to acquires.

impl Session {
    /// Continues a hold after its change was settled. Only with `proven` is it certain that no copy can still be applied.
    pub(super) fn change_settled(&mut self, now: Instant, number: HoldNumber, proven: bool) {
        // The server may have applied the change until now.
        self.extend_clean_up(now, number);
        let Some(hold) = self.holds.known_mut(number) else { return };
        match hold.note_settled(now, proven) {
            AfterSettling::TryAgain(ticket) => self.retry_after_settlement(now, ticket),
            AfterSettling::TakeBack => {}
        }
        self.reconcile(now, number);
    }

    /// Takes the answer to [`Action::Settle`].
    pub fn handle_settled(&mut self, now: Instant, id: CallId, result: Result<Settled, LinkError>) {
        let spread = || self.rng.f64();
        match self.settlements.answered(now, id, result.is_ok(), spread) {
            Answered::Nothing => {}
            Answered::Done { scope: (_, durable), key, settled, late } => {
                for number in settled {
                    self.change_settled(now, number, result == Ok(Settled::Proven));
                }
                for number in late {
                    self.settle(key.clone(), durable, number);
                }
            }
            Answered::Failed(first) => {
                let lock = first.and_then(|number| self.holds.get(number)).map(|hold| hold.lock);
                if let (Some(lock), Err(error)) = (lock, result) {
                    let name = self.locks[lock].name.clone();
                    let lasting = error.is_lasting();
                    self.out.tell(Event::CleanUpFailed { name, why: error.to_string(), lasting });
                }
            }
        }
    }

    /// Processes the outcome of an acquire. Returns `None` for an unknown outcome, and settles the call. The request fails now if this was its last
    /// attempt.
    pub(super) fn end_raise(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) -> Option<(Change, Result<Acquired, LinkError>)> {
        let outcome = match result {
            Ok(reply) => self.raised(number, &reply).map_err(|error| LinkError::Unknown(error.to_string())),
            Err(error) => Err(error),
        };
        if let Err(LinkError::Unknown(why)) = &outcome {
            self.record_failure(now, ticket, why, true);
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
            return Some((self.end_change(number)?, outcome));
        }
        let change = self.end_change(number)?;
        self.extend_clean_up(now, number);
        Some((change, outcome))
    }
}

#[cfg(test)]
mod tests;
