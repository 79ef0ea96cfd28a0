//! An acquire: its start, its polls and its drop; what it does after a reply that grants nothing; how long it waits.
//!
//! `line.rs` decides whose turn it is, and `grant.rs` handles the replies.

use crate::backoff::Backoff;
use crate::call::Replicas;
use crate::command::{Acquired, Kind, WaitPolicy};
use crate::error::{AcquireError, HoldEnd, LossReason};
use crate::link::LinkError;
use crate::name::LockName;
use crate::owner::{HoldName, HoldNumber, OwnerId};
use crate::session::calls::CallResult;
use crate::session::hold::{Change, Hold};
use crate::session::line::{End, Phase};
use crate::session::lock::{Anomaly, LockId};
use crate::session::offline::Outage;
use crate::session::request::{Acquire, AcquireOutcome, Alarm, Failures, LastRetry, RequestKind, Route, Stage};
use crate::session::transfer::Linger;
use crate::session::{AcquireRequest, Event, Fallback, Patience, Session, Ticket, Timer, pause_before};
use crate::time::Instant;
use std::task::{Poll, Waker};
use std::time::Duration;

impl Session {
    /// Begins to acquire. Call [`Session::poll_acquire`] at once.
    pub fn acquire(&mut self, now: Instant, request: impl Into<Box<AcquireRequest>>) -> Ticket {
        let mut request = request.into();
        if !request.kind.protocol().reenters() {
            request.owner = None;
            request.reenter = None;
        }
        let ticket = Ticket::new(self.new_number());
        let lock = self.locks.get_or_insert(&request.name, request.kind, &self.client);
        self.locks[lock].refs += 1;
        if request.fallback == Fallback::Local {
            self.locks[lock].is_local = true;
        }
        let (owner, reenter) = (request.owner, request.reenter);
        if let Some(owner) = owner {
            self.owners.change(lock, owner, |owned| owned.requests.push(ticket));
        }
        let beside = self.look_at_siblings(lock, &request);
        self.requests.insert(ticket, RequestKind::Acquire(Acquire::new(now, lock, request)));
        let acquire = &mut self.requests[ticket];
        if self.closed {
            acquire.end(Err(AcquireError::Closed));
        } else if let Some(number) = reenter.or_else(|| self.owners.hold(lock, owner?)) {
            acquire.route = Route::Reentering(number);
            self.check_entry(now, ticket, number);
        } else {
            match beside {
                Ok(beside) => {
                    acquire.stand_beside(beside);
                    self.begin_route(now, ticket);
                }
                Err(error) => drop(acquire.end(Err(error))),
            }
        }
        ticket
    }

    /// Puts a new request into the line, unless it asks outside the line or ends at once.
    ///
    /// The contender of a new line does not ask at once in two cases. Other clients have a head start; or another task of this client has
    /// the lock, and is about to hand it over. Then it asks after the server has confirmed its subscription, or after a release notice.
    fn begin_route(&mut self, now: Instant, ticket: Ticket) {
        let acquire = &mut self.requests[ticket];
        let (lock, patience) = (acquire.lock, acquire.request.patience);
        if let Some(other_half) = acquire.request.beside {
            let of_half = self.holds.get(other_half).and_then(|hold| hold.replicas());
            acquire.request.replicas = acquire.request.replicas.into_iter().chain(of_half).reduce(Replicas::and);
        }
        let line = &mut self.locks[lock].line;
        if acquire.beside().is_some() {
            // An owner that holds the other half bypasses the line: a request in the line waits for that owner.
        } else if line.is_empty() {
            acquire.route = Route::Queued;
            let turn_until = now + self.turn(lock);
            self.locks.begin_line(lock, ticket, turn_until);
            let head_start = self.contended.held_back_until(now, self.locks[lock].name.key());
            let asks = patience == Patience::Try
                || (head_start.is_none() && (!self.expects_hand_over(now, lock) || self.want_notices(lock)));
            if asks {
                return;
            }
            self.locks[lock].line.phase = head_start.map_or(Phase::Subscribing, Phase::BackingOff);
            self.set_lock_timer(lock);
        } else if patience != Patience::Try {
            acquire.route = Route::Queued;
            line.queue.push(ticket, End::Back);
        } else {
            // A try asks beside the line if all may get in, or if no request has asked yet: the contender may never be polled. Otherwise
            // a waiter of this client has found the lock taken, unless the server is out of reach.
            let state = &self.locks[lock];
            let may_ask = state.wait_policy() == WaitPolicy::Shared || state.line.is_ready();
            if (!may_ask || self.is_gated(lock)) && self.failing_since(lock).is_none() {
                self.requests[ticket].end(Ok(None));
                return;
            }
        }
        self.begin_to_wait(now, ticket);
    }

