//! Fair locks: the places of waiters in the queue on the server, and their heartbeats.
//!
//! Every waiter takes its place at once, in order of arrival. From then on only the contender of the line asks: the server grants no waiter
//! behind it before. One heartbeat for each lock and client proves that all its waiters live.

use crate::command::fair::{Heartbeat, Standing};
use crate::command::{HoldKey, ReleaseArgs, WaitPolicy, fair};
use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::session::calls::{CallResult, Purpose};
use crate::session::line::{End, Phase};
use crate::session::lock::LockId;
use crate::session::request::Route;
use crate::session::{Event, Failure, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

impl Session {
    /// The hold of a request has a place, or a mark, on the server. If the request ends without a grant, the place is withdrawn like a grant.
    pub(super) fn placed(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, moved: bool, standing: Standing) {
        let acquire = &mut self.requests[ticket];
        let (lock, queued, asked_again) = (acquire.lock, acquire.route == Route::Queued, acquire.attempts > 1);
        let mark = acquire.request.prefer_writers;
        let lost_place = moved && acquire.had_place;
        acquire.had_place = true;
        acquire.failures.set_outcome_unknown(false);
        let hold = &mut self.holds[number];
        hold.count.on_server = 1;
        let fresh = hold.state.take_place() || moved;
        self.locks[lock].forget_failures();
        if lost_place {
            self.out.emit(Event::QueuePositionLost(self.locks[lock].name.clone()));
        }
        if !queued || self.is_last_attempt(now, ticket) {
            // Behind the contender of this client the request is not next, whatever else is withdrawn.
            let is_next = self.is_contender(ticket);
            if !is_next || !self.await_cleanup(now, ticket) {
                self.end_busy(now, ticket);
            }
            return;
        }
        self.begin_to_wait(now, ticket);
        let in_places = self.locks[lock].wait_policy() == WaitPolicy::ServerQueue;
        if in_places && fresh && asked_again {
            // The new place is behind all others: the line follows the order of the server's queue.
            let line = &mut self.locks[lock].line;
            let contends = line.contender.take_if(|contender| *contender == ticket).is_some();
            line.queue.push(ticket, End::Back);
            if contends {
                self.begin_turn(now, lock);
            }
        }
        if self.locks[lock].line.is_contender(ticket) {
            self.listen_for_front(lock, number, standing.foreign);
            if in_places && !standing.head && standing.left.is_none() {
                // The lock is free and another waiter is first, perhaps of this client: the heartbeat finds out.
                self.locks[lock].line.notice_came = false;
                self.locks[lock].line.heartbeat_at = Some(now);
            }
            let left = match mark {
                // Every attempt renews the mark, which must outlast several attempts.
                Some(mark) if !in_places => Some(standing.left.map_or(mark / 3, |left| left.min(mark / 3))),
                _ => standing.left.filter(|_| standing.head),
            };
            self.contender_waits(now, lock, left);
        } else if self.locks[lock].line.contender.is_none() {
            self.pick_contender(lock);
        }
        let line = &self.locks[lock].line;
        if in_places && line.heartbeat_at.is_none() && !line.heartbeat_in_flight {
            self.plan_heartbeat(now, lock);
        }
    }

    /// Plans the next heartbeat, at another instant than other clients.
    fn plan_heartbeat(&mut self, now: Instant, lock: LockId) {
        let heartbeat = self.settings.fair.heartbeat_interval;
        let at = now + heartbeat - self.jitter(heartbeat / 8);
        self.locks[lock].line.heartbeat_at = Some(at);
        self.set_lock_timer(lock);
    }

    pub(super) fn heartbeat_is_due(&mut self, now: Instant, lock: LockId) {
        let Some(line) = self.locks[lock].line.get_mut().filter(|line| !line.heartbeat_in_flight) else { return };
        if line.heartbeat_at.take_if(|at| *at <= now).is_none() || line.is_empty() {
            return;
        }
        line.heartbeat_in_flight = true;
        let front = self.front(lock).and_then(|number| self.holds.get(number)).map(|hold| hold.cell.field());
        let state = &self.locks[lock];
        let call = fair::heartbeat(&state.name, state.keys(), &self.client, front.as_ref(), &self.settings);
        self.locks[lock].refs += 1;
        self.send(now, call, Purpose::Heartbeat(lock));
    }

    pub(super) fn handle_heartbeat(&mut self, now: Instant, lock: LockId, result: CallResult) {
        let heartbeat = match result {
            Ok(reply) => fair::beaten(&reply).map_err(|error| (error.to_string(), true)),
            Err(error) => Err((error.to_string(), error.is_lasting())),
        };
        let waits = !self.locks[lock].line.is_empty();
        match heartbeat {
            Ok(heartbeat) => {
                self.locks[lock].forget_failures();
                match heartbeat {
                    Heartbeat::Calm(standing) => self.front_stands(now, lock, standing),
                    Heartbeat::Yours { entry, .. } => self.turn_of_entry(now, lock, &entry),
                    Heartbeat::Gone(_) => self.queue_is_gone(lock),
                    Heartbeat::Kind(kind) => self.fail_line(now, lock, &AcquireError::KeyConflict(kind)),
                }
            }
            Err((why, lasting)) if waits => {
                let name = self.locks[lock].name.clone();
                let lasting = lasting && self.locks[lock].line.failures.since().is_none();
                self.locks[lock].line.failures.note(now, &why);
                self.out.emit(Event::HeartbeatFailed(name, Failure { why, lasting }));
            }
            Err(_) => {}
        }
        let line = &mut self.locks[lock].line;
        line.heartbeat_in_flight = false;
        let is_planned = line.heartbeat_at.is_some();
        line.shrink();
        if waits && !is_planned {
            self.plan_heartbeat(now, lock);
        } else {
            self.set_lock_timer(lock);
        }
        self.locks.unref(lock, &mut self.timers);
    }

    /// The front has its place. If no waiter is ahead of it, it asks when the holder's lease ends.
    fn front_stands(&mut self, now: Instant, lock: LockId, standing: Standing) {
        let Some(number) = self.front(lock) else { return };
        self.listen_for_front(lock, number, standing.foreign);
        let Some(left) = standing.left.filter(|_| standing.head) else { return };
        let at = now + self.sleep(Some(left));
        if let Phase::Sleeping(until) | Phase::Pipelining(until) = &mut self.locks[lock].line.phase {
            *until = at.min(*until);
            self.set_lock_timer(lock);
        }
    }

    /// The server has forgotten the queue: every waiter takes a new place, in the order of the line.
    fn queue_is_gone(&mut self, lock: LockId) {
        let all: Vec<Ticket> = self.locks[lock].line.members().collect();
        for ticket in all {
            let number = self.requests.acquire(ticket).and_then(|acquire| acquire.hold);
            if let Some(hold) = number.and_then(|number| self.holds.get_mut(number))
                && hold.change.is_none()
            {
                hold.state.leave_place();
                self.wake(ticket);
            }
        }
    }

    /// A notice offers the free lock to an entry of this client. The entry's task asks: another task would ask in vain, and the server would
    /// repeat the offer. The notice is old if the entry has the lock already, because it pipelined its acquire.
    pub(super) fn handle_offer(&mut self, now: Instant, lock: LockId, entry: &Bytes) {
        let hold = self.client.number_in(entry).and_then(|number| self.holds.get(number));
        let waits = hold.map(|hold| hold.raising.is_some());
        if waits == Some(true) {
            self.turn_of_entry(now, lock, entry);
        }
        if waits != Some(false) {
            // A contender whose command is in flight remembers the notice.
            self.handle_notice(now, lock);
        }
    }

    fn turn_of_entry(&mut self, now: Instant, lock: LockId, entry: &Bytes) {
        let known = self.client.number_in(entry).and_then(|number| self.holds.get(number));
        let Some(hold) = known else { return self.release_orphaned_entry(now, lock, entry) };
        let Some(ticket) = hold.raising else { return };
        if self.requests.acquire(ticket).is_none_or(|acquire| acquire.route != Route::Queued) {
            return;
        }
        let line = &self.locks[lock].line;
        let is_contender = line.is_contender(ticket);
        if !is_contender {
            if line.phase == Phase::Asking {
                // The next heartbeat repeats the offer, after the contender's reply.
                return;
            }
            // A request without a place is not next: a future that does not poll would be in the way of all others.
            let has_place = line.contender.is_some_and(|contender| self.queued_hold_of(contender).is_some());
            let end = if has_place { End::Front } else { End::Back };
            self.locks[lock].line.replace_contender(ticket, end);
        }
        let line = &self.locks[lock].line;
        // A contender that was ready was woken, and a new contender was not: its turn begins now.
        if line.listens() || (line.is_ready() && !is_contender) {
            self.begin_turn(now, lock);
        }
    }

    /// Withdraws the place of a hold that this client has forgotten, so that it does not delay other waiters.
    fn release_orphaned_entry(&mut self, now: Instant, lock: LockId, entry: &Bytes) {
        let state = &self.locks[lock];
        let call = state.protocol().release(&ReleaseArgs {
            name: &state.name,
            keys: state.keys(),
            hold: &HoldKey::new(entry.clone(), 1),
            count: 0,
            granted: false,
            keep: Duration::ZERO,
            settings: &self.settings,
        });
        // No purpose: if the withdrawal fails, the next heartbeat repeats the offer.
        self.send(now, call, Purpose::Nothing);
    }

    /// Clients of other libraries announce a release to one waiter alone, on a channel of its own.
    fn listen_for_front(&mut self, lock: LockId, number: HoldNumber, foreign: bool) {
        if self.locks[lock].wait_policy() != WaitPolicy::ServerQueue {
            return;
        }
        let hold = &self.holds[number];
        let wanted = foreign.then(|| fair::front_channel(&self.locks[lock].name, &hold.cell.field()));
        let own = self.locks[lock].channel();
        let is_wanted = |name: &Bytes| Some(name) == own.as_ref() || Some(name) == wanted.as_ref();
        self.subscriptions.retain(lock, is_wanted, &mut self.out);
        if let Some(channel) = &wanted {
            self.subscriptions.listen(lock, channel, &mut self.out);
        }
    }

    /// This client sends a release. The next waiter of the queue is mostly its own, so the contender asks right behind the release. The
    /// server decides whose turn it is.
    pub(super) fn ask_ahead(&mut self, lock: LockId) {
        if self.locks[lock].wait_policy() != WaitPolicy::ServerQueue || !self.is_server_usable(lock) {
            return;
        }
        let Some(contender) = self.locks[lock].line.contender else { return };
        if self.queued_hold_of(contender).is_some() && self.locks[lock].line.pipeline() {
            self.wake(contender);
        }
    }

    /// The first hold of the line that has a place on the server.
    fn front(&self, lock: LockId) -> Option<HoldNumber> {
        self.locks[lock].line.members().find_map(|ticket| self.queued_hold_of(ticket))
    }

    fn queued_hold_of(&self, ticket: Ticket) -> Option<HoldNumber> {
        let number = self.requests.acquire(ticket)?.hold?;
        self.holds.get(number)?.state.is_queued().then_some(number)
    }
}

#[cfg(test)]
mod tests;
