//! The line of a lock: the waiters of this client, and which of them asks the server next.

use crate::command::WaitPolicy;
use crate::error::AcquireError;
use crate::number_map::NumberMap;
use crate::session::lock::LockId;
use crate::session::request::{Acquire, LocalPlace};
use crate::session::{Fallback, Session, Ticket};
use crate::time::Instant;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The line of a lock.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The requests that wait, the contender aside.
    pub(super) queue: WaitQueue,
    /// The one that may ask the server. If there is none while requests wait, their futures have not been polled when it was their turn.
    pub(super) contender: Option<Ticket>,
    pub(super) phase: Phase,
    /// A notice came while the contender's command was under way.
    pub(super) notice_came: bool,
    ahead: Ahead,
}

/// The activity of the contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request waits.
    #[default]
    Idle,
    /// It may ask, and has until then to be polled; for ever, if all waiting futures are never polled.
    Due(Instant),
    /// Its command is under way, or being settled.
    Trying,
    /// It waits for the server to confirm the subscription.
    Subscribing,
    /// It waits for a notice, until then at most.
    Sleeping(Instant),
    /// Its own client has sent the release: it may ask behind that. If it is not polled it goes on to wait for a notice, until then at most.
    Ahead(Instant),
    /// It leaves the server in peace until then.
    BackingOff(Instant),
    /// It waits for another task of this client to let go.
    Gated,
}

/// What a request leaves behind that has left the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the next request may have to be woken"]
pub(super) enum AfterLeaving {
    /// No request waits any more.
    Empty,
    /// It was not the contender: nothing changes for the others.
    Unchanged,
    /// The contender's turn is free, and the next one may ask at once.
    TurnIsOpen,
    /// The next one waits where the contender did.
    NextWaits,
}

/// The end of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

impl Line {
    /// A line in which no request waits.
    pub(super) const fn new() -> Self {
        Self { queue: WaitQueue::new(), contender: None, phase: Phase::Idle, notice_came: false, ahead: Ahead::new() }
    }

