//! The acquire of a caller: how it begins, what its future does next, and how it is abandoned.

use crate::command::Line;
use crate::error::AcquireError;
use crate::session::ids::LockId;
use crate::session::lock::Phase;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::{Acquire, Alarm, GivenUp, Place};
use crate::session::request::trouble::Trouble;
use crate::session::{AcquireRequest, Fallback, Granted, Patience, Step, Ticket, Via, replicas};
use crate::time::Instant;
use std::task::Waker;

impl Parts {
    /// See [`Session::acquire`](crate::session::Session::acquire).
    pub(crate) fn acquire(&mut self, now: Instant, mut wish: AcquireRequest) -> Ticket {
        if !wish.kind.verbs().reenters() {
            wish.owner = None;
            wish.reenter = None;
        }
        let ticket = Ticket(self.next_id());
        let lock = self.locks.get_or_insert(&wish.name, wish.kind, &self.client);
        self.locks[lock].refs += 1;
        self.locks[lock].local |= wish.fallback == Fallback::Local;
        let mut acquire = Acquire {
            lock,
            wish,
            started: now,
            place: Place::Aside,
            beside: None,
            not_beside: None,
            hold: None,
            had_place: false,
            asks: 0,
            polls: 0,
            asks_backoff: false,
            dormant: false,
            last: false,
            trouble: Trouble::default(),
            overtaken: 0,
            invited: None,
            alarm: Alarm::default(),
            went_again: 0,
            retry_at: None,
            timer: None,
            waker: None,
            outcome: None,
            undoing: None,
            given_up: GivenUp::Nothing,
        };
        if self.closed {
            acquire.outcome = Some(Err(AcquireError::Closed));
            self.begin_request(ticket, acquire);
            return ticket;
        }
        if let Some(number) = acquire.wish.reenter.or_else(|| self.owners.hold(lock, acquire.wish.owner)) {
            acquire.place = Place::Entering(number);
            self.begin_request(ticket, acquire);
            self.check_entry(now, ticket, number);
            return ticket;
        }
        match self.look_at_siblings(lock, &acquire.wish) {
            Ok(beside) => acquire.beside = beside,
            Err(error) => {
                acquire.outcome = Some(Err(error));
                self.begin_request(ticket, acquire);
                return ticket;
            }
        }
        acquire.wish.replicas = replicas::both(acquire.wish.replicas, self.replicas_of(acquire.wish.beside));
        let (tries_beside, troubled) = (self.tries_beside(lock), self.trouble_since(lock).is_some());
        let line = &mut self.locks[lock];
        // An owner that holds the other half bypasses the line: who stands there waits for it.
        if acquire.beside.is_none() {
            if line.contender.is_none() && line.queue.is_empty() {
                acquire.place = Place::Line;
                line.contender = Some(ticket);
                line.phase = Phase::Due(now + self.settings.turn_in(line.kind.verbs().line()));
            } else if acquire.wish.patience != Patience::Try {
                acquire.place = Place::Line;
                line.queue.push_back(ticket);
            } else if !troubled && !tries_beside {
                // A waiter of this client is ahead and has asked, so the lock is as good as taken; unless no server can say so.
                acquire.outcome = Some(Ok(None));
            }
        }
        let waits = line.contender != Some(ticket) && acquire.outcome.is_none();
        self.begin_request(ticket, acquire);
        if waits {
            self.begin_to_wait(now, ticket);
        }
        ticket
    }

    fn begin_request(&mut self, ticket: Ticket, acquire: Acquire) {
        self.owners.add_wish(acquire.lock, acquire.wish.owner, ticket);
        self.requests.insert(ticket, Request::Acquire(acquire));
    }

