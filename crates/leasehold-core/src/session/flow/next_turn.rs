//! The turn in a line: who is the contender, when it may ask, and who follows when it leaves.

use crate::command::WaitPolicy;
use crate::session::Ticket;
use crate::session::ids::LockId;
use crate::session::lock::line::{AfterLeaving, Phase};
use crate::session::parts::Parts;
use crate::session::request::acquire::LocalPlace;
use crate::time::Instant;
use std::time::Duration;

impl Parts {
    pub(super) fn line_is_empty(&mut self, lock: LockId) {
        self.locks[lock].end_line();
        self.set_lock_timer(lock);
        self.drop_notices(lock);
    }

    /// No request waits for the lock now. A lock with lingering holds stays subscribed to requests of other clients.
    pub(super) fn drop_notices(&mut self, lock: LockId) {
        let last = self.locks[lock].last_granted().and_then(|number| self.holds.get(number));
        if !last.is_some_and(|hold| hold.is_asked_for()) && !self.listening.contains(lock) {
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
        if let Some(contender) = self.locks[lock].line().contender() {
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
        let Some(acquire) = self.requests.acquire_mut(ticket).filter(|acquire| acquire.place() == LocalPlace::Line)
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
        let lock = acquire.lock();
        if acquire.place() == LocalPlace::Line && self.locks[lock].line().is_contender(ticket) {
            self.begin_turn(now, lock);
        } else {
            self.wake(ticket);
        }
    }

    /// A task of this client has let go of the lock.
    pub(super) fn open_gates(&mut self, now: Instant, lock: LockId) {
        let is_gated = |at: &LockId| self.locks[*at].line().phase() == Phase::Gated;
        let gated: Vec<LockId> = self.locks.same_name(lock).filter(is_gated).collect();
        for at in gated {
            if self.locks[at].line().phase() == Phase::Gated && !self.is_gated(at) {
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
        let state = &self.locks[acquire.lock()];
        let placed = acquire.hold().and_then(|number| self.holds.get(number)).is_some_and(|hold| hold.is_queued());
        // When the contender asks is a matter of its turn.
        let contends = state.line().is_contender(ticket) && !state.line().listens();
        state.wait_policy() == WaitPolicy::ServerQueue && acquire.place() == LocalPlace::Line && !placed && !contends
    }
}