    /// Whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.contender.is_none() && self.queue.is_empty()
    }

    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.contender.is_some())
    }

    /// Whether this request is the contender.
    pub(super) fn is_contender(&self, ticket: Ticket) -> bool {
        self.contender == Some(ticket)
    }

    /// Whether this request is the contender, and may ask now.
    pub(super) fn is_turn_of(&self, ticket: Ticket) -> bool {
        self.is_contender(ticket) && matches!(self.phase, Phase::Due(_) | Phase::Ahead(_))
    }

    /// Whether the turn is due, whosever it is.
    pub(super) const fn is_due(&self) -> bool {
        matches!(self.phase, Phase::Due(_))
    }

    /// Whether the contender waits without asking, and learns from notices alone.
    pub(super) const fn listens(&self) -> bool {
        matches!(self.phase, Phase::Sleeping(_) | Phase::Ahead(_) | Phase::Subscribing)
    }

    /// Whether the contender has nothing on its way, and nothing has failed for it: it waits for a release, or is about to ask.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.listens() || self.is_due()
    }

    /// The contender, and the requests behind it in order.
    pub(super) fn members(&self) -> impl Iterator<Item = Ticket> {
        self.contender.into_iter().chain(self.queue.iter())
    }

    /// When the contender's phase ends by itself.
    pub(super) const fn timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Due(until) if self.contender.is_some() => Some(until),
            Phase::Sleeping(until) | Phase::Ahead(until) | Phase::BackingOff(until) => Some(until),
            _ => None,
        }
    }

    /// The first request comes: it is its turn, and it has until then to be polled.
    pub(super) fn begin(&mut self, ticket: Ticket, until: Instant) {
        debug_assert!(self.is_empty(), "a request is first in an empty line");
        self.contender = Some(ticket);
        self.phase = Phase::Due(until);
    }

    /// A request comes that does not contend.
    pub(super) fn push(&mut self, ticket: Ticket, end: End) {
        match end {
            End::Front => self.queue.push_front(ticket),
            End::Back => self.queue.push_back(ticket),
        }
    }

    /// A request of the line takes the contender's turn, and that one goes to this end of the queue.
    pub(super) fn replace_contender(&mut self, ticket: Ticket, end: End) {
        self.queue.remove(ticket);
        if let Some(contender) = self.contender.replace(ticket) {
            self.push(contender, end);
        }
    }

    /// The contender does not use its turn, and goes to this end of the queue.
    pub(super) fn step_back(&mut self, ticket: Ticket, end: End) {
        debug_assert!(self.is_contender(ticket), "only the contender has a turn");
        self.contender = None;
        self.push(ticket, end);
    }

    /// Makes the first request that is awake the contender, if there is none.
    pub(super) fn pick(&mut self, is_awake: impl Fn(Ticket) -> bool) {
        if self.contender.is_none() {
            self.contender = self.queue.iter().find(|ticket| is_awake(*ticket));
            if let Some(contender) = self.contender {
                self.queue.remove(contender);
            }
        }
    }

    /// A request leaves the queue behind the contender, if it stands there.
    pub(super) fn leave_queue(&mut self, ticket: Ticket) {
        self.queue.remove(ticket);
    }

    /// A request leaves the line.
    pub(super) fn leave(&mut self, now: Instant, ticket: Ticket) -> AfterLeaving {
        if !self.is_contender(ticket) {
            self.queue.remove(ticket);
            return if self.is_empty() { AfterLeaving::Empty } else { AfterLeaving::Unchanged };
        }
        self.contender = None;
        if self.phase == Phase::Trying {
            self.phase = Phase::Due(now);
        }
        if self.is_due() { AfterLeaving::TurnIsOpen } else { AfterLeaving::NextWaits }
    }

    /// The contender is granted the lock. Says whether it asked ahead of its notice.
    #[must_use]
    pub(super) const fn contender_leaves(&mut self) -> bool {
        self.contender = None;
        self.ahead.granted()
    }

    /// This client sends a release. Says whether the contender, which sleeps, is to ask behind it.
    #[must_use]
    pub(super) fn ask_ahead(&mut self) -> bool {
        let Phase::Sleeping(until) = self.phase else { return false };
        let asks = self.contender.is_some() && self.ahead.note_release();
        if asks {
            self.phase = Phase::Ahead(until);
        }
        asks
    }

    /// It is the contender's turn, until then.
    pub(super) const fn set_due(&mut self, until: Instant) {
        self.phase = Phase::Due(until);
    }

    /// The contender's command is sent.
    pub(super) const fn begin_attempt(&mut self) {
        self.ahead.begin(matches!(self.phase, Phase::Ahead(_)));
        self.phase = Phase::Trying;
        self.notice_came = false;
    }

    /// The contender has asked before it became so. Its answer may be older than what makes it its turn: it asks once more after it.
    pub(super) const fn await_older_attempt(&mut self) {
        self.phase = Phase::Trying;
        self.notice_came = true;
    }

    /// The contender was told that the lock is taken. It asks again at once if a notice came meanwhile; it waits for its subscription if that
    /// is not `confirmed`; and it sleeps otherwise.
    pub(super) fn wait(&mut self, confirmed: bool, due_until: Instant, sleep_until: Instant) {
        self.ahead.refused();
        self.phase = match (confirmed, self.notice_came) {
            (false, _) => Phase::Subscribing,
            (true, true) => Phase::Due(due_until),
            (true, false) => Phase::Sleeping(sleep_until),
        };
    }

    /// The next contender waits for a release, whatever the last one heard.
    pub(super) const fn wait_for_release(&mut self, confirmed: bool, sleep_until: Instant) {
        self.phase = if confirmed { Phase::Sleeping(sleep_until) } else { Phase::Subscribing };
    }

    /// The contender sleeps until then, unless a notice comes.
    pub(super) const fn sleep(&mut self, until: Instant) {
        self.phase = Phase::Sleeping(until);
    }

    /// The contender leaves the server in peace until then.
    pub(super) const fn back_off(&mut self, until: Instant) {
        self.phase = Phase::BackingOff(until);
    }

    /// The contender waits for another task of this client.
    pub(super) const fn gate(&mut self) {
        self.phase = Phase::Gated;
    }

    /// A notice came. Says whether it is the contender's turn now; if its command is under way, it asks once more after it.
    #[must_use]
    pub(super) const fn note_notice(&mut self) -> bool {
        match self.phase {
            Phase::Sleeping(_) | Phase::Ahead(_) => return true,
            Phase::Trying => self.notice_came = true,
            Phase::Idle | Phase::Due(_) | Phase::Subscribing | Phase::BackingOff(_) | Phase::Gated => {}
        }
        false
    }

    /// The server has confirmed the subscription; earlier releases were missed. Returns whether it is the contender's
    /// turn now. If its command is in flight, the reply may be older, so it retries once after that reply.
    #[must_use]
    pub(super) fn note_confirmed(&mut self) -> bool {
        self.phase == Phase::Subscribing || self.note_notice()
    }

    /// Notices may have been missed: the contender asks at `at` or before, and once more if its command is under way.
    pub(super) fn note_missed_notices(&mut self, at: Instant) {
        match &mut self.phase {
            Phase::Sleeping(until) | Phase::Ahead(until) | Phase::BackingOff(until) => *until = at.min(*until),
            Phase::Trying => self.notice_came = true,
            Phase::Idle | Phase::Due(_) | Phase::Subscribing | Phase::Gated => {}
        }
    }

    /// The contender, if it sleeps, does so until `at` at most. Says whether it sleeps.
    pub(super) fn wake_by(&mut self, at: Instant) -> bool {
        let (Phase::Sleeping(until) | Phase::Ahead(until)) = &mut self.phase else { return false };
        *until = at.min(*until);
        true
    }

    /// Takes the queue out; the contender stays.
    pub(super) fn take_queue(&mut self) -> WaitQueue {
        std::mem::take(&mut self.queue)
    }

    /// No request waits any more.
    pub(super) fn end(&mut self) {
        debug_assert!(self.is_empty(), "no waiter is forgotten");
        self.phase = Phase::Idle;
        self.notice_came = false;
    }
}

