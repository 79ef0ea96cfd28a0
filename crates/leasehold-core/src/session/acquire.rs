//! An acquire: its start, its waits, its retries, and its drop.

use crate::backoff::Backoff;
use crate::command::{Acquired, Kind, WaitPolicy};
use crate::error::{AcquireError, HoldEnd, LossReason};
use crate::link::LinkError;
use crate::name::LockName;
use crate::owner::{HoldNumber, OwnerId};
use crate::reply::Reply;
use crate::session::grant::both_conditions;
use crate::session::hold::{Change, CountChange, Hold};
use crate::session::line::{End, Phase};
use crate::session::lock::{Anomaly, LockId};
use crate::session::offline::Outage;
use crate::session::request::{Acquire, AcquireOutcome, Alarm, Failures, LocalPlace, Pause, Request};
use crate::session::{AcquireRequest, Event, Fallback, Patience, Session, Ticket, Timer};
use crate::time::Instant;
use std::task::{Poll, Waker};
use std::time::Duration;

impl Session {
    /// Begins to acquire. The first [`Session::poll_acquire`] must follow at once. The wish is kept in its box for as long as the request
    /// waits.
    pub fn acquire(&mut self, now: Instant, wish: impl Into<Box<AcquireRequest>>) -> Ticket {
        let mut wish = wish.into();
        if !wish.kind.protocol().reenters() {
            wish.owner = None;
            wish.reenter = None;
        }
        let ticket = Ticket::new(self.next_id());
        let lock = self.locks.get_or_insert(&wish.name, wish.kind, &self.client);
        self.locks[lock].refs += 1;
        if wish.fallback == Fallback::Local {
            self.locks[lock].is_local = true;
        }
        let mut acquire = Acquire::new(now, lock, wish);
        if self.closed {
            acquire.end(Err(AcquireError::Closed));
            self.begin_request(ticket, acquire);
            return ticket;
        }
        if let Some(number) = acquire.wish.reenter.or_else(|| self.owners.hold(lock, acquire.wish.owner?)) {
            acquire.enter(number);
            self.begin_request(ticket, acquire);
            self.check_entry(now, ticket, number);
            return ticket;
        }
        match self.look_at_siblings(lock, &acquire.wish) {
            Ok(beside) => acquire.stand_beside(beside),
            Err(error) => {
                acquire.end(Err(error));
                self.begin_request(ticket, acquire);
                return ticket;
            }
        }
        if let Some(other_half) = acquire.wish.beside {
            acquire.require_replicas(both_conditions(
                acquire.wish.replicas,
                self.holds.get(other_half).and_then(|hold| hold.replicas()),
            ));
        }
        // An owner that holds the other half bypasses the line: a request that stands there waits for it.
        let mut contends = false;
        if acquire.beside().is_none() {
            let state = &mut self.locks[lock];
            if state.line().is_empty() {
                acquire.stand_in_line();
                contends = self.begin_line(now, ticket, lock, acquire.wish.patience);
            } else if acquire.wish.patience != Patience::Try {
                acquire.stand_in_line();
                state.line_mut().push(ticket, End::Back);
            } else if self.failing_since(lock).is_none() && !self.tries_beside(lock) {
                // A waiter of this client is ahead and has asked, so the lock is as good as taken; unless no server can say so.
                acquire.end(Ok(None));
            }
        }
        let waits = !contends && !acquire.has_ended();
        self.begin_request(ticket, acquire);
        if waits {
            self.begin_to_wait(now, ticket);
        }
        ticket
    }

    /// A request comes to an empty line, and contends. Says whether it asks at once: it does not where another task of this client has the lock,
    /// and is about to hand it over. Then it sends its acquire after the server has confirmed its subscription, or
    /// after a release notice. Nor does it while other clients have a head start.
    fn begin_line(&mut self, now: Instant, ticket: Ticket, lock: LockId, patience: Patience) -> bool {
        let until = now + self.locks[lock].wait_policy().turn(&self.settings);
        self.locks.begin_line(lock, ticket, until);
        let head_start = self.contended.held_back_until(now, self.locks[lock].name.key());
        if let Some(until) = head_start.filter(|_| patience != Patience::Try) {
            self.locks[lock].line_mut().back_off(until);
            self.set_lock_timer(lock);
            return false;
        }
        let asks = patience == Patience::Try || !self.expects_hand_over(now, lock) || self.want_notices(lock);
        if !asks {
            self.locks[lock].line_mut().wait_for_release(false, until);
            self.set_lock_timer(lock);
        }
        asks
    }

    fn begin_request(&mut self, ticket: Ticket, acquire: Acquire) {
        if let Some(owner) = acquire.wish.owner {
            self.owners.add_wish(acquire.lock, owner, ticket);
        }
        self.requests.insert(ticket, Request::Acquire(acquire));
    }

