//! Fair locks: the places of waiters in the queue on the server, and their heartbeats.
//!
//! Every waiter takes its place at once, in the order in which it came. From then on only the first of this client, the contender of the
//! line, asks again: no waiter behind it can be granted the lock before. One heartbeat for each lock and client proves that its waiters live,
//! however many there are.

use crate::command::fair::{Heartbeat, Standing};
use crate::command::{HoldKey, ReleaseArgs, WaitPolicy, fair};
use crate::error::AcquireError;
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::calls::Purpose;
use crate::session::line::{End, Phase};
use crate::session::lock::LockId;
use crate::session::request::LocalPlace;
use crate::session::{Event, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

impl Session {
    /// The hold of a request has a place, or a mark, on the server: it is given up like a grant when it is not wanted any more.
    pub(super) fn placed(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, moved: bool, standing: Standing) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, place, last) = (acquire.lock, acquire.place, acquire.is_final_attempt);
        let asked_again = acquire.has_asked_before();
        let lost_place = acquire.note_place(moved);
        let mut fresh = moved;
        if let Some(hold) = self.holds.known_mut(number) {
            fresh |= hold.take_place();
        }
        self.locks[lock].forget_failures();
        if lost_place {
            let name = self.locks[lock].name.clone();
            self.out.tell(Event::QueuePositionLost { name });
        }
        let ended = self
            .requests
            .acquire(ticket)
            .is_some_and(|acquire| acquire.end_of_wish(self.settings.command_timeout) <= now);
        // A request that does not stand in the line did not ask for a place, and does not wait for its turn.
        if last || ended || place != LocalPlace::Line {
            // Behind the contender of this client it is not next, whatever else is given up.
            if place != LocalPlace::Line
                || !self.locks[lock].line().is_contender(ticket)
                || !self.await_given_up(now, ticket)
            {
                self.end_busy(now, ticket);
            }
            return;
        }
        self.begin_to_wait(now, ticket);
        let in_places = self.locks[lock].wait_policy() == WaitPolicy::ServerQueue;
        if in_places && fresh && asked_again {
            self.stand_last(now, lock, ticket);
        }
        if self.locks[lock].line().is_contender(ticket) {
            self.hear_for_front(lock, number, standing.foreign);
            if in_places && !standing.head && standing.left.is_none() {
                // The lock is free and another waiter is first, perhaps one of this client: the heartbeat tells.
                self.locks[lock].line_mut().notice_came = false;
                self.locks[lock].heartbeat_mut().next = Some(now);
            }
            let left = match self.requests.acquire(ticket).and_then(|acquire| acquire.wish.prefer_writers) {
                // Every attempt renews the mark, which must not run out before there have been several.
                Some(mark) if !in_places => Some(standing.left.map_or(mark / 3, |left| left.min(mark / 3))),
                _ => standing.left.filter(|_| standing.head),
            };
            self.contender_waits(now, lock, left);
        } else if self.locks[lock].line().contender.is_none() {
            self.pick_contender(lock);
        }
        if in_places && !self.locks[lock].heartbeat().goes_on() {
            self.plan_heartbeat(now, lock);
        }
    }

    /// Takes the answer to a heartbeat.
    pub(super) fn handle_heartbeat(&mut self, now: Instant, lock: LockId, result: Result<Reply, LinkError>) {
        let heartbeat = match result {
            Ok(reply) => fair::beaten(&reply).map_err(|error| (error.to_string(), true)),
            Err(error) => Err((error.to_string(), error.is_lasting())),
        };
        let waits = !self.locks[lock].line().is_empty();
        match heartbeat {
            Ok(heartbeat) => {
                self.locks[lock].forget_failures();
                match heartbeat {
                    Heartbeat::Calm(standing) => self.front_stands(now, lock, standing),
                    Heartbeat::Yours { entry, .. } => self.turn_of_entry(now, lock, &entry),
                    Heartbeat::Gone(_) => self.places_are_gone(lock),
                    Heartbeat::Kind(kind) => self.fail_line(now, lock, &AcquireError::KeyConflict(kind)),
                }
            }
            Err((why, lasting)) if waits => {
                let name = self.locks[lock].name.clone();
                let lasting = lasting && self.locks[lock].failures().since().is_none();
                self.locks[lock].failures_mut().note(now, &why);
                self.out.tell(Event::HeartbeatFailed { name, why, lasting });
            }
            Err(_) => {}
        }
        let again = self.locks[lock].note_heartbeat_answered();
        if waits && again {
            // Something has come up since this one was sent.
            self.locks[lock].heartbeat_mut().next = Some(now);
            self.set_lock_timer(lock);
        } else if waits && self.locks[lock].heartbeat().next.is_none() {
            self.plan_heartbeat(now, lock);
        }
        self.locks.unref(lock, &mut self.timers);
    }

    /// The server has forgotten the queue: every waiter takes a new place, in the order of the line.
    fn places_are_gone(&mut self, lock: LockId) {
        let all: Vec<Ticket> = self.locks[lock].line().members().collect();
        for ticket in all {
            let number = self.requests.acquire(ticket).and_then(|acquire| acquire.hold);
            if let Some(hold) = number.and_then(|number| self.holds.get_mut(number))
                && !hold.has_change()
            {
                hold.lose_place();
                self.wake(ticket);
            }
        }
    }

    /// Tells the server that the waiters of a lock live, if it is time to.
    pub(super) fn heartbeat_is_due(&mut self, now: Instant, lock: LockId) {
        let state = &mut self.locks[lock];
        if !state.take_due_heartbeat(now) || state.line().is_empty() {
            return;
        }
        if !state.heartbeat_mut().begin() {
            // Notices in quick succession do not make as many heartbeats: the answer to one more tells what has come up until then.
            return;
        }
        let front = self.front(lock).and_then(|number| self.holds.get(number)).map(|hold| hold.field());
        let state = &self.locks[lock];
        let call = fair::heartbeat(&state.name, state.keys(), &self.client, front.as_ref(), &self.settings);
        self.locks[lock].refs += 1;
        self.send_by_background(now, call, Purpose::Heartbeat(lock));
    }

    /// Gives up the place of an entry that no hold stands for.
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
        // The answer is not waited for: the next heartbeat tells whether it has to be repeated.
        self.send_by_background(now, call, Purpose::Nothing);
    }

    /// The next heartbeat, a little sooner or later than those of other clients.
    fn plan_heartbeat(&mut self, now: Instant, lock: LockId) {
        let heartbeat = self.settings.fair.heartbeat_interval;
        let at = now + heartbeat - self.jitter(heartbeat / 8);
        self.locks[lock].heartbeat_mut().next = Some(at);
        self.set_lock_timer(lock);
    }

    /// The front has its place: its process looks when the holder's lease has run out, if no waiter is ahead of it.
    fn front_stands(&mut self, now: Instant, lock: LockId, standing: Standing) {
        let Some(number) = self.front(lock) else { return };
        self.hear_for_front(lock, number, standing.foreign);
        let Some(left) = standing.left.filter(|_| standing.head) else { return };
        let at = now + self.sleep(Some(left));
        if self.locks[lock].line_mut().wake_by(at) {
            self.set_lock_timer(lock);
        }
    }

    /// Clients that are not of this library announce a release to one waiter alone, on a channel of its own.
    fn hear_for_front(&mut self, lock: LockId, number: HoldNumber, foreign: bool) {
        if self.locks[lock].wait_policy() != WaitPolicy::ServerQueue {
            return;
        }
        let Some(hold) = self.holds.known(number) else { return };
        let wanted = foreign.then(|| fair::front_channel(&self.locks[lock].name, &hold.field()));
        let own = self.locks[lock].channel();
        let is_wanted = |name: &Bytes| Some(name) == own.as_ref() || Some(name) == wanted.as_ref();
        self.subscriptions.retain(lock, is_wanted, &mut self.out);
        if let Some(channel) = &wanted {
            self.subscriptions.listen(lock, channel, &mut self.out);
        }
    }

    /// A request has a new place, behind all that have one already: the line follows the order of the server's queue.
    fn stand_last(&mut self, now: Instant, lock: LockId, ticket: Ticket) {
        let line = self.locks[lock].line_mut();
        if line.is_contender(ticket) {
            line.step_back(ticket, End::Back);
            self.begin_turn(now, lock);
        } else {
            line.push(ticket, End::Back);
        }
    }

    /// The free lock is offered to an entry of this client.
    fn turn_of_entry(&mut self, now: Instant, lock: LockId, entry: &Bytes) {
        let known = self.client.number_in(entry).filter(|number| self.holds.contains(*number));
        let Some(number) = known else {
            // The entry is of a hold that this client has forgotten: it must not keep the others waiting.
            self.release_orphaned_entry(now, lock, entry);
            return;
        };
        let Some(ticket) = self.holds.get(number).and_then(|hold| hold.raising) else { return };
        if self.requests.acquire(ticket).is_none_or(|acquire| acquire.place != LocalPlace::Line) {
            return;
        }
        let line = self.locks[lock].line();
        let contends = line.is_contender(ticket);
        if !contends {
            if line.phase == Phase::Trying {
                // The contender is being answered; the next heartbeat comes back to this.
                return;
            }
            // A request without a place is not next: a future that is not polled would be in the way of all others.
            let has_place = line.contender.is_some_and(|contender| self.queued_hold_of(contender).is_some());
            let end = if has_place { End::Front } else { End::Back };
            self.locks[lock].line_mut().replace_contender(ticket, end);
        }
        match self.locks[lock].line().phase {
            Phase::Sleeping(_) | Phase::Ahead(_) | Phase::Subscribing | Phase::Idle => self.begin_turn(now, lock),
            // It was the turn of another, which was woken: this one has not been woken, and its time begins now.
            Phase::Due(_) if !contends => self.begin_turn(now, lock),
            Phase::Due(_) | Phase::Trying | Phase::BackingOff(_) | Phase::Gated => {}
        }
    }

    /// This client sends the release of the lock: where the next of the queue is mostly its own, the contender asks behind the release, and
    /// does not wait for the notice. The server decides whose turn it is in any case.
    pub(super) fn ask_ahead(&mut self, lock: LockId) {
        if self.locks[lock].wait_policy() != WaitPolicy::ServerQueue || !self.is_well(lock) {
            return;
        }
        let Some(contender) = self.locks[lock].line().contender else { return };
        if self.queued_hold_of(contender).is_some() && self.locks[lock].line_mut().ask_ahead() {
            self.wake(contender);
        }
    }

    /// The free lock was offered to an entry of this client: its task asks, because another one would ask in vain, and have the lock offered
    /// once more. The offer says nothing new where the entry has been granted the lock, because it asked ahead.
    pub(super) fn handle_offer(&mut self, now: Instant, lock: LockId, entry: &Bytes) {
        let hold = self.client.number_in(entry).and_then(|number| self.holds.get(number));
        let waits = hold.map(|hold| hold.raising.is_some());
        if waits == Some(true) {
            self.turn_of_entry(now, lock, entry);
        }
        if waits != Some(false) {
            // A contender whose reply is still to come keeps the notice in mind.
            self.handle_notice(now, lock);
        }
    }

    /// The hold of the first of this client that has a place.
    fn front(&self, lock: LockId) -> Option<HoldNumber> {
        self.locks[lock].line().members().find_map(|ticket| self.queued_hold_of(ticket))
    }

    /// The hold of a request that has a place in the queue on the server.
    fn queued_hold_of(&self, ticket: Ticket) -> Option<HoldNumber> {
        let number = self.requests.acquire(ticket)?.hold?;
        self.holds.get(number).filter(|hold| hold.is_queued()).map(|_| number)
    }
}