    /// Polls an acquire. The ticket is invalid once this is ready.
    pub fn poll_acquire(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<AcquireOutcome> {
        self.check_unread(now, ticket);
        let acquire = &mut self.requests[ticket];
        if acquire.has_ended() {
            return self.poll_outcome(ticket);
        }
        let missed = std::mem::take(&mut acquire.unpolled);
        let (rests, entering) = (acquire.rests(), acquire.entering());
        self.requests.0[ticket].waker = Some(waker.clone());
        if rests || self.is_under_way(ticket) {
            return Poll::Pending;
        }
        if let Some(number) = entering {
            self.check_entry(now, ticket, number);
            // The hold to enter may have ended, and the caller's patience with it.
            let acquire = &self.requests[ticket];
            if acquire.has_ended() || acquire.rests() {
                return self.poll_outcome(ticket);
            }
        }
        if !self.advance(now, ticket, missed) {
            self.begin_to_wait(now, ticket);
        }
        self.poll_outcome(ticket)
    }

    fn poll_outcome(&mut self, ticket: Ticket) -> Poll<AcquireOutcome> {
        let acquire = &mut self.requests[ticket];
        let outcome = match std::mem::replace(&mut acquire.stage, Stage::Open) {
            Stage::Ended(outcome) => outcome,
            Stage::Granted(granted, _) => Ok(Some(granted)),
            waits => {
                acquire.stage = waits;
                return Poll::Pending;
            }
        };
        self.remove_request(ticket);
        Poll::Ready(outcome)
    }

    /// Advances a polled request. Returns `false` if it only waits.
    fn advance(&mut self, now: Instant, ticket: Ticket, missed: bool) -> bool {
        let acquire = &self.requests[ticket];
        let (lock, may_retry) = (acquire.lock, acquire.retry_at.is_none_or(|at| at <= now));
        let gated = match acquire.route {
            Route::Reentering(number) => {
                if !self.holds.get(number).is_some_and(|hold| hold.state.is_counted_by_client()) {
                    return may_retry && self.send_entry(now, ticket, number);
                }
                self.enter_by_itself(now, ticket, number);
                return true;
            }
            Route::Direct if !may_retry => return false,
            Route::Direct => !self.stands_beside(acquire) && self.is_gated(lock),
            Route::Queued => {
                if !self.locks[lock].line.is_turn_of(ticket) {
                    self.take_turn(ticket, lock, missed);
                }
                if !self.locks[lock].line.is_turn_of(ticket) {
                    let may_ask = may_retry && (self.may_take_place(ticket) || self.may_ask_beside(ticket));
                    return may_ask && self.send_first(now, ticket);
                }
                let gated = self.is_gated(lock);
                if !gated {
                    self.locks[lock].line.begin_attempt();
                    self.set_lock_timer(lock);
                }
                gated
            }
        };
        if gated {
            self.wait_at_gate(now, ticket);
            return true;
        }
        self.send_first(now, ticket)
    }

    /// Gives a polled request the turn if there is no contender. A request that missed its turn also replaces a contender that has not
    /// asked yet. Without that rule, two futures that both poll a little late would pass the turn to each other forever.
    fn take_turn(&mut self, ticket: Ticket, lock: LockId, missed: bool) {
        let state = &self.locks[lock];
        let contender = state.line.contender;
        let in_order = state.wait_policy() == WaitPolicy::ServerQueue && contender.is_some();
        if !state.line.is_ready() || contender == Some(ticket) || in_order {
            return;
        }
        let other = contender.and_then(|contender| self.requests.acquire(contender));
        if other.is_some_and(|other| !missed || other.is_final_attempt || other.hold.is_some()) {
            return;
        }
        self.locks[lock].line.replace_contender(ticket, End::Front);
    }

    /// Sends a first acquire, or resumes a lingering hold. Returns `false` while an earlier acquire is being settled.
    fn send_first(&mut self, now: Instant, ticket: Ticket) -> bool {
        if self.resume(now, ticket) {
            return true;
        }
        let acquire = &mut self.requests[ticket];
        acquire.attempts = acquire.attempts.saturating_add(1);
        let (lock, begun, may_await_cleanup) = (acquire.lock, acquire.hold, acquire.may_await_cleanup());
        if let Some(number) = begun {
            self.holds[number].restart_max_hold(now, acquire.request.max_hold);
        }
        let number = begun.unwrap_or_else(|| self.begin_hold(now, ticket));
        if may_await_cleanup {
            let overlaps = self.locks.same_name(lock).any(|lock| !self.locks[lock].line.given_up.is_empty());
            self.requests[ticket].last_retry = if overlaps { LastRetry::Overlapping } else { LastRetry::Nothing };
        }
        let Some(hold) = self.holds.get(number).filter(|hold| hold.change.is_none()) else { return false };
        let lease = hold.limit_lease(now, hold.lease);
        // A late copy of an acquire without a lease would hold the lock forever, so that acquire always has a limit. A client that does not
        // know the server's time learns it from the refusal.
        let leased = self.protocol_of(number).renewal().is_some();
        let limit = if leased {
            self.settings.not_after.then(|| self.not_after(now))
        } else {
            Some(self.not_after(now).max(1))
        };
        self.send_acquire(now, number, Some(ticket), 1, lease, limit);
        true
    }

    pub(super) fn begin_hold(&mut self, now: Instant, ticket: Ticket) -> HoldNumber {
        let number = self.new_hold();
        let acquire = &mut self.requests[ticket];
        let (request, lock) = (&acquire.request, &self.locks[acquire.lock]);
        // The client must receive the requests of other clients before the server can show the mark.
        let hears = self.listening.contains_key(&acquire.lock) && self.subscriptions.hears(acquire.lock);
        let may_linger = request.may_linger() && lock.protocol().may_be_handed_on() && !lock.is_local && hears;
        let linger = request.linger.filter(|_| may_linger && !self.contended.is_contended(now, lock.name.key()));
        let marked = linger.map(|_| self.client.marked_field(number));
        let name = HoldName::new(self.client, number, marked.as_ref().or(request.field.as_deref()));
        let mut hold = Hold::new(now, acquire.lock, ticket, name, request);
        hold.linger = linger.map(|longest| Box::new(Linger::For(longest.get().min(hold.lease / 3))));
        acquire.hold = Some(number);
        self.locks[hold.lock].refs += 1;
        self.holds.insert(number, hold);
        number
    }

    /// Drops an acquire, whose future was dropped.
    pub fn abandon_acquire(&mut self, now: Instant, ticket: Ticket) {
        let acquire = &mut self.requests[ticket];
        let target = acquire.target();
        if let Some(granted) = acquire.take_granted() {
            self.drop_guard(now, granted.hold, granted.renewed);
        }
        self.leave_line(now, ticket);
        if let Some(number) = target {
            self.abandon_hold(now, ticket, number);
        }
        self.remove_request(ticket);
    }

    pub(super) fn remove_request(&mut self, ticket: Ticket) {
        let Some(mut request) = self.requests.0.remove(ticket) else { return };
        self.timers.set(Timer::Request(ticket), &mut request.timer, None);
        if let RequestKind::Acquire(acquire) = request.kind {
            if let Some(owner) = acquire.request.owner {
                self.owners.change(acquire.lock, owner, |owned| owned.requests.retain(|request| *request != ticket));
            }
            self.locks.unref(acquire.lock, &mut self.timers);
        }
    }
}

/// Re-entry: an owner raises the count of its hold, outside the line.
impl Session {
    /// Fails the entry if the owner's hold is lost. If the hold has ended otherwise, the request acquires anew.
    pub(super) fn check_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        if !self.holds.contains(number) {
            return self.join_line(now, ticket, End::Back);
        }
        self.lose_if_passed(now, number);
        match self.holds.get(number).and_then(|hold| hold.end()) {
            Some(HoldEnd::Lost(reason)) => self.fail_acquire(now, ticket, AcquireError::Lost(reason)),
            Some(HoldEnd::Released | HoldEnd::Detached) => {
                self.abandon_hold(now, ticket, number);
                self.join_line(now, ticket, End::Back);
            }
            None => {}
        }
    }