    /// Polls an acquire. The ticket is invalid once this is ready.
    pub fn poll_acquire(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<AcquireOutcome> {
        self.check_unread(now, ticket);
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else {
            return Poll::Ready(Err(AcquireError::Closed));
        };
        if let Some(outcome) = acquire.take_outcome() {
            self.remove_request(ticket);
            return Poll::Ready(outcome);
        }
        let missed = acquire.note_polled(waker);
        if acquire.rests() || self.is_under_way(ticket) {
            return Poll::Pending;
        }
        let Some(acquire) = self.requests.known_acquire(ticket) else {
            return Poll::Ready(Err(AcquireError::Closed));
        };
        if let LocalPlace::Entering(number) = acquire.place {
            self.check_entry(now, ticket, number);
            let Some(acquire) = self.requests.known_acquire(ticket) else {
                return Poll::Ready(Err(AcquireError::Closed));
            };
            if acquire.has_ended() || acquire.rests() {
                // The hold that it was about to enter has ended, and perhaps its patience with it.
                return self.poll_acquire_at_gate(ticket);
            }
        }
        let step = self.next_step(now, ticket, missed);
        step.unwrap_or_else(|| {
            self.begin_to_wait(now, ticket);
            Poll::Pending
        })
    }

    /// Advances a pending request. Returns `None` if it waits and has sent nothing.
    fn next_step(&mut self, now: Instant, ticket: Ticket, missed: bool) -> Option<Poll<AcquireOutcome>> {
        let acquire = self.requests.acquire(ticket)?;
        let may_retry = acquire.may_try(now);
        match acquire.place {
            LocalPlace::Line => {
                let lock = acquire.lock;
                self.poll_in_line(now, ticket, lock, missed, may_retry)
            }
            LocalPlace::Aside if may_retry && acquire.beside().is_none() && self.is_gated(acquire.lock) => {
                self.stand_at_gate(now, ticket);
                Some(self.poll_acquire_at_gate(ticket))
            }
            LocalPlace::Aside if may_retry => self.send_first(now, ticket),
            LocalPlace::Aside => None,
            LocalPlace::Entering(number) if self.holds.get(number).is_some_and(|hold| hold.is_counted_by_client()) => {
                self.enter_by_itself(now, ticket, number);
                Some(self.poll_acquire_at_gate(ticket))
            }
            LocalPlace::Entering(number) => self.send_entry(now, ticket, number).then_some(Poll::Pending),
        }
    }

    /// Advances a request in the line. It sends its acquire in its turn, or if it may ask beside the contender.
    fn poll_in_line(
        &mut self,
        now: Instant,
        ticket: Ticket,
        lock: LockId,
        missed: bool,
        may_retry: bool,
    ) -> Option<Poll<AcquireOutcome>> {
        if !self.locks[lock].line().is_turn_of(ticket) {
            self.take_turn(ticket, lock, missed);
        }
        if !self.locks[lock].line().is_turn_of(ticket) {
            let may_ask = (self.may_take_place(ticket) || self.may_ask_beside(ticket)) && may_retry;
            return if may_ask { self.send_first(now, ticket) } else { None };
        }
        if self.is_gated(lock) {
            self.stand_at_gate(now, ticket);
            return Some(self.poll_acquire_at_gate(ticket));
        }
        self.locks[lock].line_mut().begin_attempt();
        self.set_lock_timer(lock);
        self.send_first(now, ticket)
    }

    /// Sends a first acquire, unless one is still being settled, or a hold of this client lingers that the request can have.
    fn send_first(&mut self, now: Instant, ticket: Ticket) -> Option<Poll<AcquireOutcome>> {
        if self.resume(now, ticket) {
            return Some(self.poll_acquire_at_gate(ticket));
        }
        let acquire = self.requests.acquire_mut(ticket)?;
        let may_end_busy = acquire.wish.patience != Patience::Forever;
        let begun = acquire.begin_attempt();
        let number = match begun {
            Some(number) => {
                self.begin_anew(now, ticket, number);
                number
            }
            None => self.begin_hold(now, ticket)?,
        };
        if may_end_busy {
            self.note_crossing(ticket);
        }
        let hold = self.holds.get(number).filter(|hold| !hold.has_change())?;
        let lease = hold.limit_lease(now, hold.lease);
        // A copy of an acquire without a lease would take for good if it came when no request waits for it any more. So it always has a
        // limit; a client that does not know the server's time is told it by a refusal.
        let leased = self.protocol_of(number).renewal().is_some();
        let limit = if leased {
            self.settings.not_after.then(|| self.not_after(now))
        } else {
            Some(self.not_after(now).max(1))
        };
        let call = self.acquire_call(number, ticket, 1, lease, limit)?;
        self.send_change(now, number, Some(ticket), CountChange::RaiseTo(1), call);
        Some(Poll::Pending)
    }

    /// The outcome of a request that came to the gate.
    fn poll_acquire_at_gate(&mut self, ticket: Ticket) -> Poll<AcquireOutcome> {
        let outcome = self.requests.acquire_mut(ticket).and_then(|acquire| acquire.take_outcome());
        match outcome {
            Some(outcome) => {
                self.remove_request(ticket);
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }

    /// A request that is being polled takes the turn if there is no contender, or if it missed its turn before and another has not used it
    /// yet. Without the latter, two futures that are always polled a little late would pass the turn to each other for ever.
    fn take_turn(&mut self, ticket: Ticket, lock: LockId, missed: bool) {
        let state = &self.locks[lock];
        let contender = state.line().contender;
        let in_order = state.wait_policy() == WaitPolicy::ServerQueue && contender.is_some();
        if !state.line().is_due() || contender == Some(ticket) || in_order {
            return;
        }
        let other = contender.and_then(|contender| self.requests.acquire(contender));
        if other.is_some_and(|other| !missed || other.is_final_attempt || other.hold.is_some()) {
            return;
        }
        self.locks[lock].line_mut().replace_contender(ticket, End::Front);
    }

    /// The future of an acquire was dropped.
    pub fn abandon_acquire(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, hold, entering) = (acquire.lock, acquire.hold, acquire.entering());
        if let Some(Ok(Some(granted))) = acquire.take_outcome() {
            self.drop_guard(now, granted.hold, granted.renewed);
        }
        self.leave_line(now, ticket, lock);
        if let Some(number) = hold.or(entering) {
            self.abandon_hold(now, ticket, number);
        }
        self.remove_request(ticket);
    }
}

// ===== Admission of others after a grant =====
//
// Requests of an owner that holds already: they leave the line and re-enter, or come in beside the other half.

impl Session {
    pub(super) fn grant_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let Some(hold) = self.holds.known_mut(number) else { return };
        let renewed = acquire.wish.renewed;
        hold.add_guard(now, renewed, acquire.wish.lease);
        let until = acquire.read_until(now, self.locks[hold.lock].wait_policy().turn(&self.settings));
        acquire.grant(hold.granted(number, renewed), until);
        if hold.renew_at.is_none() {
            self.schedule_renewal(now, number);
        }
        self.set_request_timer(now, ticket);
    }

    /// Takes a request out of the line, because its owner holds the lock already.
    pub(super) fn enter_instead(&mut self, now: Instant, ticket: Ticket, lock: LockId, number: HoldNumber) {
        self.leave_line(now, ticket, lock);
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if let Some(begun) = acquire.enter(number) {
            self.abandon_hold(now, ticket, begun);
        }
        self.wake(ticket);
    }

    /// The owner holds the lock from here on: its other requests that stand in the line re-enter.
    pub(super) fn admit_owner(&mut self, now: Instant, lock: LockId, owner: OwnerId, number: HoldNumber) {
        let state = &self.locks[lock];
        let contender = state.line().contender;
        // A contender whose command is under way learns of it from the reply.
        let trying = contender.filter(|_| state.line().phase == Phase::Trying);
        let mut same = self.owners.wishes(lock, owner).to_vec();
        same.retain(|ticket| {
            let waits = |acquire: &Acquire| acquire.waits_in_line();
            trying != Some(*ticket) && self.requests.acquire(*ticket).is_some_and(waits)
        });
        // The contender last, so that the turn goes to none that leaves as well.
        same.sort_by_key(|ticket| contender == Some(*ticket));
        for ticket in same {
            self.enter_instead(now, ticket, lock, number);
        }
    }

    /// The owner writes from here on: its other requests, which wait to read, come in beside. They would wait for their own owner.
    pub(super) fn admit_readers(&mut self, now: Instant, lock: LockId, owner: OwnerId) {
        if self.locks[lock].kind != Kind::Write {
            return;
        }
        let Some(read) = self.locks.sibling(lock, Kind::Read) else { return };
        let line = self.locks[read].line();
        // A contender whose command is under way learns of it from the reply.
        let contender = line.contender.filter(|_| line.phase != Phase::Trying);
        let waiting: Vec<Ticket> = line.queue.iter().chain(contender).collect();
        for ticket in waiting {
            let same = self
                .requests
                .acquire(ticket)
                .filter(|acquire| acquire.wish.owner == Some(owner) && acquire.waits_in_line());
            if let Some(beside) = same.and_then(|acquire| self.own_other_half(acquire)) {
                self.stand_beside(now, ticket, beside);
            }
        }
    }
}

// ===== Waiting =====
//
// How long requests wait, for the lock and for a server that does not do its part; and the timers of requests and lines.

impl Session {
    /// When the request ends without the lock, whatever happens until then.
    pub(super) fn end_of_patience(&self, ticket: Ticket, acquire: &Acquire) -> Instant {
        let patience = acquire.end_of_wish(self.settings.command_timeout);
        let failures = acquire.failures.since().map(|since| since + self.settings.unreachable_after);
        // A try and a call in flight may get their reply over another connection than the lost one.
        let may_be_answered = acquire.wish.patience == Patience::Try || self.is_under_way(ticket);
        let outage = if may_be_answered { None } else { self.end_by_outage(acquire) };
        [failures, outage].into_iter().flatten().fold(patience, Instant::min)
    }

