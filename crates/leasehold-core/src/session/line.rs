//! The line of a lock: the waiters of this client, and which of them asks the server next.
//!
//! One waiter, the contender, has the turn; the others queue behind it. A contender that does not use its turn in time loses it to the next
//! waiter whose future polls.

use crate::command::WaitPolicy;
use crate::error::AcquireError;
use crate::number_map::NumberMap;
use crate::owner::HoldNumber;
use crate::session::lock::{Anomaly, LockId};
use crate::session::request::{Failures, Route};
use crate::session::{Event, Fallback, Session, Ticket};
use crate::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use std::time::Duration;

/// How requests join the line, take turns in it, and leave it.
impl Session {
    pub(super) fn join_line(&mut self, now: Instant, ticket: Ticket, end: End) {
        let acquire = &self.requests[ticket];
        if acquire.route == Route::Queued || acquire.has_ended() {
            return;
        }
        if self.is_last_attempt(now, ticket) {
            return self.end_busy(now, ticket);
        }
        let acquire = &mut self.requests[ticket];
        acquire.route = Route::Queued;
        // From here on the lock counts the failures.
        acquire.failures.forget_failures();
        acquire.retry_at = None;
        let lock = acquire.lock;
        let line = &mut self.locks[lock].line;
        line.queue.push(ticket, end);
        // If no polled future holds the turn, this one takes it.
        if line.contender.is_none() && matches!(line.phase, Phase::Idle | Phase::Ready(_)) {
            self.begin_turn(now, lock);
        }
        self.begin_to_wait(now, ticket);
    }

    pub(super) fn begin_turn(&mut self, now: Instant, lock: LockId) {
        self.locks[lock].line.phase = Phase::Ready(now + self.turn(lock));
        self.pick_contender(lock);
        if let Some(contender) = self.locks[lock].line.contender {
            if self.locks[lock].wait_policy() == WaitPolicy::Shared && self.is_under_way(contender) {
                // It asked before it was the contender. The reply may be older than the reason for this turn, so it asks once more.
                let line = &mut self.locks[lock].line;
                line.phase = Phase::Asking;
                line.notice_came = true;
            } else {
                self.wake(contender);
            }
        }
        self.set_lock_timer(lock);
    }

    /// The time for which a turn or a grant may stay unpolled.
    pub(super) fn turn(&self, lock: LockId) -> Duration {
        self.locks[lock].wait_policy().turn(&self.settings)
    }

    /// Handles a lock's timer: the end of a turn, sleep or pause, or an outage beyond its limit.
    pub(super) fn lock_is_due(&mut self, now: Instant, lock: LockId) {
        self.locks[lock].timer = None;
        self.heartbeat_is_due(now, lock);
        if self.give_up_on_server(now, lock) {
            return;
        }
        let line = &self.locks[lock].line;
        if line.timeout().is_some_and(|until| until <= now) {
            match line.contender.filter(|_| line.is_ready()) {
                // Its future was polled and waits for the reply to an earlier call.
                Some(contender) if self.is_under_way(contender) => {
                    self.locks[lock].line.phase = Phase::Ready(now + self.turn(lock));
                }
                Some(contender) => {
                    self.out.emit(Event::UnpolledTurn(self.locks[lock].name.clone()));
                    self.turn_missed(now, contender);
                }
                None => self.begin_turn(now, lock),
            }
        }
        self.set_lock_timer(lock);
    }

    /// Makes the first waiter whose future polled in its last turn the contender, if there is none.
    pub(super) fn pick_contender(&mut self, lock: LockId) {
        let line = &mut self.locks[lock].line;
        if line.contender.is_none() {
            let is_awake = |ticket: &Ticket| self.requests.waiter(*ticket).is_some_and(|acquire| !acquire.unpolled);
            let next = line.queue.iter().find(is_awake);
            if let Some(next) = next {
                line.contender = Some(next);
                line.queue.remove(next);
            }
        }
        if line.is_empty() {
            self.line_is_empty(lock);
        }
    }

    fn line_is_empty(&mut self, lock: LockId) {
        self.locks.end_line(lock);
        self.set_lock_timer(lock);
        self.drop_unwanted_notices(lock);
    }