    /// Sends the re-entry unless another change of the hold is in flight. Returns whether it was sent.
    fn send_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) -> bool {
        let (acquire, hold) = (&mut self.requests[ticket], &mut self.holds[number]);
        if hold.change.is_some() || (hold.count.is_high() && hold.raising != Some(ticket)) {
            hold.wait(ticket);
            // The request does not wait for the server: if the server is out of reach, the hold is lost in the end.
            acquire.failures.forget_failures();
            return false;
        }
        let target = hold.begin_entry(ticket);
        // What the request sent before was withdrawn.
        acquire.failures.set_outcome_unknown(false);
        let lease = hold.limit_lease(now, acquire.request.lease);
        self.send_acquire(now, number, Some(ticket), target, lease, None);
        true
    }

    pub(super) fn handle_enter_reply(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, result: CallResult) {
        let Some((change, outcome)) = self.end_raise(now, ticket, number, result) else { return };
        let hold = &mut self.holds[number];
        match outcome {
            Ok(Acquired::Held { left, .. }) if hold.end().is_none() => {
                // A reply after the deadline restores nothing: a guard's owner may have given up already.
                let shortfall = change.shortfall();
                if !hold.observe_reply(now, change.sent_at, left, shortfall.is_none()) {
                    self.lose_by_deadline(now, number);
                } else if let Some(error) = shortfall {
                    self.withdraw(now, ticket, number, error);
                } else {
                    hold.cell.set_acknowledged(change.acknowledged);
                    if change.replicas.is_some() || hold.extras.is_some() {
                        hold.extras.get_or_insert_default().replicas = change.replicas;
                    }
                    self.grant_entry(now, ticket, number);
                }
            }
            Ok(Acquired::Mismatch) => self.lose(now, number, LossReason::CountMismatch),
            Ok(Acquired::Lost | Acquired::Busy { .. } | Acquired::Unset { .. } | Acquired::Kind(_)) => {
                self.lose(now, number, LossReason::Removed);
            }
            Ok(_) => {}
            Err(LinkError::Refused(error)) if !error.proves_nothing_done() => {
                self.keep_until_queue_expires(now, number);
                self.withdraw(now, ticket, number, AcquireError::Refused(error));
            }
            Err(error) => {
                hold.undo_entry(&change);
                match error {
                    LinkError::Refused(error) if !error.is_transient() => {
                        self.fail_acquire(now, ticket, AcquireError::Refused(error));
                    }
                    error => self.retry_unsent(now, ticket, &change, &error),
                }
            }
        }
        if self.requests.acquire(ticket).is_some_and(Acquire::is_open) {
            self.check_entry(now, ticket, number);
        }
        self.reconcile(now, number);
    }

    pub(super) fn grant_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let turn = self.turn(self.requests[ticket].lock);
        let (acquire, hold) = (&mut self.requests[ticket], &mut self.holds[number]);
        let renewed = acquire.request.renewed;
        hold.add_guard(now, renewed, acquire.request.lease);
        acquire.grant(now, hold.granted(number, renewed), turn);
        if hold.renew_at.is_none() {
            self.schedule_renewal(now, number);
        }
        self.set_request_timer(now, ticket);
    }

    pub(super) fn enter_instead(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        self.leave_line(now, ticket);
        let acquire = &mut self.requests[ticket];
        acquire.route = Route::Reentering(number);
        if let Some(begun) = acquire.hold.take() {
            self.abandon_hold(now, ticket, begun);
        }
        self.wake(ticket);
    }

    /// The owner has acquired the lock: its other requests in the line re-enter.
    pub(super) fn admit_owner(&mut self, now: Instant, lock: LockId, owner: OwnerId, number: HoldNumber) {
        let line = &self.locks[lock].line;
        let contender = line.contender;
        // A contender whose command is in flight learns it from the reply.
        let asking = contender.filter(|_| line.phase == Phase::Asking);
        let mut same = self.owners.requests(lock, owner).to_vec();
        same.retain(|ticket| asking != Some(*ticket) && self.requests.waiter(*ticket).is_some());
        // The contender last, so that the turn does not go to a request that leaves as well.
        same.sort_by_key(|ticket| contender == Some(*ticket));
        for ticket in same {
            self.enter_instead(now, ticket, number);
        }
    }

    /// The owner has acquired the write lock: its waiting reads leave the line. In the line they would wait for their own owner.
    pub(super) fn admit_readers(&mut self, now: Instant, lock: LockId, owner: OwnerId) {
        if self.locks[lock].kind != Kind::Write {
            return;
        }
        let Some(read) = self.locks.sibling(lock, Kind::Read) else { return };
        let line = &self.locks[read].line;
        // A contender whose command is in flight learns it from the reply.
        let contender = line.contender.filter(|_| line.phase != Phase::Asking);
        let waiting: Vec<Ticket> = line.queue.iter().chain(contender).collect();
        for ticket in waiting {
            let same = self.requests.waiter(ticket).filter(|acquire| acquire.request.owner == Some(owner));
            if let Some(beside) = same.and_then(|acquire| self.own_other_half(acquire)) {
                self.stand_beside(now, ticket, beside);
            }
        }
    }
}