    /// When a known outage ends the request: a try ends at once, another request after `unreachable_after`. A caller
    /// with its own wait also waits for the server. A request that waits for a task of this client does not need the
    /// server yet.
    fn end_by_outage(&self, acquire: &Acquire) -> Option<Instant> {
        let since = self.outage_of(acquire.lock)?.since;
        if acquire.wish.waits_out_outage || self.is_gated(acquire.lock) {
            return None;
        }
        let after = match acquire.wish.patience {
            Patience::Try => Duration::ZERO,
            Patience::Until(_) | Patience::Forever => self.settings.unreachable_after,
        };
        Some(since + after)
    }

    /// Whether a known outage ends the request.
    pub(super) fn is_ended_by_outage(&self, now: Instant, ticket: Ticket) -> bool {
        let end = self.requests.acquire(ticket).and_then(|acquire| self.end_by_outage(acquire));
        end.is_some_and(|end| end <= now)
    }

    pub(super) fn set_request_timer(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let next = acquire.timeout(now, self.end_of_patience(ticket, acquire));
        if let Some(request) = self.requests.get_mut(&ticket) {
            self.timers.set(Timer::Request(ticket), request.timer(), Some(next));
        }
    }

    /// The request was not served at once: its patience begins to count.
    pub(super) fn begin_to_wait(&mut self, now: Instant, ticket: Ticket) {
        self.note_own_client(now, ticket);
        self.set_request_timer(now, ticket);
    }