    /// Takes the turn from a request whose future did not poll in time, until its next poll. A fair lock's waiter also gives up its place
    /// on the server. Its next poll takes a new place at the tail.
    pub(super) fn turn_missed(&mut self, now: Instant, ticket: Ticket) {
        let acquire = &mut self.requests[ticket];
        let (lock, last) = (acquire.lock, acquire.is_final_attempt);
        acquire.unpolled = true;
        if let Some(number) = acquire.hold.take() {
            self.abandon_hold(now, ticket, number);
        }
        if !self.is_contender(ticket) {
            return;
        }
        if last {
            return self.end_busy(now, ticket);
        }
        let state = &mut self.locks[lock];
        let in_places = state.wait_policy() == WaitPolicy::ServerQueue;
        state.line.contender = None;
        state.line.queue.push(ticket, if in_places { End::Back } else { End::Front });
        self.begin_to_wait(now, ticket);
        self.begin_turn(now, lock);
    }

    /// Sends the request's call again at once, in its turn if it has one.
    pub(super) fn resend_now(&mut self, now: Instant, ticket: Ticket) {
        if self.is_contender(ticket) {
            self.begin_turn(now, self.requests[ticket].lock);
        } else {
            self.wake(ticket);
        }
    }

    pub(super) fn is_contender(&self, ticket: Ticket) -> bool {
        self.locks[self.requests[ticket].lock].line.is_contender(ticket)
    }

    /// Whether a request has no place on the server, and may ask for a place outside its turn.
    pub(super) fn may_take_place(&self, ticket: Ticket) -> bool {
        let acquire = &self.requests[ticket];
        let state = &self.locks[acquire.lock];
        let placed = acquire.hold.and_then(|number| self.holds.get(number)).is_some_and(|hold| hold.state.is_queued());
        // The contender asks in its turn.
        let is_contender = state.line.is_contender(ticket) && !state.line.listens();
        state.wait_policy() == WaitPolicy::ServerQueue && acquire.route == Route::Queued && !placed && !is_contender
    }

    /// The contender found the lock taken. It sleeps until a release notice, or until the holder's lease may be over.
    pub(super) fn contender_waits(&mut self, now: Instant, lock: LockId, left: Option<Duration>) {
        let confirmed = self.want_notices(lock);
        let polls = self.locks[lock].is_polled();
        let until = now + if polls { left.unwrap_or_default() } else { self.sleep(left) };
        let ready_until = now + self.turn(lock);
        let line = &mut self.locks[lock].line;
        line.wait(confirmed, ready_until, until);
        if line.is_ready() {
            self.begin_turn(now, lock);
        }
        self.set_lock_timer(lock);
    }

    /// A request of the line has the lock. The next contender sleeps until a release, unless several may hold the lock.
    pub(super) fn contender_granted(&mut self, now: Instant, ticket: Ticket, lock: LockId, left: Duration) {
        self.requests[ticket].route = Route::Direct;
        let line = &mut self.locks[lock].line;
        let contended = line.contender.take_if(|contender| *contender == ticket).is_some();
        if contended {
            self.granted_ahead += u64::from(line.pipelining.granted());
        }
        if line.is_empty() {
            return self.line_is_empty(lock);
        }
        if !contended {
            return self.invite(lock);
        }
        let gated = self.is_gated(lock);
        if !gated && self.locks[lock].wait_policy() == WaitPolicy::Shared {
            self.begin_turn(now, lock);
            return self.invite(lock);
        }
        let phase = if gated {
            Phase::Gated
        } else {
            let confirmed = self.want_notices(lock);
            let polls = self.locks[lock].is_polled();
            let until = now + self.sleep(Some(if polls { Duration::ZERO } else { left }));
            if confirmed { Phase::Sleeping(until) } else { Phase::Subscribing }
        };
        self.locks[lock].line.phase = phase;
        self.pick_contender(lock);
        self.set_lock_timer(lock);
    }

    /// The duration of a sleep when the holder's lease has `left` to go: a little more, and not the same for each client of a fleet.
    pub(super) fn sleep(&mut self, left: Option<Duration>) -> Duration {
        let spread = self.jitter(Duration::from_millis(5));
        let recheck = self.settings.recheck;
        left.map_or(recheck, |left| recheck.min(left + Duration::from_millis(1) + spread))
    }

    /// Subscribes to the lock's release notices. Returns whether the server has confirmed that, or the lock has no notices and polls.
    pub(super) fn want_notices(&mut self, lock: LockId) -> bool {
        let state = &self.locks[lock];
        if !self.subscriptions.listens(lock, |channel| state.is_channel(channel))
            && let Some(channel) = &state.channel()
        {
            self.subscriptions.listen(lock, channel, &mut self.out);
        }
        self.subscriptions.is_confirmed(lock)
    }