/// After an attempt that did not get the lock: the request waits, retries, or ends.
impl Session {
    /// Another holder has the lock, for the time `left` of its lease.
    pub(super) fn busy(&mut self, now: Instant, ticket: Ticket, mut left: Option<Duration>) {
        let acquire = &mut self.requests[ticket];
        let lock = acquire.lock;
        let own = self.locks[lock].last_granted.and_then(|number| self.holds.get(number));
        let is_own = own.is_some_and(|hold| hold.count.on_server > 0);
        if !is_own && acquire.request.linger.is_some() {
            self.contended.note(now, self.locks[lock].name.key());
        }
        if acquire.route == Route::Direct {
            if acquire.refuse_beside() {
                // The other half was lost, even if this client does not know it yet.
                self.join_line(now, ticket, End::Back);
            } else if !self.await_cleanup(now, ticket) {
                self.finish_acquire(now, ticket, Ok(None));
            }
            return;
        }
        let is_try = acquire.request.patience == Patience::Try;
        if let Some(number) = acquire.request.owner.and_then(|owner| self.owners.hold(lock, owner)) {
            self.locks[lock].forget_failures();
            return self.enter_instead(now, ticket, number);
        }
        if let Some(beside) = self.own_other_half(&self.requests[ticket]) {
            return self.stand_beside(now, ticket, beside);
        }
        let state = &mut self.locks[lock];
        let is_shared = state.wait_policy() == WaitPolicy::Shared;
        let asked_beside = is_shared && !state.line.is_contender(ticket);
        if is_shared {
            state.line.round += 1;
            state.line.doublings = 0;
        }
        state.forget_failures();
        let mut ends = is_try || self.is_last_attempt(now, ticket);
        if self.locks[lock].is_polled() {
            left = self.next_poll(ticket);
            ends |= left.is_none();
        }
        if ends && self.await_cleanup(now, ticket) {
            return;
        }
        // The reply to another request does not move the contender: the contender may be asking too.
        if !asked_beside && (!ends || !self.locks[lock].line.queue.is_empty()) {
            self.contender_waits(now, lock, left);
        }
        if ends {
            self.end_busy(now, ticket);
        } else {
            self.begin_to_wait(now, ticket);
        }
    }