    /// Whether a call of the request has been sent, and a reply may still come.
    pub(super) fn is_under_way(&self, ticket: Ticket) -> bool {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return false };
        let hold = acquire.target().and_then(|number| self.holds.get(number));
        hold.is_some_and(|hold| hold.is_flying_by(ticket))
    }

    /// Whether a call of the request has been, or may yet be, applied without a reply.
    pub(super) fn is_outcome_unknown(&self, ticket: Ticket) -> bool {
        self.is_under_way(ticket)
            || self.requests.acquire(ticket).is_some_and(|acquire| acquire.failures.is_outcome_unknown())
    }

    pub(super) fn failures_of(&self, ticket: Ticket) -> Option<&Failures> {
        let acquire = self.requests.acquire(ticket)?;
        Some(if acquire.place == LocalPlace::Line { self.locks[acquire.lock].failures() } else { &acquire.failures })
    }

    /// The error for a caller whose server does not do its part.
    pub(super) fn failure_error(&self, ticket: Ticket) -> AcquireError {
        let lock = self.requests.acquire(ticket).map(|acquire| acquire.lock);
        let why = lock
            .zip(self.failures_of(ticket))
            .map(|(lock, failures)| self.with_outage(lock, failures))
            .unwrap_or_default();
        if self.is_outcome_unknown(ticket) { AcquireError::OutcomeUnknown(why) } else { AcquireError::Unreachable(why) }
    }

    /// The failures in words. A waiter may have met a reply that was lost first: why the server is not connected to since then is told too.
    pub(super) fn with_outage(&self, lock: LockId, failures: &Failures) -> String {
        match self.outage_of(lock) {
            None => failures.in_words(),
            Some(outage) => outage.added_to(failures.since(), failures.in_words()),
        }
    }

    /// The outage that keeps the server of a lock out of reach.
    pub(super) fn outage_of(&self, lock: LockId) -> Option<&Outage> {
        let key = self.locks.get(lock)?.name.key();
        self.outages.of(key)
    }

    /// Since when the server has not done its part for those who wait for a lock: as their attempts have shown, and while they sleep as the
    /// link says.
    pub(super) fn failing_since(&self, lock: LockId) -> Option<Instant> {
        let state = self.locks.get(lock)?;
        let told = if state.line().listens() { self.outage_of(lock).map(|outage| outage.since) } else { None };
        [state.failures().since(), told].into_iter().flatten().min()
    }

    /// The same in words.
    pub(super) fn failures_in_words(&self, lock: LockId) -> String {
        self.with_outage(lock, self.locks[lock].failures())
    }

    /// The server does not do its part. `unsure` says that a call of this request may have been applied.
    pub(super) fn record_failure(&mut self, now: Instant, ticket: Ticket, why: &str, unsure: bool) {
        let Some((lock, started)) = self.requests.acquire(ticket).map(|acquire| (acquire.lock, acquire.started)) else {
            return;
        };
        // A waiter that slept when the server was lost has waited for it from then on.
        let since = self.outage_of(lock).map_or(now, |outage| if started <= outage.since { outage.since } else { now });
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        if unsure {
            acquire.failures.set_outcome_unknown(true);
        }
        if acquire.place == LocalPlace::Line {
            self.locks[lock].failures_mut().note(since, why);
            self.set_lock_timer(lock);
        } else {
            acquire.failures.note(since, why);
        }
        self.set_request_timer(now, ticket);
    }