    /// Unsubscribes a lock without waiters, unless a lingering hold listens for requests of other clients.
    pub(super) fn drop_unwanted_notices(&mut self, lock: LockId) {
        if !self.locks[lock].line.is_empty() {
            return;
        }
        let last = self.locks[lock].last_granted.and_then(|number| self.holds.get(number));
        if !last.is_some_and(|hold| hold.hears_requests()) && !self.listening.contains_key(&lock) {
            self.subscriptions.retain(lock, |_| false, &mut self.out);
        }
    }

    /// The lock may be free.
    pub(super) fn handle_notice(&mut self, now: Instant, lock: LockId) {
        if self.locks[lock].line.note_notice() {
            self.begin_turn(now, lock);
        }
    }

    /// A task of this client has released the lock.
    pub(super) fn open_gates(&mut self, now: Instant, lock: LockId) {
        let is_open = |at: &LockId| self.locks[*at].line.phase == Phase::Gated && !self.is_gated(*at);
        let open: Vec<LockId> = self.locks.same_name(lock).filter(is_open).collect();
        open.into_iter().for_each(|at| self.begin_turn(now, at));
    }

    /// Accepts the pause that the caller's own backoff chose; `None` ends the wait.
    pub fn handle_backoff(&mut self, now: Instant, ticket: Ticket, pause: Option<Duration>) {
        let Some(lock) = self.requests.waiter(ticket).map(|acquire| acquire.lock) else { return };
        let line = &mut self.locks[lock].line;
        if line.is_contender(ticket) && matches!(line.phase, Phase::Sleeping(_)) {
            line.phase = Phase::Sleeping(now + pause.unwrap_or_default());
            self.set_lock_timer(lock);
        }
        if pause.is_none() {
            self.end_busy(now, ticket);
        }
    }

    /// Takes a request out of the line; the next request continues in its place.
    pub(super) fn leave_line(&mut self, now: Instant, ticket: Ticket) {
        let queued = self.requests.acquire_mut(ticket).filter(|acquire| acquire.route == Route::Queued);
        let Some(acquire) = queued else { return };
        acquire.route = Route::Direct;
        let lock = acquire.lock;
        let line = &mut self.locks[lock].line;
        if line.leave(now, ticket) {
            self.begin_turn(now, lock);
        } else {
            self.pick_contender(lock);
            self.set_lock_timer(lock);
        }
    }

    /// Fails all requests of the line. If the server is out of reach, requests with a fallback stay.
    pub(super) fn fail_line(&mut self, now: Instant, lock: LockId, error: &AcquireError) {
        let out_of_reach = matches!(error, AcquireError::Unreachable(_));
        let (mut stay, mut fail) = (WaitQueue::default(), Vec::new());
        for ticket in std::mem::take(&mut self.locks[lock].line.queue).iter() {
            match self.requests.waiter(ticket).map(|acquire| acquire.request.fallback) {
                None => debug_assert!(false, "a request that waits no more has left the queue"),
                Some(fallback) if out_of_reach && fallback != Fallback::Fail => stay.push(ticket, End::Back),
                Some(_) => fail.push(ticket),
            }
        }
        for ticket in self.locks[lock].line.contender.into_iter().chain(fail) {
            if self.requests[ticket].is_withdrawing() {
                // It has already failed.
                self.stop_withdrawing(now, ticket, &error.to_string());
            } else {
                let unsure = self.is_outcome_unknown(ticket);
                let error = if unsure { AcquireError::OutcomeUnknown(error.to_string()) } else { error.clone() };
                self.fail_acquire(now, ticket, error);
            }
        }
        if stay.is_empty() {
            return self.line_is_empty(lock);
        }
        let state = &mut self.locks[lock];
        state.line.queue = stay;
        state.forget_failures();
        self.begin_turn(now, lock);
    }
}

/// The waiters of one lock, and what they have in common.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The waiters behind the contender.
    pub(super) queue: WaitQueue,
    /// The waiter that may ask the server. If there is none while requests wait, none of their futures polled in its turn.
    pub(super) contender: Option<Ticket>,
    pub(super) phase: Phase,
    /// A notice came while the contender's command was in flight.
    pub(super) notice_came: bool,
    pub(super) pipelining: Pipelining,
    pub(super) failures: Failures,
    /// The next heartbeat of a fair lock's waiters.
    pub(super) heartbeat_at: Option<Instant>,
    pub(super) heartbeat_in_flight: bool,
    /// Counts the rounds of invitations: an invitation of an earlier round is void. A grant of a shared lock invites waiters to ask beside
    /// the contender.
    pub(super) round: u64,
    /// Each grant invites twice as many waiters as the grant before. A busy reply begins a new round with one waiter.
    pub(super) doublings: u32,
    /// Abandoned ungranted holds that the server may still have.
    pub(super) given_up: BTreeSet<HoldNumber>,
    /// The last warning that a task of this client may wait for itself.
    pub(super) alarmed_at: Option<Instant>,
    /// The anomaly that a waiter has reported.
    pub(super) anomaly: Option<Anomaly>,
}