// ===== Asking ahead =====
//
// Asking ahead: the contender of a queue on the server asks as soon as its own client has sent the release, and does not wait for the notice.
//
// The acquire goes behind the release on the same connection, so that the server has freed the lock when it comes to it. It is granted where
// the next of the queue is of this client; otherwise it is a command in vain. The server decides in any case.

/// How many releases go by without it, at most, after it was in vain.
const MOST_SPARED: u8 = 64;

/// Whether asking ahead is worth a command. After an attempt in vain it is left out for a release, then for two, four, and so on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    attempt: Attempt,
    /// For how many releases it is left out from now on.
    spared: u8,
    /// For how many it was left out after the last attempt in vain; 0 where the last attempt was granted.
    last_spared: u8,
}

/// The contender's attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Attempt {
    /// None is under way, or it waited for its turn.
    #[default]
    InTurn,
    /// It asks ahead.
    Ahead,
}

impl Ahead {
    /// Nothing is known yet.
    pub(super) const fn new() -> Self {
        Self { attempt: Attempt::InTurn, spared: 0, last_spared: 0 }
    }

    /// A release is sent. Says whether the contender is to ask behind it.
    #[must_use]
    pub(super) const fn note_release(&mut self) -> bool {
        let asks = self.spared == 0;
        self.spared = self.spared.saturating_sub(1);
        asks
    }

    /// The contender asks.
    pub(super) const fn begin(&mut self, ahead: bool) {
        self.attempt = if ahead { Attempt::Ahead } else { Attempt::InTurn };
    }

    /// It has the lock. Says whether it asked ahead.
    #[must_use]
    pub(super) const fn granted(&mut self) -> bool {
        let asked_ahead = matches!(self.attempt, Attempt::Ahead);
        if asked_ahead {
            (self.attempt, self.last_spared) = (Attempt::InTurn, 0);
        }
        asked_ahead
    }

    /// It does not have the lock.
    pub(super) fn refused(&mut self) {
        if std::mem::take(&mut self.attempt) == Attempt::Ahead {
            self.last_spared = (self.last_spared * 2).clamp(1, MOST_SPARED);
            self.spared = self.last_spared;
        }
    }
}