    pub(super) fn set_lock_timer(&mut self, lock: LockId) {
        let failures = self.failing_since(lock);
        let Some(state) = self.locks.get_mut(lock) else { return };
        let failures = failures.map(|since| since + self.settings.unreachable_after);
        let next = [state.line().timeout(), failures, state.heartbeat().next].into_iter().flatten().min();
        self.timers.set(Timer::Lock(lock), &mut state.timer, next);
    }

    /// Lets a caller wait for time to pass. The clock is the session's, so that it also goes on where a test moves it by hand.
    pub fn pause(&mut self, now: Instant, pause: Duration) -> Ticket {
        let ticket = Ticket::new(self.next_id());
        self.requests.insert(ticket, Request::Pause(Pause::new(now + pause)));
        ticket
    }

    /// Whether a pause is over; `waker` is woken when it is.
    pub fn poll_pause(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> bool {
        let Some(request) = self.requests.get_mut(&ticket) else { return true };
        let Request::Pause(pause) = request else { return true };
        let until = pause.until;
        if self.lost_all || until <= now {
            return true;
        }
        *request.waker() = Some(waker.clone());
        self.timers.set(Timer::Request(ticket), request.timer(), Some(until));
        false
    }

    /// Forgets a pause.
    pub fn end_pause(&mut self, ticket: Ticket) {
        self.remove_request(ticket);
    }

    /// Forgets a request whose future is done or gone.
    pub(super) fn remove_request(&mut self, ticket: Ticket) {
        let Some(mut request) = self.requests.remove(ticket) else { return };
        self.timers.set(Timer::Request(ticket), request.timer(), None);
        if let Request::Acquire(acquire) = request {
            if let Some(owner) = acquire.wish.owner {
                self.owners.remove_wish(acquire.lock, owner, ticket);
            }
            self.locks.unref(acquire.lock, &mut self.timers);
        }
    }

    /// A caller waits while the lease may last, and not longer than for any server that is out of reach.
    pub(super) fn limit_wait(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        let reach = self.outage_of(hold.lock).map_or(now, |outage| outage.since) + self.settings.unreachable_after;
        let limit = reach.min(hold.cell.deadline()).max(now + self.settings.command_timeout);
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let waits = matches!(request, Request::Release(release) if !release.has_ended());
        if waits && request.timer().is_none() {
            self.timers.set(Timer::Request(ticket), request.timer(), Some(limit));
        }
    }
}

// ===== Re-entries =====
//
// Re-entry: an owner that already holds raises the count of its hold, beside the line.

impl Session {
    /// Fails the entry at once where the owner's hold has been lost; where it has ended otherwise, the request acquires anew.
    pub(super) fn check_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        if !self.holds.contains(number) {
            self.join_line(now, ticket);
            return;
        }
        self.lose_if_passed(now, number);
        match self.holds.get(number).and_then(|hold| hold.end()) {
            Some(HoldEnd::Lost(reason)) => self.fail_acquire(now, ticket, AcquireError::Lost(reason)),
            Some(HoldEnd::Released | HoldEnd::Detached) => {
                self.abandon_hold(now, ticket, number);
                self.join_line(now, ticket);
            }
            None => {}
        }
    }