    /// Whether a busy reply ends the request: this was its final attempt, or the reply came after the end of the wait.
    pub(super) fn is_last_attempt(&self, now: Instant, ticket: Ticket) -> bool {
        let acquire = &self.requests[ticket];
        acquire.is_final_attempt || acquire.wait_deadline(self.settings.command_timeout) <= now
    }

    /// The pause before the next attempt of a kind without notices; `None` after the last attempt. If the caller's own backoff decides, this
    /// is the pause of a future that does not poll.
    fn next_poll(&mut self, ticket: Ticket) -> Option<Duration> {
        let random = self.rng.f64();
        let acquire = &mut self.requests[ticket];
        acquire.polls = acquire.polls.saturating_add(1);
        match &acquire.request.backoff {
            Some(backoff) if !backoff.is_custom() => backoff.pause(acquire.polls, random),
            custom => {
                acquire.asks_backoff = custom.is_some();
                Backoff::default().pause(acquire.polls, random)
            }
        }
    }

    /// The number of the busy reply for which to ask the caller's own backoff, if any. The backoff is foreign code, which may use the client:
    /// ask it while the session is not locked, and pass its answer to [`Session::handle_backoff`].
    pub fn poll_backoff(&mut self, ticket: Ticket) -> Option<u32> {
        let acquire = self.requests.acquire_mut(ticket)?;
        let asks = std::mem::take(&mut acquire.asks_backoff);
        (asks && !acquire.has_ended()).then_some(acquire.polls)
    }

    /// Retries after the server failed without a trace of the request.
    pub(super) fn try_later(&mut self, now: Instant, ticket: Ticket, why: &str) {
        self.record_failure(now, ticket, why);
        self.back_off(now, ticket);
    }

    pub(super) fn back_off(&mut self, now: Instant, ticket: Ticket) {
        let pause = pause_before(self.failures_of(ticket).tries());
        let until = now + pause / 2 + self.jitter(pause / 2);
        let acquire = &self.requests[ticket];
        let lock = acquire.lock;
        if acquire.is_final_attempt || self.falls_back(now, ticket) || self.is_ended_by_outage(now, ticket) {
            return self.end_unreachable(now, ticket);
        }
        if self.is_contender(ticket) {
            self.locks[lock].line.phase = Phase::BackingOff(until);
            self.set_lock_timer(lock);
        } else {
            self.requests[ticket].retry_at = Some(until);
        }
        self.begin_to_wait(now, ticket);
    }

    /// Retries a call that the server certainly did not apply: at once if that may help, and otherwise after a pause. A try ends if a new
    /// connection has reached a replica again.
    pub(super) fn retry_unsent(&mut self, now: Instant, ticket: Ticket, change: &Change, error: &LinkError) {
        if error.is_worth_going_again() && self.may_resend_now(ticket, change.sent_at) {
            return self.resend_now(now, ticket);
        }
        let why = error.to_string();
        self.record_failure(now, ticket, &why);
        let of_a_replica = matches!(error, LinkError::Refused(refusal) if refusal.is_of_a_replica());
        let found_again = of_a_replica && self.failures_mut(ticket).note_demotion(&why, change.resets);
        if found_again && self.requests[ticket].request.patience == Patience::Try {
            self.end_unreachable(now, ticket);
        } else {
            self.back_off(now, ticket);
        }
    }

    /// Whether a call that was not sent may be retried immediately. A request may do so a few times, so that it still finds a server out of reach. It
    /// may do so more often while settlements go on, as they do where many futures are dropped: the server is not to blame for those.
    pub(super) fn may_resend_now(&mut self, ticket: Ticket, since: Instant) -> bool {
        let most = if self.settlements.at_work_since(since) { 32 } else { 3 };
        let acquire = &mut self.requests[ticket];
        acquire.resends = acquire.resends.saturating_add(1);
        acquire.resends <= most
    }

    /// Fails all requests of the line when the server has been out of reach for too long. They stay if a task of this client has the lock.
    pub(super) fn give_up_on_server(&mut self, now: Instant, lock: LockId) -> bool {
        let Some(since) = self.failing_since(lock) else { return false };
        if now < since + self.settings.unreachable_after {
            return false;
        }
        if self.waits_at_gate(now, lock) {
            return true;
        }
        let error = AcquireError::Unreachable(self.with_outage(lock, &self.locks[lock].line.failures));
        if let Some(contender) = self.locks[lock].line.contender
            && !self.is_outcome_unknown(contender)
            && self.falls_back(now, contender)
        {
            self.degrade(now, contender);
        } else {
            self.fail_line(now, lock, &error);
        }
        true
    }
}

/// A grant of a shared lock invites at most two to this power waiters.
const MOST_DOUBLINGS: u32 = 6;