// ===== The queue behind the contender =====
//
// The waiters of a lock within this client, in their order.

/// Requests that wait for a lock, the contender aside. A request stands in it at most once. Joining, leaving and finding the first take the
/// same time however many there are, because thousands of tasks may wait for one lock.
#[derive(Default)]
pub(super) struct WaitQueue {
    /// The places in their order. One that a request has left is empty, and neither the first nor the last is.
    places: VecDeque<Option<Ticket>>,
    /// The position of the first place. The others follow it.
    first: i64,
    positions: NumberMap<Ticket, i64>,
}

/// How many empty places there may be beside as many as there are requests.
const SPARE: usize = 32;

impl WaitQueue {
    /// A queue in which no request waits.
    pub(super) const fn new() -> Self {
        Self { places: VecDeque::new(), first: 0, positions: NumberMap::with_hasher(FxBuildHasher) }
    }

    /// Puts a request last, wherever it stood.
    pub(super) fn push_back(&mut self, ticket: Ticket) {
        self.remove(ticket);
        self.positions.insert(ticket, self.first + offset(self.places.len()));
        self.places.push_back(Some(ticket));
    }

    /// Puts a request first, wherever it stood.
    pub(super) fn push_front(&mut self, ticket: Ticket) {
        self.remove(ticket);
        self.first -= 1;
        self.positions.insert(ticket, self.first);
        self.places.push_front(Some(ticket));
    }

    /// Takes a request out, if it stands there.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        let Some(position) = self.positions.remove(&ticket) else { return };
        let place = usize::try_from(position - self.first).ok().and_then(|index| self.places.get_mut(index));
        debug_assert!(place.as_deref() == Some(&Some(ticket)), "a request stands where it is said to stand");
        if let Some(place) = place {
            *place = None;
        }
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
        while let Some(None) = self.places.back() {
            self.places.pop_back();
        }
        if self.places.len() > 2 * self.positions.len() + SPARE {
            self.close_up();
        }
    }

    /// Leaves no place empty. It takes time, and is done once for as many requests as stand here.
    fn close_up(&mut self) {
        self.places.retain(Option::is_some);
        for (index, ticket) in self.places.iter().flatten().enumerate() {
            self.positions.insert(*ticket, self.first + offset(index));
        }
    }

    /// The requests, the first one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.places.iter().flatten().copied()
    }

    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.positions.contains_key(&ticket)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }
}