    /// Sends the re-entry unless another change of the hold is in flight. Returns whether it was sent.
    pub(super) fn send_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) -> bool {
        let Some(acquire) = self.requests.acquire(ticket) else { return false };
        let lease = acquire.wish.lease;
        if !acquire.may_try(now) {
            return false;
        }
        let Some(hold) = self.holds.get_mut(number) else { return false };
        if hold.is_in_the_way_of(ticket) {
            hold.wait_once(ticket);
            // It is not the server that it waits for: if that is out of reach, the hold is lost in the end.
            if let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) {
                acquire.failures.forget_since();
            }
            return false;
        }
        let target = hold.begin_entry(ticket);
        if let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) {
            // Whatever it sent before has been taken back.
            acquire.failures.set_outcome_unknown(false);
        }
        let lease = hold.limit_lease(now, lease);
        let Some(call) = self.acquire_call(number, ticket, target, lease, None) else { return false };
        self.send_change(now, number, Some(ticket), CountChange::RaiseTo(target), call);
        true
    }

    /// Takes the outcome of an entry.
    pub(super) fn handle_enter_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) {
        let Some((change, outcome)) = self.end_raise(now, ticket, number, result) else { return };
        let Some(hold) = self.holds.known_mut(number) else { return };
        match outcome {
            Ok(Acquired::Held { left, .. }) if hold.end().is_none() => {
                // A reply that is read after the deadline brings nothing back: a guard's owner may have given up already.
                if !hold.observe_reply(now, change.sent_at, left) {
                    self.lose_by_deadline(now, number);
                } else if let Some(error) = change.shortfall() {
                    self.take_back(now, ticket, number, error);
                } else if hold.extend(change.sent_at, left) {
                    hold.note_acknowledged(change.acknowledged);
                    hold.require_replicas(change.replicas);
                    self.grant_entry(now, ticket, number);
                } else {
                    self.lose_by_deadline(now, number);
                }
            }
            Ok(Acquired::Mismatch) => self.lose(now, number, LossReason::CountMismatch),
            Ok(Acquired::Lost | Acquired::Busy { .. } | Acquired::Unset { .. } | Acquired::Kind(_)) => {
                self.lose(now, number, LossReason::Removed);
            }
            Ok(
                Acquired::Held { .. }
                | Acquired::TooLate { .. }
                | Acquired::Placed { .. }
                | Acquired::Withdrawn
                | Acquired::UpgradeNotSupported
                | Acquired::ExceedsCapacity { .. },
            ) => {}
            Err(LinkError::Refused(error)) if !error.proves_nothing_done() => {
                self.take_back_refused(now, ticket, number, AcquireError::Refused(error));
            }
            Err(LinkError::Refused(error)) if !error.is_transient() => {
                self.not_raised(number, &change);
                self.fail_acquire(now, ticket, AcquireError::Refused(error));
            }
            Err(error) if error.is_worth_going_again() && self.may_resend_now(ticket, change.sent_at) => {
                self.not_raised(number, &change);
                self.resend_now(now, ticket);
            }
            Err(error) => {
                self.not_raised(number, &change);
                self.retry_later(now, ticket, &change, &error);
            }
        }
        if self.requests.acquire(ticket).is_some_and(|acquire| acquire.is_open()) {
            self.check_entry(now, ticket, number);
        }
        self.reconcile(now, number);
    }

    /// The entry was not applied: the server has what it had before.
    fn not_raised(&mut self, number: HoldNumber, change: &Change) {
        if let Some(hold) = self.holds.known_mut(number) {
            hold.undo_entry(change);
        }
    }
}

// ===== Requests beside the contender =====
//
// Requests that ask beside the contender, where several may hold the lock.

impl Session {
    /// A waiter of a shared lock was granted: others are likely to get in beside it.
    pub(super) fn invite(&mut self, lock: LockId) {
        let state = &mut self.locks[lock];
        if state.wait_policy() != WaitPolicy::Shared {
            return;
        }
        let (round, width) = (state.invitations().round, state.invitations_mut().widen());
        let requests = &self.requests;
        let uninvited = |ticket: &Ticket| {
            requests.waiter(*ticket).is_some_and(|acquire| acquire.is_awake() && !acquire.is_invited(round))
        };
        let invited: Vec<Ticket> = state.line().queue.iter().filter(uninvited).take(width).collect();
        for ticket in invited {
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.invited = Some(round);
            }
            self.wake(ticket);
        }
    }

    /// Whether a request may ask beside the contender: it is invited, it is its last attempt, or it has asked and does not know what became
    /// of that. The last may have the very permits that all others wait for.
    pub(super) fn may_ask_beside(&self, ticket: Ticket) -> bool {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return false };
        let lock = &self.locks[acquire.lock];
        let waits = acquire.place == LocalPlace::Line && !lock.line().is_contender(ticket);
        let may_ask = match acquire.hold.and_then(|number| self.holds.get(number)) {
            Some(begun) => acquire.is_final_attempt || !begun.has_change(),
            None => acquire.is_final_attempt || acquire.is_invited(lock.invitations().round),
        };
        waits && lock.wait_policy() == WaitPolicy::Shared && may_ask && !self.is_gated(acquire.lock)
    }

    /// Whether a request that does not wait asks the server although others of its client are ahead. It does if they may all get in, and if
    /// no request has asked yet: the one whose turn it is may be a future that is never polled.
    pub(super) fn tries_beside(&self, lock: LockId) -> bool {
        let state = &self.locks[lock];
        let shared = state.wait_policy() == WaitPolicy::Shared;
        (shared || state.line().is_due()) && !self.is_gated(lock)
    }
}

// ===== After an attempt in vain =====
//
// What a request does after an attempt that did not get the lock: it waits, asks again, or ends.