    /// See [`Session::poll_acquire`](crate::session::Session::poll_acquire).
    pub(crate) fn poll_acquire(
        &mut self,
        now: Instant,
        ticket: Ticket,
        via: Via,
        waker: &Waker,
    ) -> Step<Result<Option<Granted>, AcquireError>> {
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return Step::Done(Err(AcquireError::Closed)) };
        if let Some(outcome) = acquire.outcome.take() {
            self.remove_request(ticket);
            return Step::Done(outcome);
        }
        let missed = std::mem::take(&mut acquire.dormant);
        acquire.waker = Some(waker.clone());
        if acquire.rests() {
            return Step::Wait;
        }
        if let Some(number) = acquire.entering() {
            self.check_entry(now, ticket, number);
        }
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return Step::Done(Err(AcquireError::Closed)) };
        if let Some(outcome) = acquire.outcome.take() {
            self.remove_request(ticket);
            return Step::Done(outcome);
        }
        if acquire.rests() {
            // The hold that it was about to enter has ended, and its patience with it.
            return Step::Wait;
        }
        let (lock, place, retry_at) = (acquire.lock, acquire.place, acquire.retry_at);
        let step = match place {
            Place::Line => {
                self.take_turn(ticket, lock, missed);
                let line = &mut self.locks[lock];
                let is_due = line.contender == Some(ticket) && matches!(line.phase, Phase::Due(_));
                if is_due && self.is_gated(lock) {
                    self.stand_at_gate(now, ticket, lock);
                    return self.poll_acquire_at_gate(ticket);
                }
                let line = &mut self.locks[lock];
                if is_due {
                    line.phase = Phase::Trying;
                    line.again = false;
                    self.set_lock_timer(lock);
                    self.send_first(now, ticket, via)
                } else if (self.may_take_place(ticket) || self.may_ask_beside(ticket))
                    && retry_at.is_none_or(|at| at <= now)
                {
                    self.send_first(now, ticket, via)
                } else {
                    None
                }
            }
            Place::Aside if retry_at.is_none_or(|at| at <= now) => self.send_first(now, ticket, via),
            Place::Aside => None,
            Place::Entering(number) if self.holds.get(&number).is_some_and(|hold| hold.by_itself) => {
                self.enter_by_itself(now, ticket, number);
                return self.poll_acquire_at_gate(ticket);
            }
            Place::Entering(number) => self.send_entry(now, ticket, number, via),
        };
        step.unwrap_or_else(|| {
            self.begin_to_wait(now, ticket);
            Step::Wait
        })
    }

    /// Another task of this client has the lock: it is waited for here, and the server is left out of it.
    fn stand_at_gate(&mut self, now: Instant, ticket: Ticket, lock: LockId) {
        self.locks[lock].phase = Phase::Gated;
        self.set_lock_timer(lock);
        let Some(acquire) = self.requests.acquire(ticket) else { return };
        if acquire.wish.patience == Patience::Try || acquire.last || self.end_of_wish(acquire) <= now {
            self.end_busy(now, ticket);
        } else {
            self.begin_to_wait(now, ticket);
        }
    }

    /// The outcome of a request that came to the gate.
    fn poll_acquire_at_gate(&mut self, ticket: Ticket) -> Step<Result<Option<Granted>, AcquireError>> {
        let outcome = self.requests.acquire_mut(ticket).and_then(|acquire| acquire.outcome.take());
        match outcome {
            Some(outcome) => {
                self.remove_request(ticket);
                Step::Done(outcome)
            }
            None => Step::Wait,
        }
    }

    /// A request that is being polled takes the turn if there is no contender, or if it missed its turn before and another has not used it
    /// yet. Without the latter, two futures that are always polled a little late would pass the turn to each other for ever.
    fn take_turn(&mut self, ticket: Ticket, lock: LockId, missed: bool) {
        let line = &self.locks[lock];
        let in_order = line.kind.verbs().line() == Line::Places && line.contender.is_some();
        if !matches!(line.phase, Phase::Due(_)) || line.contender == Some(ticket) || in_order {
            return;
        }
        let other = line.contender.and_then(|contender| self.requests.acquire(contender));
        if other.is_some_and(|other| !missed || other.last || other.hold.is_some()) {
            return;
        }
        let line = &mut self.locks[lock];
        line.queue.remove(ticket);
        if let Some(contender) = line.contender.replace(ticket) {
            line.queue.push_front(contender);
        }
    }

    /// See [`Session::abandon_acquire`](crate::session::Session::abandon_acquire).
    pub(crate) fn abandon_acquire(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return };
        let (lock, hold, entering) = (acquire.lock, acquire.hold, acquire.entering());
        if let Some(Ok(Some(granted))) = acquire.outcome.take() {
            self.drop_guard(now, granted.hold, granted.renewed);
        }
        self.leave_line(now, ticket, lock);
        if let Some(number) = hold.or(entering) {
            self.forsake(now, ticket, number);
        }
        self.remove_request(ticket);
    }
}