/// The distance of a place from the first one.
fn offset(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// The requests in their order: positions mean nothing by themselves, and two queues with the same requests are the same.
impl fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

// ===== Invitations =====
//
// The waiters that may ask beside the contender, where several may hold the lock.

/// How many waiters of a client may ask beside the contender.
#[derive(Debug)]
pub(super) struct Invitations {
    /// An invitation of an earlier round is void.
    pub(super) round: u64,
    /// How many waiters the next grant invites.
    width: usize,
}

impl Invitations {
    /// The first grant after a busy answer invites so many.
    const FIRST: usize = 1;
    /// No grant invites more than so many.
    const MOST: usize = 64;

    pub(super) const fn new() -> Self {
        Self { round: 0, width: Self::FIRST }
    }

    /// Whether no waiter was ever invited.
    pub(super) const fn is_new(&self) -> bool {
        self.round == 0 && self.width == Self::FIRST
    }

    /// A waiter was granted: says how many are invited now. The next grant invites twice as many.
    pub(super) fn widen(&mut self) -> usize {
        let width = self.width;
        self.width = (width * 2).min(Self::MOST);
        width
    }

    /// The lock is busy: no waiter is invited any more.
    pub(super) const fn end_round(&mut self) {
        self.round += 1;
        self.width = Self::FIRST;
    }
}

// ===== Turns =====
//
// The line of the requests that wait for a lock within this client: how one joins it, and how all fail with it.

impl Session {
    /// Puts a request that was to re-enter a hold into the line, because the hold has ended.
    pub(super) fn join_line(&mut self, now: Instant, ticket: Ticket) {
        self.join_line_at(now, ticket, End::Back);
    }

    /// Moves a request into the line.
    pub(super) fn join_line_at(&mut self, now: Instant, ticket: Ticket, end: End) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if acquire.place == LocalPlace::Line || acquire.has_ended() {
            return;
        }
        if self.requests.acquire(ticket).is_some_and(|acquire| {
            acquire.is_final_attempt || acquire.end_of_wish(self.settings.command_timeout) <= now
        }) {
            // Its patience has ended, so it does not wait again.
            self.end_busy(now, ticket);
            return;
        }
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        acquire.join_line();
        let lock = acquire.lock;
        let line = self.locks[lock].line_mut();
        line.push(ticket, end);
        // If no polled future holds the turn, this one takes it.
        if line.contender.is_none() && matches!(line.phase, Phase::Idle | Phase::Due(_)) {
            self.begin_turn(now, lock);
        }
        self.begin_to_wait(now, ticket);
    }

    /// Fails all requests of the line. If the server is out of reach, requests with a fallback stay.
    pub(super) fn fail_line(&mut self, now: Instant, lock: LockId, error: &AcquireError) {
        let out_of_reach = matches!(error, AcquireError::Unreachable(_));
        let (mut stay, mut fail) = (WaitQueue::default(), Vec::new());
        for ticket in self.locks[lock].line_mut().take_queue().iter() {
            match self.requests.waiter(ticket).map(|acquire| acquire.wish.fallback) {
                None => debug_assert!(false, "a request that waits no more has left the queue"),
                Some(fallback) if out_of_reach && fallback != Fallback::Fail => stay.push_back(ticket),
                Some(_) => fail.push(ticket),
            }
        }
        if let Some(contender) = self.locks[lock].line().contender {
            if self.requests.acquire(contender).is_some_and(|acquire| acquire.is_taking_back()) {
                // The contender has already failed, and waits for its withdrawal.
                self.stop_taking_back(now, contender, &error.to_string());
            } else {
                let error =
                    if self.is_outcome_unknown(contender) { self.failure_error(contender) } else { error.clone() };
                self.fail_acquire(now, contender, error);
            }
        }
        for ticket in fail {
            // In a server queue other waiters than the contender send acquires too.
            let unsure = self.is_outcome_unknown(ticket);
            let error = if unsure { AcquireError::OutcomeUnknown(error.to_string()) } else { error.clone() };
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.stand_aside();
            }
            self.fail_acquire(now, ticket, error);
        }
        if stay.is_empty() {
            self.line_is_empty(lock);
            return;
        }
        let state = &mut self.locks[lock];
        state.line_mut().queue = stay;
        state.forget_failures();
        self.begin_turn(now, lock);
    }

    /// Takes what the caller's own back-off says; `None` ends the wait.
    pub fn handle_backoff(&mut self, now: Instant, ticket: Ticket, pause: Option<Duration>) {
        let waits = |acquire: &&Acquire| acquire.waits_in_line();
        let Some(lock) = self.requests.acquire(ticket).filter(waits).map(|acquire| acquire.lock) else { return };
        let line = self.locks[lock].line_mut();
        if line.is_contender(ticket) && matches!(line.phase, Phase::Sleeping(_)) {
            line.sleep(now + pause.unwrap_or_default());
            self.set_lock_timer(lock);
        }
        if pause.is_none() {
            self.end_busy(now, ticket);
        }
    }

    /// Takes the turn from a request whose future was not polled in time, until its next poll. At a fair lock it loses its place in the queue.
    pub(super) fn turn_missed(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, last) = (acquire.lock, acquire.is_final_attempt);
        let begun = acquire.note_unpolled();
        if let Some(number) = begun {
            self.abandon_hold(now, ticket, number);
        }
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        if acquire.place != LocalPlace::Line || !self.locks[lock].line().is_contender(ticket) {
            return;
        }
        if last {
            self.end_busy(now, ticket);
            return;
        }
        let state = &mut self.locks[lock];
        // Give up its place on the server. Its next poll takes a new place, at the tail.
        let in_places = state.wait_policy() == WaitPolicy::ServerQueue;
        state.line_mut().step_back(ticket, if in_places { End::Back } else { End::Front });
        self.begin_to_wait(now, ticket);
        self.begin_turn(now, lock);
    }

    /// Retries a request whose call was settled.
    pub(super) fn retry_after_settlement(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, place, last) = (acquire.lock, acquire.place, acquire.is_final_attempt);
        if last {
            let error = self.failure_error(ticket);
            self.fail_acquire(now, ticket, error);
        } else if place == LocalPlace::Line && self.locks[lock].line().is_contender(ticket) {
            self.begin_turn(now, lock);
        } else {
            self.wake(ticket);
        }
    }
}

