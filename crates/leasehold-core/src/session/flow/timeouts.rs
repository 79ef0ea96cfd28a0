//! Handles due timers.

use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::session::hold::Hold;
use crate::session::ids::LockId;
use crate::session::lock::line::Phase;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::LocalPlace;
use crate::session::request::acquire::ending::Due;
use crate::session::timers::Timer;
use crate::session::{CallId, Event, Ticket};
use crate::time::Instant;

impl Parts {
    /// Handles a request's timer: a pause or the request's patience has ended, or a deadline has passed.
    pub(super) fn request_is_due(&mut self, now: Instant, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        *request.timer() = None;
        let acquire = match request {
            Request::Acquire(acquire) => acquire,
            Request::Release(release) => {
                let number = release.hold();
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
            acquire.lock(),
            acquire.place(),
            acquire
                .hold()
                .and_then(|number| self.holds.get(number))
                .is_some_and(|hold| !hold.is_queued() || hold.has_change()),
        );
        let (wish_ended, more) =
            (acquire.end_of_wish(self.settings.command_timeout) <= now, self.settings.command_timeout);
        if !wish_ended && self.is_under_way(ticket) {
            // Wait for the call in flight: the server may still reply.
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.failures_mut().postpone(more);
            }
            self.set_request_timer(now, ticket);
            return;
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.make_final();
        }
        let contends = place == LocalPlace::Line && self.locks[lock].line().is_contender(ticket);
        let Some(failures) = self.failures_of(ticket) else { return };
        let own = self.requests.acquire(ticket).and_then(|acquire| acquire.failures().since());
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
        } else if contends && self.locks[lock].line().phase() != Phase::Gated {
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
        *hold.timer_slot() = None;
        self.lose_if_passed(now, number);
        if self.end_stay(now, number) {
            return;
        }
        let restores = self.holds.get(number).is_some_and(|hold| hold.is_restorable());
        if !restores {
            self.queue_renewal(now, number);
        } else if self.holds.get(number).and_then(Hold::renew_at).is_some_and(|at| at <= now) {
            self.restore(now, number);
        }
        self.reconcile(now, number);
    }

    /// Handles a lock's timer: the end of a turn, sleep or pause, or an outage beyond its limit.
    pub(super) fn lock_is_due(&mut self, now: Instant, lock: LockId) {
        if !self.locks.contains(lock) {
            return;
        }
        *self.locks[lock].timer_slot() = None;
        self.heartbeat_is_due(now, lock);
        if self.give_up_on_server(now, lock) {
            return;
        }
        match self.locks[lock].line().phase() {
            Phase::Due(until) if until <= now => {
                let contender = self.locks[lock].line().contender();
                if contender.is_some_and(|contender| self.is_under_way(contender)) {
                    // Its future was polled, and waits for the reply to an earlier call.
                    let turn = self.locks[lock].wait_policy().turn(&self.settings);
                    self.locks[lock].line_mut().set_due(now + turn);
                } else if let Some(contender) = contender {
                    let name = self.locks[lock].name().clone();
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

    /// See [`Session::handle_timeout`](crate::session::Session::handle_timeout).
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
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