/// A line, allocated for the first waiter: a client may hold a hundred thousand locks for which no request waits.
#[derive(Default)]
pub(super) struct LazyLine(pub(super) Option<Box<Line>>);

static EMPTY: LazyLock<Line> = LazyLock::new(Line::default);

impl LazyLine {
    pub(super) fn get_mut(&mut self) -> Option<&mut Line> {
        self.0.as_deref_mut()
    }

    /// Returns the box of a line that has nothing left to remember.
    pub(super) fn shrink(&mut self) -> Option<Box<Line>> {
        self.0.take_if(|line| line.is_blank())
    }
}

impl Deref for LazyLine {
    type Target = Line;

    fn deref(&self) -> &Line {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

/// Allocates the line.
impl DerefMut for LazyLine {
    fn deref_mut(&mut self) -> &mut Line {
        self.0.get_or_insert_default()
    }
}

/// An allocation makes no difference to the state.
impl fmt::Debug for LazyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The activity of the contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request waits.
    #[default]
    Idle,
    /// It may ask, and loses the turn unless it polls before this instant. Without a contender the turn is open, and does not lapse.
    Ready(Instant),
    /// Its command is in flight, or being settled.
    Asking,
    /// It waits for the server to confirm the subscription.
    Subscribing,
    /// It waits for a notice, until this instant at most.
    Sleeping(Instant),
    /// Its own client has sent the release, and it may ask behind that. If it does not poll, it waits for a notice, until this instant at most.
    Pipelining(Instant),
    /// It pauses after a failure until this instant.
    BackingOff(Instant),
    /// It waits for another task of this client to release.
    Gated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.contender.is_none() && self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.contender.is_some())
    }

    pub(super) fn is_contender(&self, ticket: Ticket) -> bool {
        self.contender == Some(ticket)
    }

    /// Whether this request is the contender, and may ask now.
    pub(super) fn is_turn_of(&self, ticket: Ticket) -> bool {
        self.is_contender(ticket) && matches!(self.phase, Phase::Ready(_) | Phase::Pipelining(_))
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready(_))
    }

    /// Whether the contender learns of releases from notices alone.
    pub(super) const fn listens(&self) -> bool {
        matches!(self.phase, Phase::Sleeping(_) | Phase::Pipelining(_) | Phase::Subscribing)
    }

    /// Whether the contender has no command in flight and no failure: it waits for a release, or is about to ask.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.listens() || self.is_ready()
    }

    /// The contender, and the queue behind it.
    pub(super) fn members(&self) -> impl Iterator<Item = Ticket> {
        self.contender.into_iter().chain(self.queue.iter())
    }

    /// The end of the contender's phase.
    pub(super) const fn timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Ready(until) if self.contender.is_some() => Some(until),
            Phase::Sleeping(until) | Phase::Pipelining(until) | Phase::BackingOff(until) => Some(until),
            _ => None,
        }
    }

    /// Gives the turn to another request; the contender goes to this end of the queue.
    pub(super) fn replace_contender(&mut self, ticket: Ticket, end: End) {
        self.queue.remove(ticket);
        if let Some(contender) = self.contender.replace(ticket) {
            self.queue.push(contender, end);
        }
    }

    /// Returns whether the contender left in its turn: the next request may ask at once.
    #[must_use]
    fn leave(&mut self, now: Instant, ticket: Ticket) -> bool {
        if !self.is_contender(ticket) {
            self.queue.remove(ticket);
            return false;
        }
        self.contender = None;
        if self.phase == Phase::Asking {
            self.phase = Phase::Ready(now);
        }
        self.is_ready()
    }

    /// This client sends a release. Returns whether the sleeping contender is to ask behind it.
    #[must_use]
    pub(super) fn pipeline(&mut self) -> bool {
        let Phase::Sleeping(until) = self.phase else { return false };
        let asks = self.contender.is_some() && self.pipelining.note_release();
        if asks {
            self.phase = Phase::Pipelining(until);
        }
        asks
    }

    pub(super) const fn begin_attempt(&mut self) {
        self.pipelining.is_attempt = matches!(self.phase, Phase::Pipelining(_));
        self.phase = Phase::Asking;
        self.notice_came = false;
    }

    /// The contender found the lock taken. It retries if a notice has arrived since its last request, and otherwise sleeps. First it waits for its
    /// subscription unless that is `confirmed`.
    fn wait(&mut self, confirmed: bool, ready_until: Instant, sleep_until: Instant) {
        self.pipelining.refused();
        self.phase = match (confirmed, self.notice_came) {
            (false, _) => Phase::Subscribing,
            (true, true) => Phase::Ready(ready_until),
            (true, false) => Phase::Sleeping(sleep_until),
        };
    }

    /// Records a notice. Returns whether it is the contender's turn now. A contender whose command is in flight asks once more after the reply.
    #[must_use]
    fn note_notice(&mut self) -> bool {
        self.notice_came |= self.phase == Phase::Asking;
        matches!(self.phase, Phase::Sleeping(_) | Phase::Pipelining(_))
    }

    /// The server has confirmed the subscription; earlier releases were missed. Returns whether it is the contender's turn now.
    #[must_use]
    pub(super) fn note_confirmed(&mut self) -> bool {
        self.phase == Phase::Subscribing || self.note_notice()
    }

    /// The contender may have missed notices. It retries at `at` at the latest, and once more after a command in flight.
    pub(super) fn note_missed_notices(&mut self, at: Instant) {
        match &mut self.phase {
            Phase::Sleeping(until) | Phase::Pipelining(until) | Phase::BackingOff(until) => *until = at.min(*until),
            Phase::Asking => self.notice_came = true,
            Phase::Idle | Phase::Ready(_) | Phase::Subscribing | Phase::Gated => {}
        }
    }

    fn is_blank(&self) -> bool {
        self.is_empty()
            && self.phase == Phase::Idle
            && (self.round, self.doublings) == (0, 0)
            && self.failures.0.is_none()
            && self.heartbeat_at.is_none()
            && !self.heartbeat_in_flight
            && self.given_up.is_empty()
            && self.alarmed_at.is_none()
            && self.anomaly.is_none()
    }
}