// ===== The heartbeat of a lock =====
//
// The heartbeat of a lock's waiters, where the server wants to be told that they live.

/// When the server is told next, and whether it is being told now.
#[derive(Debug, Default)]
pub(super) struct HeartbeatState {
    pub(super) next: Option<Instant>,
    call: Call,
}

/// The call that tells the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Call {
    /// None is under way.
    #[default]
    None,
    /// One is under way.
    UnderWay,
    /// One is under way, and another is wanted as soon as it is answered: something has come up since it was sent.
    UnderWayAndAgain,
}

impl HeartbeatState {
    /// None is planned, and none is under way.
    pub(super) const fn new() -> Self {
        Self { next: None, call: Call::None }
    }

    /// Whether one is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.call != Call::None
    }

    /// Whether one is planned or under way.
    pub(super) fn goes_on(&self) -> bool {
        self.next.is_some() || self.is_under_way()
    }

    /// Takes the plan of one that is due now. Says whether there was one.
    #[must_use]
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.next.take_if(|at| *at <= now).is_some()
    }

    /// Begins a call. Where one is under way already, another is wanted after it, and this says `false`.
    #[must_use]
    pub(super) fn begin(&mut self) -> bool {
        let free = self.call == Call::None;
        self.call = if free { Call::UnderWay } else { Call::UnderWayAndAgain };
        free
    }

    /// The call is answered. Says whether another is wanted at once.
    #[must_use]
    pub(super) fn answered(&mut self) -> bool {
        std::mem::take(&mut self.call) == Call::UnderWayAndAgain
    }

    /// No request waits any more: no other call is wanted.
    pub(super) fn end(&mut self) {
        self.next = None;
        if self.is_under_way() {
            self.call = Call::UnderWay;
        }
    }
}

#[cfg(test)]
mod tests;