impl Session {
    /// Another holder has the lock.
    pub(super) fn busy(&mut self, now: Instant, ticket: Ticket, left: Option<Duration>) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, last, patience, place) =
            (acquire.lock, acquire.is_final_attempt, acquire.wish.patience, acquire.place);
        let acquire_owner = acquire.wish.owner;
        let own = self.locks[lock].last_granted.and_then(|number| self.holds.get(number));
        let is_own = own.is_some_and(|hold| hold.count.on_server > 0);
        if !is_own && acquire.wish.linger.is_some() {
            self.contended.note(now, self.locks[lock].name.key());
        }
        if place == LocalPlace::Aside {
            if acquire.refuse_beside() {
                // The other half was lost meanwhile, whether that is known already or not.
                self.join_line(now, ticket);
            } else if !self.await_given_up(now, ticket) {
                self.finish_acquire(now, ticket, Ok(None));
            }
            return;
        }
        if let Some(number) = acquire_owner.and_then(|owner| self.owners.hold(lock, owner)) {
            self.locks[lock].forget_failures();
            self.enter_instead(now, ticket, lock, number);
            return;
        }
        if let Some(beside) = self.requests.acquire(ticket).and_then(|acquire| self.own_other_half(acquire)) {
            self.stand_beside(now, ticket, beside);
            return;
        }
        let state = &mut self.locks[lock];
        let beside = state.wait_policy() == WaitPolicy::Shared && !state.line().is_contender(ticket);
        if state.wait_policy() == WaitPolicy::Shared {
            state.invitations_mut().end_round();
        }
        // An attempt whose reply comes after the end of the wait was the last one.
        let ended = self
            .requests
            .acquire(ticket)
            .is_some_and(|acquire| acquire.end_of_wish(self.settings.command_timeout) <= now);
        let mut goes = patience == Patience::Try || last || ended;
        self.locks[lock].forget_failures();
        let mut left = left;
        if self.locks[lock].is_polled() {
            let pause = self.next_poll(ticket);
            goes |= pause.is_none();
            left = pause;
        }
        if goes && self.await_given_up(now, ticket) {
            return;
        }
        // The reply to another request does not move the contender: it may be asking itself.
        if !beside && (!goes || !self.locks[lock].line().queue.is_empty()) {
            self.contender_waits(now, lock, left);
        }
        if goes {
            self.end_busy(now, ticket);
            return;
        }
        self.begin_to_wait(now, ticket);
    }

    /// Leaves the server in peace for a while.
    pub(super) fn back_off(&mut self, now: Instant, ticket: Ticket) {
        let Some(failures) = self.failures_of(ticket) else { return };
        let pause = failures.pause();
        let until = now + pause / 2 + self.jitter(pause / 2);
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, place, last) = (acquire.lock, acquire.place, acquire.is_final_attempt);
        let contends = self.locks[lock].line().is_contender(ticket);
        if last || self.falls_back(now, ticket) || self.is_ended_by_outage(now, ticket) {
            self.end_unreachable(now, ticket);
        } else if place == LocalPlace::Line && contends {
            self.locks[lock].line_mut().back_off(until);
            self.set_lock_timer(lock);
            self.begin_to_wait(now, ticket);
        } else {
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.retry_at = Some(until);
            }
            self.begin_to_wait(now, ticket);
        }
    }

    /// Fails all requests of the line when the server has been out of reach for too long, unless they wait for a task of this client.
    pub(super) fn give_up_on_server(&mut self, now: Instant, lock: LockId) -> bool {
        let Some(since) = self.failing_since(lock) else { return false };
        if now < since + self.settings.unreachable_after {
            return false;
        }
        if self.waits_at_gate(now, lock) {
            return true;
        }
        let error = AcquireError::Unreachable(self.failures_in_words(lock));
        if let Some(contender) = self.locks[lock].line().contender
            && !self.is_outcome_unknown(contender)
            && self.falls_back(now, contender)
        {
            self.degrade(now, contender);
            return true;
        }
        self.fail_line(now, lock, &error);
        true
    }

    /// After the failure of which number the caller's own back-off is to be asked, if it is. That is foreign code, which may itself use the
    /// client: ask it while the session is not locked, and hand in what it says by [`Session::handle_backoff`].
    pub fn poll_backoff(&mut self, ticket: Ticket) -> Option<u32> {
        self.requests.acquire_mut(ticket)?.take_backoff_question()
    }

    /// How long a request whose kind has no notices waits before it asks again; `None` where it has asked often enough. If the caller's own
    /// back-off is to say it, this is how long it waits if that is never asked, because its future is not polled.
    fn next_poll(&mut self, ticket: Ticket) -> Option<Duration> {
        let random = self.rng.f64();
        let acquire = self.requests.acquire_mut(ticket)?;
        let polls = acquire.note_poll();
        match &acquire.wish.backoff {
            Some(backoff) if !backoff.is_custom() => backoff.pause(polls, random),
            custom => {
                let asks = custom.is_some();
                acquire.asks_backoff = asks;
                Backoff::default().pause(polls, random)
            }
        }
    }

    /// Whether a call that was to be sent at `since`, and was not, may be sent again at once. A request may do so a few times, so that a
    /// server that is out of reach is still found to be so; and more often while something else is being settled, as it is all the time
    /// where many futures are dropped: the server is not to blame for that, nor is the caller told that it is out of reach.
    pub(super) fn may_resend_now(&mut self, ticket: Ticket, since: Instant) -> bool {
        let most = if self.settlements.at_work_since(since) { 32 } else { 3 };
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return false };
        acquire.note_resend() <= most
    }

    /// A call of the request was certainly not applied: it is sent again after a pause. A try ends where that is of no use, because a new
    /// connection has led to a replica again.
    pub(super) fn retry_later(&mut self, now: Instant, ticket: Ticket, change: &Change, error: &LinkError) {
        let why = error.to_string();
        self.record_failure(now, ticket, &why, false);
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let failures = match acquire.place {
            LocalPlace::Line => self.locks[acquire.lock].failures_mut(),
            LocalPlace::Aside | LocalPlace::Entering(_) => &mut acquire.failures,
        };
        let of_a_replica = matches!(error, LinkError::Refused(refusal) if refusal.is_of_a_replica());
        let found_again = of_a_replica && failures.note_demotion(&why, change.resets);
        if found_again && acquire.wish.patience == Patience::Try {
            self.end_unreachable(now, ticket);
        } else {
            self.back_off(now, ticket);
        }
    }
}