/// Requests of a shared lock, several of which may hold it: some ask beside the contender.
impl Session {
    /// A waiter of a shared lock was granted: other waiters are likely to get in beside it.
    pub(super) fn invite(&mut self, lock: LockId) {
        let state = &mut self.locks[lock];
        if state.wait_policy() != WaitPolicy::Shared {
            return;
        }
        let (round, width) = (state.line.round, 1 << state.line.doublings);
        state.line.doublings = (state.line.doublings + 1).min(MOST_DOUBLINGS);
        let uninvited = |ticket: &Ticket| {
            let waiter = self.requests.waiter(*ticket);
            waiter.is_some_and(|acquire| !acquire.unpolled && acquire.invited != Some(round))
        };
        let invited: Vec<Ticket> = state.line.queue.iter().filter(uninvited).take(width).collect();
        for ticket in invited {
            self.requests[ticket].invited = Some(round);
            self.wake(ticket);
        }
    }

    /// Whether a request may ask beside the contender: it is invited, makes its final attempt, or does not know the outcome of an earlier
    /// acquire. That acquire may have the very permits for which all others wait.
    pub(super) fn may_ask_beside(&self, ticket: Ticket) -> bool {
        let acquire = &self.requests[ticket];
        let lock = &self.locks[acquire.lock];
        let waits = acquire.route == Route::Queued && !self.is_contender(ticket);
        let may_ask = match acquire.hold.and_then(|number| self.holds.get(number)) {
            Some(begun) => acquire.is_final_attempt || begun.change.is_none(),
            None => acquire.is_final_attempt || acquire.invited == Some(lock.line.round),
        };
        waits && lock.wait_policy() == WaitPolicy::Shared && may_ask && !self.is_gated(acquire.lock)
    }
}

/// How long requests wait for the lock and for a server that fails, and their timers.
impl Session {
    fn request_deadline(&self, ticket: Ticket) -> Instant {
        let acquire = &self.requests[ticket];
        let patience = acquire.wait_deadline(self.settings.command_timeout);
        let failures = acquire.failures.since().map(|since| since + self.settings.unreachable_after);
        // A try and a call in flight may get their reply over another connection than the lost connection.
        let may_be_answered = acquire.request.patience == Patience::Try || self.is_under_way(ticket);
        let outage = if may_be_answered { None } else { self.outage_deadline(acquire) };
        [failures, outage].into_iter().flatten().fold(patience, Instant::min)
    }

    pub(super) fn request_is_due(&mut self, now: Instant, ticket: Ticket) {
        let request = &mut self.requests.0[ticket];
        request.timer = None;
        let acquire = match &mut request.kind {
            RequestKind::Acquire(acquire) => acquire,
            RequestKind::Release { hold, .. } => {
                let number = *hold;
                let why = "no reply came in time; the release is repeated in the background";
                return self.give_up_release(ticket, number, why);
            }
            RequestKind::Pause { .. }
            | RequestKind::Extension { .. }
            | RequestKind::Offer { .. }
            | RequestKind::Adoption { .. } => return self.wake(ticket),
        };
        match &acquire.stage {
            Stage::Open => {}
            Stage::Ended(_) => return,
            Stage::Granted(_, until) if *until <= now => return self.unread_too_long(now, ticket),
            Stage::Awaiting(awaited) if awaited.until <= now => {
                if awaited.outcome.is_some() {
                    return self.stop_withdrawing(now, ticket, "no reply came within the command timeout");
                }
                acquire.stage = Stage::Open;
                acquire.last_retry = LastRetry::Used;
                return self.end_busy(now, ticket);
            }
            Stage::Granted(..) | Stage::Awaiting(_) => return self.set_request_timer(now, ticket),
        }
        if acquire.retry_at.take_if(|at| *at <= now).is_some() {
            self.wake(ticket);
        }
        if self.request_deadline(ticket) > now {
            return self.set_request_timer(now, ticket);
        }
        let flying = self.is_under_way(ticket);
        let timeout = self.settings.command_timeout;
        let acquire = &mut self.requests[ticket];
        if flying && acquire.wait_deadline(timeout) > now {
            // Wait for the call in flight: the server may still reply.
            if let Some(found) = &mut acquire.failures.0 {
                found.since = found.since.map(|since| since + timeout);
            }
            return self.set_request_timer(now, ticket);
        }
        acquire.is_final_attempt = true;
        let (lock, queued, own) = (acquire.lock, acquire.route == Route::Queued, acquire.failures.since());
        let begun = acquire.hold.and_then(|number| self.holds.get(number));
        let begun = begun.is_some_and(|hold| !hold.state.is_queued() || hold.change.is_some());
        let is_contender = self.is_contender(ticket);
        let failures = self.failures_of(ticket);
        let begun_at = failures.since().into_iter().chain(own).min();
        let too_long = begun_at.is_some_and(|since| now >= since + self.settings.unreachable_after);
        // One failure in the line is no outage: the contender's last attempt decides.
        let has_failed = if queued { failures.tries() > 1 && !is_contender } else { own.is_some() };
        let out_of_reach = too_long || has_failed || self.is_ended_by_outage(now, ticket);
        if flying {
            // The call in flight is the last attempt, and ends within the command timeout.
        } else if out_of_reach || (begun && (begun_at.is_some() || self.is_outcome_unknown(ticket))) {
            self.end_unreachable(now, ticket);
        } else if is_contender && self.locks[lock].line.phase != Phase::Gated {
            self.begin_turn(now, lock);
        } else if self.may_ask_beside(ticket) {
            self.wake(ticket);
        } else {
            self.end_busy(now, ticket);
        }
    }