// ===== The next turn =====
//
// The turn in a line: who is the contender, when it may ask, and who follows when it leaves.

impl Session {
    pub(super) fn line_is_empty(&mut self, lock: LockId) {
        self.locks.end_line(lock);
        self.set_lock_timer(lock);
        self.drop_notices(lock);
    }

    /// No request waits for the lock now. A lock with lingering holds stays subscribed to requests of other clients.
    pub(super) fn drop_notices(&mut self, lock: LockId) {
        let last = self.locks[lock].last_granted.and_then(|number| self.holds.get(number));
        if !last.is_some_and(|hold| hold.is_asked_for()) && !self.listening.contains_key(&lock) {
            self.subscriptions.retain(lock, |_| false, &mut self.out);
        }
    }

    /// A hold of the lock may not linger any more: nothing is heard unless a request waits.
    pub(super) fn drop_unwanted_notices(&mut self, lock: LockId) {
        if self.locks[lock].line().is_empty() {
            self.drop_notices(lock);
        }
    }

    /// Makes sure that the lock's releases are heard of; `true` if the server has confirmed it already, or if there is nothing to be heard and
    /// waiting is by polling.
    pub(super) fn want_notices(&mut self, lock: LockId) -> bool {
        let state = &self.locks[lock];
        if !self.subscriptions.listens(lock, |channel| state.is_channel(channel))
            && let Some(channel) = &state.channel()
        {
            self.subscriptions.listen(lock, channel, &mut self.out);
        }
        self.subscriptions.is_confirmed(lock)
    }

    /// Fills the contender's place with the first of the line whose future was polled when its turn came.
    pub(super) fn pick_contender(&mut self, lock: LockId) {
        let requests = &self.requests;
        let line = self.locks[lock].line_mut();
        line.pick(|ticket| requests.waiter(ticket).is_some_and(|acquire| acquire.is_awake()));
        if line.is_empty() {
            self.line_is_empty(lock);
        }
    }

    /// It is the contender's turn.
    pub(super) fn begin_turn(&mut self, now: Instant, lock: LockId) {
        let state = &mut self.locks[lock];
        let until = now + state.wait_policy().turn(&self.settings);
        state.line_mut().set_due(until);
        self.pick_contender(lock);
        if let Some(contender) = self.locks[lock].line().contender {
            if self.locks[lock].wait_policy() == WaitPolicy::Shared && self.is_under_way(contender) {
                // It asked while it was not the contender. Its answer may be older than what makes it its turn.
                self.locks[lock].line_mut().await_older_attempt();
            } else {
                self.wake(contender);
            }
        }
        self.set_lock_timer(lock);
    }

    /// A request is granted, perhaps out of turn: the server knows a better order than this client. It leaves the queue before any other
    /// request can come to it there.
    pub(super) fn leave_queue(&mut self, ticket: Ticket, lock: LockId) {
        self.locks[lock].line_mut().leave_queue(ticket);
    }

    /// Takes a request out of the line; the next one goes on where it stood.
    pub(super) fn leave_line(&mut self, now: Instant, ticket: Ticket, lock: LockId) {
        let Some(acquire) = self.requests.acquire_mut(ticket).filter(|acquire| acquire.place == LocalPlace::Line)
        else {
            return;
        };
        acquire.stand_aside();
        match self.locks[lock].line_mut().leave(now, ticket) {
            AfterLeaving::Empty => return self.line_is_empty(lock),
            AfterLeaving::Unchanged => return,
            AfterLeaving::TurnIsOpen => self.begin_turn(now, lock),
            AfterLeaving::NextWaits => self.pick_contender(lock),
        }
        self.set_lock_timer(lock);
    }