// ===== Reports of a wait for the own client =====
//
// What a waiter's user is warned of: a wait that may never end.
//
// The session cannot tell at once whether a wait for its own client is contention of its tasks or a task that waits for itself, because no
// hold names a task. A wait that ends with a release was contention. So it is an alarm only where one hold of the client has lasted for as
// long as the wait, and the wait for longer than a lease.

/// There is no more than one alarm for a lock in this time, and none before where there are no leases.
const PAUSE: Duration = Duration::from_secs(60);

impl Session {
    /// A request waits: says so where its own client holds the lock, or its other half.
    pub(super) fn note_own_client(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, alarm, started) = (acquire.lock, acquire.alarm, acquire.started);
        let leased = self.locks[lock].protocol().renewal().is_some();
        let long = now >= started + if leased { acquire.wish.lease } else { PAUSE };
        let waits = acquire.place == LocalPlace::Line && acquire.wish.patience != Patience::Try;
        if !waits || alarm == Alarm::Raised || (alarm == Alarm::Noted && !long) {
            return;
        }
        if !self.locks.same_name(lock).any(|at| self.locks[at].held > 0) {
            return;
        }
        let name = self.locks[lock].name.clone();
        if alarm == Alarm::Silent && self.locks[lock].own_wait_log.note(now) {
            self.out.tell(Event::QueuesBehindOwnClient { name: name.clone() });
        }
        let raised = long && self.locks[lock].may_alarm(now, PAUSE) && self.is_held_since(lock, started);
        if raised {
            self.locks[lock].note_alarm(now);
            self.out.tell(Event::WaitsForOwnClient { name });
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.alarm = if raised { Alarm::Raised } else { Alarm::Noted };
        }
    }

    /// Whether one of these owners holds a lock of this name, by any hold that excludes others or could be re-entered.
    pub fn is_held_by(&self, name: &LockName, owners: &[OwnerId]) -> bool {
        let locks = self.locks.of_name(name).filter(|lock| self.locks[*lock].protocol().reenters());
        let mut holds = locks.flat_map(|lock| owners.iter().filter_map(move |owner| self.owners.hold(lock, *owner)));
        holds.any(|number| self.holds.get(number).is_some_and(Hold::is_live))
    }

    /// Whether one hold of this client has the lock, or its other half, since then.
    fn is_held_since(&self, lock: LockId, since: Instant) -> bool {
        let same: Vec<LockId> = self.locks.same_name(lock).collect();
        self.holds
            .iter()
            .any(|(_, hold)| same.contains(&hold.lock) && hold.is_live() && hold.cell.acquired_at() <= since)
    }

    /// Says once what a waiter waits for that may never come, until an attempt finds it otherwise. A try waits for nothing.
    pub(super) fn note_anomaly(&mut self, ticket: Ticket, found: Option<Anomaly>) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, waits) = (acquire.lock, acquire.wish.patience != Patience::Try);
        let state = &mut self.locks[lock];
        match state.note_anomaly(found, waits) {
            Some(Anomaly::Endless) => self.out.tell(Event::Endless { name: state.name.clone() }),
            Some(Anomaly::Unset) => self.out.tell(Event::Unset { name: state.name.clone() }),
            None => {}
        }
    }

    /// Notes whether the server has the lock without a time to live: no lease ends it. A client that keeps to the layout leaves no such
    /// lock behind. A kind without a lease, or one that says otherwise how long it lasts, is not meant.
    pub(super) fn note_endless(&mut self, ticket: Ticket, left: Option<Duration>) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let protocol = self.locks[acquire.lock].protocol();
        let has_lease = protocol.wait_policy() == WaitPolicy::Exclusive || protocol.shares_key();
        self.note_anomaly(ticket, (has_lease && left.is_none()).then_some(Anomaly::Endless));
    }
}

#[cfg(test)]
mod tests;