/// Pipelining: the contender of a queue on the server asks right behind its own client's release, without waiting for the notice.
///
/// The acquire follows the release on the same connection, so it finds the lock free. It is granted where the next waiter of the queue is of
/// this client, and is otherwise in vain. After an attempt in vain one release goes without, then two, four, and so on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pipelining {
    /// The contender's attempt in flight is pipelined.
    is_attempt: bool,
    /// Number of releases that still go without.
    spared: u8,
    /// Number of releases that went without after the last attempt in vain; 0 after a grant.
    last_spared: u8,
}

/// Maximum number of releases without pipelining after an attempt in vain.
const MAX_SPARED: u8 = 64;

impl Pipelining {
    /// Records a release. Returns whether the contender is to ask behind it.
    #[must_use]
    const fn note_release(&mut self) -> bool {
        let asks = self.spared == 0;
        self.spared = self.spared.saturating_sub(1);
        asks
    }

    /// Records a grant. Returns whether the attempt was pipelined.
    #[must_use]
    fn granted(&mut self) -> bool {
        let pipelined = std::mem::take(&mut self.is_attempt);
        if pipelined {
            self.last_spared = 0;
        }
        pipelined
    }

    fn refused(&mut self) {
        if std::mem::take(&mut self.is_attempt) {
            self.last_spared = (self.last_spared * 2).clamp(1, MAX_SPARED);
            self.spared = self.last_spared;
        }
    }
}

/// The waiters behind the contender, each at most once. No operation is linear, because thousands of tasks may wait for a lock.
#[derive(Default)]
pub(super) struct WaitQueue {
    order: BTreeMap<i64, Ticket>,
    positions: NumberMap<Ticket, i64>,
}

impl WaitQueue {
    pub(super) fn push(&mut self, ticket: Ticket, end: End) {
        self.remove(ticket);
        let position = match end {
            End::Front => self.order.first_key_value().map_or(0, |(first, _)| first - 1),
            End::Back => self.order.last_key_value().map_or(0, |(last, _)| last + 1),
        };
        self.order.insert(position, ticket);
        self.positions.insert(ticket, position);
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        if let Some(position) = self.positions.remove(&ticket) {
            self.order.remove(&position);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.order.values().copied()
    }

    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.positions.contains_key(&ticket)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}

/// The requests alone: two queues with the same requests are the same, whatever their positions.
impl fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