    /// The contender has the lock: who comes next sleeps until it is released, and need not try now.
    pub(super) fn contender_granted(&mut self, now: Instant, ticket: Ticket, lock: LockId, left: Duration) {
        if !self.locks[lock].line().is_contender(ticket) {
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.stand_aside();
            }
            if self.locks[lock].line().is_empty() {
                self.line_is_empty(lock);
            } else {
                self.invite(lock);
            }
            return;
        }
        if self.locks[lock].line_mut().contender_leaves() {
            self.granted_ahead += 1;
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.stand_aside();
        }
        if self.locks[lock].line().is_empty() {
            self.line_is_empty(lock);
            return;
        }
        if self.is_gated(lock) {
            self.locks[lock].line_mut().gate();
            self.pick_contender(lock);
            self.set_lock_timer(lock);
            return;
        }
        if self.locks[lock].wait_policy() == WaitPolicy::Shared {
            self.begin_turn(now, lock);
            self.invite(lock);
            return;
        }
        let confirmed = self.want_notices(lock);
        let polls = self.locks[lock].is_polled();
        let until = now + self.sleep(Some(if polls { Duration::ZERO } else { left }));
        self.locks[lock].line_mut().wait_for_release(confirmed, until);
        self.pick_contender(lock);
        self.set_lock_timer(lock);
    }

    /// The contender sleeps until it is told that the lock may be free, or until the holder's lease may be over.
    pub(super) fn contender_waits(&mut self, now: Instant, lock: LockId, left: Option<Duration>) {
        let confirmed = self.want_notices(lock);
        let polls = self.locks[lock].is_polled();
        let until = now + if polls { left.unwrap_or_default() } else { self.sleep(left) };
        let state = &mut self.locks[lock];
        let due_until = now + state.wait_policy().turn(&self.settings);
        state.line_mut().wait(confirmed, due_until, until);
        if state.line().is_due() {
            self.begin_turn(now, lock);
        }
        self.set_lock_timer(lock);
    }

    /// How long to sleep when the holder's lease has `left` to go. A little more than that, and not the same everywhere, so
    /// that the clients of a fleet do not all ask at the same instant.
    pub(super) fn sleep(&mut self, left: Option<Duration>) -> Duration {
        let spread = self.jitter(Duration::from_millis(5));
        let recheck = self.settings.recheck;
        left.map_or(recheck, |left| recheck.min(left + Duration::from_millis(1) + spread))
    }

    /// Sends the request's call again at once.
    pub(super) fn resend_now(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let lock = acquire.lock;
        if acquire.place == LocalPlace::Line && self.locks[lock].line().is_contender(ticket) {
            self.begin_turn(now, lock);
        } else {
            self.wake(ticket);
        }
    }

    /// A task of this client has let go of the lock.
    pub(super) fn open_gates(&mut self, now: Instant, lock: LockId) {
        let is_gated = |at: &LockId| self.locks[*at].line().phase == Phase::Gated;
        let gated: Vec<LockId> = self.locks.same_name(lock).filter(is_gated).collect();
        for at in gated {
            if self.locks[at].line().phase == Phase::Gated && !self.is_gated(at) {
                self.begin_turn(now, at);
            }
        }
    }

    /// The lock may be free.
    pub(super) fn handle_notice(&mut self, now: Instant, lock: LockId) {
        if self.locks[lock].line_mut().note_notice() {
            self.begin_turn(now, lock);
        }
    }

    /// Whether a request has no place on the server, and may ask for one, whosever turn it is.
    pub(super) fn may_take_place(&self, ticket: Ticket) -> bool {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return false };
        let state = &self.locks[acquire.lock];
        let placed = acquire.hold.and_then(|number| self.holds.get(number)).is_some_and(|hold| hold.is_queued());
        // When the contender asks is a matter of its turn.
        let contends = state.line().is_contender(ticket) && !state.line().listens();
        state.wait_policy() == WaitPolicy::ServerQueue && acquire.place == LocalPlace::Line && !placed && !contends
    }
}

#[cfg(test)]
mod tests;
