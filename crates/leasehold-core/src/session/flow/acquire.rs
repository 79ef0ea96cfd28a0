//! An acquire from its start through its polls to its end or drop.

use crate::command::WaitPolicy;
use crate::error::AcquireError;
use crate::session::hold::change::CountChange;
use crate::session::ids::LockId;
use crate::session::lock::line::End;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::{Acquire, AcquireOutcome, LocalPlace};
use crate::session::{AcquireRequest, Fallback, Patience, Ticket, replicas};
use crate::time::Instant;
use std::task::{Poll, Waker};

impl Parts {
    /// See [`Session::acquire`](crate::session::Session::acquire).
    pub(crate) fn acquire(&mut self, now: Instant, mut wish: Box<AcquireRequest>) -> Ticket {
        if !wish.kind.protocol().reenters() {
            wish.owner = None;
            wish.reenter = None;
        }
        let ticket = Ticket::new(self.next_id());
        let lock = self.locks.get_or_insert(&wish.name, wish.kind, &self.client);
        self.locks[lock].add_ref();
        if wish.fallback == Fallback::Local {
            self.locks[lock].make_local();
        }
        let mut acquire = Acquire::new(now, lock, wish);
        if self.closed {
            acquire.end(Err(AcquireError::Closed));
            self.begin_request(ticket, acquire);
            return ticket;
        }
        if let Some(number) = acquire.wish().reenter.or_else(|| self.owners.hold(lock, acquire.wish().owner?)) {
            acquire.enter(number);
            self.begin_request(ticket, acquire);
            self.check_entry(now, ticket, number);
            return ticket;
        }
        match self.look_at_siblings(lock, acquire.wish()) {
            Ok(beside) => acquire.stand_beside(beside),
            Err(error) => {
                acquire.end(Err(error));
                self.begin_request(ticket, acquire);
                return ticket;
            }
        }
        if let Some(other_half) = acquire.wish().beside {
            acquire.require_replicas(replicas::both(acquire.wish().replicas, self.replicas_of(other_half)));
        }
        // An owner that holds the other half bypasses the line: a request that stands there waits for it.
        let mut contends = false;
        if acquire.beside().is_none() {
            let state = &mut self.locks[lock];
            if state.line().is_empty() {
                acquire.stand_in_line();
                contends = self.begin_line(now, ticket, lock, acquire.wish().patience);
            } else if acquire.wish().patience != Patience::Try {
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
        self.locks[lock].line_mut().begin(ticket, until);
        let head_start = self.contended.held_back_until(now, self.locks[lock].name().key());
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
        if let Some(owner) = acquire.wish().owner {
            self.owners.add_wish(acquire.lock(), owner, ticket);
        }
        self.requests.insert(ticket, Request::Acquire(acquire));
    }

    /// See [`Session::poll_acquire`](crate::session::Session::poll_acquire).
    pub(crate) fn poll_acquire(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<AcquireOutcome> {
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
        if let LocalPlace::Entering(number) = acquire.place() {
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
        match acquire.place() {
            LocalPlace::Line => {
                let lock = acquire.lock();
                self.poll_in_line(now, ticket, lock, missed, may_retry)
            }
            LocalPlace::Aside if may_retry && acquire.beside().is_none() && self.is_gated(acquire.lock()) => {
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
        let may_end_busy = acquire.wish().patience != Patience::Forever;
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
        let lease = hold.limit_lease(now, hold.lease());
        // A copy of an acquire without a lease would take for good if it came when no request waits for it any more. So it always has a
        // limit; a client that does not know the server's time is told it by a refusal.
        let leased = self.protocol_of(number).renewal().is_some();
        let limit = if leased {
            self.settings.not_after.then(|| self.not_after(now))
        } else {
            Some(self.not_after(now).max(1))
        };
        let call = self.ask(number, ticket, 1, lease, limit)?;
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
        let contender = state.line().contender();
        let in_order = state.wait_policy() == WaitPolicy::ServerQueue && contender.is_some();
        if !state.line().is_due() || contender == Some(ticket) || in_order {
            return;
        }
        let other = contender.and_then(|contender| self.requests.acquire(contender));
        if other.is_some_and(|other| !missed || other.is_final_attempt() || other.hold().is_some()) {
            return;
        }
        self.locks[lock].line_mut().replace_contender(ticket, End::Front);
    }

    /// See [`Session::abandon_acquire`](crate::session::Session::abandon_acquire).
    ///
    /// Drops an unread grant like a guard, and passes the turn on. If a call is in flight, the background reverts its effect after the reply.
    pub(crate) fn abandon_acquire(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, hold, entering) = (acquire.lock(), acquire.hold(), acquire.entering());
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