    /// The instant at which a known outage ends the request: at once for a try, and otherwise after `unreachable_after`. A caller with its own
    /// wait also waits for the server. A request that waits for a task of this client does not need the server yet.
    fn outage_deadline(&self, acquire: &Acquire) -> Option<Instant> {
        let since = self.outage_of(acquire.lock)?.since;
        if acquire.request.waits_out_outage || self.is_gated(acquire.lock) {
            return None;
        }
        let is_try = acquire.request.patience == Patience::Try;
        Some(if is_try { since } else { since + self.settings.unreachable_after })
    }

    pub(super) fn is_ended_by_outage(&self, now: Instant, ticket: Ticket) -> bool {
        self.outage_deadline(&self.requests[ticket]).is_some_and(|end| end <= now)
    }

    pub(super) fn begin_to_wait(&mut self, now: Instant, ticket: Ticket) {
        self.report_own_client(now, ticket);
        self.set_request_timer(now, ticket);
    }

    pub(super) fn set_request_timer(&mut self, now: Instant, ticket: Ticket) {
        let next = self.requests[ticket].timeout(now, self.request_deadline(ticket));
        self.timers.set(Timer::Request(ticket), &mut self.requests.0[ticket].timer, Some(next));
    }

    pub(super) fn set_lock_timer(&mut self, lock: LockId) {
        let failures = self.failing_since(lock).map(|since| since + self.settings.unreachable_after);
        let state = &mut self.locks[lock];
        let heartbeat = state.line.heartbeat_at.filter(|_| !state.line.heartbeat_in_flight);
        let next = [state.line.timeout(), failures, heartbeat].into_iter().flatten().min();
        self.timers.set(Timer::Lock(lock), &mut state.timer, next);
    }

    /// Whether a reply to a call of the request may still come.
    pub(super) fn is_under_way(&self, ticket: Ticket) -> bool {
        let acquire = &self.requests[ticket];
        let hold = acquire.target().and_then(|number| self.holds.get(number));
        hold.is_some_and(|hold| hold.is_flying_by(ticket))
    }

    /// Whether the server may apply, or have applied, a call of the request without a reply.
    pub(super) fn is_outcome_unknown(&self, ticket: Ticket) -> bool {
        self.is_under_way(ticket) || self.requests[ticket].failures.is_outcome_unknown()
    }

    /// Records a failure of the server.
    pub(super) fn record_failure(&mut self, now: Instant, ticket: Ticket, why: &str) {
        let (lock, started) = (self.requests[ticket].lock, self.requests[ticket].started);
        // A waiter that slept when the connection was lost has waited for the server since then.
        let outage = self.outage_of(lock).map(|outage| outage.since);
        let since = outage.filter(|since| started <= *since).unwrap_or(now);
        self.failures_mut(ticket).note(since, why);
        self.set_lock_timer(lock);
        self.set_request_timer(now, ticket);
    }

    fn failures_mut(&mut self, ticket: Ticket) -> &mut Failures {
        let acquire = &mut self.requests[ticket];
        if acquire.route == Route::Queued { &mut self.locks[acquire.lock].line.failures } else { &mut acquire.failures }
    }

    pub(super) fn failures_of(&self, ticket: Ticket) -> &Failures {
        let acquire = &self.requests[ticket];
        if acquire.route == Route::Queued { &self.locks[acquire.lock].line.failures } else { &acquire.failures }
    }

    pub(super) fn failure_error(&self, ticket: Ticket) -> AcquireError {
        let why = self.with_outage(self.requests[ticket].lock, self.failures_of(ticket));
        if self.is_outcome_unknown(ticket) { AcquireError::OutcomeUnknown(why) } else { AcquireError::Unreachable(why) }
    }

    /// The failures in words, and the known outage: a waiter may have met a lost reply first.
    fn with_outage(&self, lock: LockId, failures: &Failures) -> String {
        match self.outage_of(lock) {
            None => failures.text(),
            Some(outage) => outage.added_to(failures.since(), failures.text()),
        }
    }

    pub(super) fn outage_of(&self, lock: LockId) -> Option<&Outage> {
        self.outages.of(self.locks[lock].name.key())
    }

    /// The instant since which the server fails the lock's waiters, by their attempts, and by the link while they sleep.
    pub(super) fn failing_since(&self, lock: LockId) -> Option<Instant> {
        let state = &self.locks[lock];
        let outage = if state.line.listens() { self.outage_of(lock).map(|outage| outage.since) } else { None };
        [state.line.failures.since(), outage].into_iter().flatten().min()
    }

    /// A release waits until the lease ends, but not longer than any caller waits for a server out of reach.
    pub(super) fn limit_wait(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let hold = &self.holds[number];
        let reach = self.outage_of(hold.lock).map_or(now, |outage| outage.since) + self.settings.unreachable_after;
        let limit = reach.min(hold.cell.deadline()).max(now + self.settings.command_timeout);
        let Some(request) = self.requests.0.get_mut(ticket) else { return };
        let waits = matches!(request.kind, RequestKind::Release { outcome: None, .. });
        if waits && request.timer.is_none() {
            self.timers.set(Timer::Request(ticket), &mut request.timer, Some(limit));
        }
    }

    /// Begins a pause by the session's clock, so that a test which moves the clock also moves the pause.
    pub fn pause(&mut self, now: Instant, pause: Duration) -> Ticket {
        let ticket = Ticket::new(self.new_number());
        self.requests.insert(ticket, RequestKind::Pause { until: now + pause });
        ticket
    }

    /// Whether a pause is over; `waker` is woken when it is.
    pub fn poll_pause(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> bool {
        let Some(request) = self.requests.0.get_mut(ticket) else { return true };
        let RequestKind::Pause { until } = request.kind else { return true };
        if self.lost_all || until <= now {
            return true;
        }
        request.waker = Some(waker.clone());
        self.timers.set(Timer::Request(ticket), &mut request.timer, Some(until));
        false
    }

    /// Forgets a pause.
    pub fn end_pause(&mut self, ticket: Ticket) {
        self.remove_request(ticket);
    }
}

/// Minimum time between two alarms for a lock, and before the first alarm where there are no leases.
const ALARM_INTERVAL: Duration = Duration::from_secs(60);

/// Reports of waits that may never end.
///
/// No hold names a task, so the session cannot tell contention among its tasks from a task that waits for itself. A wait that ends with a
/// release was contention. So the alarm needs a wait longer than a lease, and one hold of the client that lasted as long.
impl Session {
    /// Reports that a request waits for a lock that its own client holds, or the other half of that lock.
    fn report_own_client(&mut self, now: Instant, ticket: Ticket) {
        let acquire = &self.requests[ticket];
        let (lock, alarm, started) = (acquire.lock, acquire.alarm, acquire.started);
        let leased = self.locks[lock].protocol().renewal().is_some();
        let long = now >= started + if leased { acquire.request.lease } else { ALARM_INTERVAL };
        let waits = acquire.route == Route::Queued && acquire.request.patience != Patience::Try;
        if !waits || alarm == Alarm::Raised || (alarm == Alarm::Noted && !long) {
            return;
        }
        if !self.locks.same_name(lock).any(|at| self.locks[at].permits > 0) {
            return;
        }
        let name = self.locks[lock].name.clone();
        if alarm == Alarm::Silent && self.locks[lock].own_wait_log.note(now) {
            self.out.emit(Event::QueuesBehindOwnClient(name.clone()));
        }
        let raised = long
            && self.locks[lock].line.alarmed_at.is_none_or(|last| now.since(last) >= ALARM_INTERVAL)
            && self.is_held_since(lock, started);
        if raised {
            self.locks[lock].line.alarmed_at = Some(now);
            self.out.emit(Event::WaitsForOwnClient(name));
        }
        self.requests[ticket].alarm = if raised { Alarm::Raised } else { Alarm::Noted };
    }

    /// Whether one hold of this client has had the lock, or its other half, since then.
    fn is_held_since(&self, lock: LockId, since: Instant) -> bool {
        let same: Vec<LockId> = self.locks.same_name(lock).collect();
        let lasts = |hold: &Hold| same.contains(&hold.lock) && hold.is_live() && hold.cell.acquired_at() <= since;
        self.holds.iter().any(|(_, hold)| lasts(hold))
    }

    /// Whether one of these owners holds a lock of this name that excludes others or could be re-entered.
    pub fn is_held_by(&self, name: &LockName, owners: &[OwnerId]) -> bool {
        let locks = self.locks.of_name(name).filter(|lock| self.locks[*lock].protocol().reenters());
        let mut holds = locks.flat_map(|lock| owners.iter().filter_map(move |owner| self.owners.hold(lock, *owner)));
        holds.any(|number| self.holds.get(number).is_some_and(Hold::is_live))
    }

    /// Reports an anomaly that an attempt found once, until an attempt finds otherwise. A try reports nothing, so that the next waiter still
    /// gets the report. Clients that keep to the layout leave no endless lock. Kinds without a lease, and kinds with another sign of how long
    /// they last, are exempt.
    pub(super) fn note_anomaly(&mut self, ticket: Ticket, found: Option<Anomaly>) {
        let acquire = &self.requests[ticket];
        let state = &mut self.locks[acquire.lock];
        let has_lease = state.wait_policy() == WaitPolicy::Exclusive || state.protocol().shares_key();
        let found = found.filter(|found| *found == Anomaly::Unset || has_lease);
        let known = state.line.anomaly;
        if known == found {
            return;
        }
        let reported = found.filter(|_| acquire.request.patience != Patience::Try);
        if known != reported {
            state.line.anomaly = reported;
            state.line.shrink();
        }
        match reported {
            Some(Anomaly::Endless) => self.out.emit(Event::Endless(state.name.clone())),
            Some(Anomaly::Unset) => self.out.emit(Event::Unset(state.name.clone())),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
