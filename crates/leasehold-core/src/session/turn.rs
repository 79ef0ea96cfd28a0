//! Turns: among the waiters of a lock in this client, one contends for it on the server, and this is about when.

use super::ids::LockId;
use super::lock::Phase;
use super::request::{Acquire, Patience, Place, Ticket, Trouble};
use super::timers::Timer;
use super::{Event, Session};
use crate::backoff::Backoff;
use crate::command::Line;
use crate::error::AcquireError;
use crate::time::Instant;
use std::time::Duration;

impl Session {
    /// Another holder has the lock.
    pub(super) fn busy(&mut self, now: Instant, ticket: Ticket, left: Option<Duration>) {
        let Some(acquire) = self.acquire_of_mut(ticket) else { return };
        let (lock, last, patience, place) = (acquire.lock, acquire.last, acquire.wish.patience, acquire.place);
        let acquire_owner = acquire.wish.owner;
        if place == Place::Aside {
            acquire.not_beside = acquire.beside.take();
            if acquire.not_beside.is_some() {
                // The other half was lost meanwhile, whether that is known already or not.
                self.join_line(now, ticket);
            } else if !self.await_given_up(now, ticket) {
                self.finish_acquire(now, ticket, Ok(None));
            }
            return;
        }
        if let Some(number) = self.hold_of_owner(lock, acquire_owner) {
            self.locks[lock].trouble = Trouble::default();
            self.enter_instead(now, ticket, lock, number);
            return;
        }
        if let Some(beside) = self.acquire_of(ticket).and_then(|acquire| self.own_other_half(acquire)) {
            self.stand_beside(now, ticket, beside);
            return;
        }
        let line = &mut self.locks[lock];
        let beside = line.kind.verbs().line() == Line::Shared && line.contender != Some(ticket);
        line.invitations.end_round();
        // An attempt whose reply comes after the end of the wait was the last one.
        let ended = self.acquire_of(ticket).is_some_and(|acquire| self.end_of_wish(acquire) <= now);
        let mut goes = patience == Patience::Try || last || ended;
        self.locks[lock].trouble = Trouble::default();
        let mut left = left;
        if self.locks[lock].keys.channel.is_none() {
            let pause = self.next_poll(ticket);
            goes |= pause.is_none();
            left = pause;
        }
        if goes && self.await_given_up(now, ticket) {
            return;
        }
        // The reply to another request does not move the contender: it may be asking itself.
        if !beside && (!goes || !self.locks[lock].queue.is_empty()) {
            self.contender_waits(now, lock, left);
        }
        if goes {
            self.end_busy(now, ticket);
            return;
        }
        self.begin_to_wait(now, ticket);
    }

    /// The contender sleeps until it is told that the lock may be free, or until the holder's lease may be over.
    pub(super) fn contender_waits(&mut self, now: Instant, lock: LockId, left: Option<Duration>) {
        let confirmed = self.want_notices(lock);
        let polls = self.locks[lock].keys.channel.is_none();
        let until = now + if polls { left.unwrap_or_default() } else { self.sleep(left) };
        let line = &mut self.locks[lock];
        line.phase = match confirmed {
            false => Phase::Subscribing,
            true if line.again => Phase::Due(now + self.settings.turn_in(line.kind.verbs().line())),
            true => Phase::Sleeping(until),
        };
        if matches!(self.locks[lock].phase, Phase::Due(_)) {
            self.due(now, lock);
        }
        self.set_lock_timer(lock);
    }

    /// After the failure of which number the caller's own back-off is to be asked, if it is. That is foreign code, which may itself use the
    /// client: ask it while the session is not locked, and hand in what it says by [`Session::handle_backoff`].
    pub fn poll_backoff(&mut self, ticket: Ticket) -> Option<u32> {
        let acquire = self.acquire_of_mut(ticket)?;
        let asks = std::mem::take(&mut acquire.asks_backoff);
        (asks && acquire.outcome.is_none()).then_some(acquire.polls)
    }

    /// Takes what the caller's own back-off says; `None` ends the wait.
    pub fn handle_backoff(&mut self, now: Instant, ticket: Ticket, pause: Option<Duration>) {
        let waits = |acquire: &&Acquire| acquire.place == Place::Line && acquire.outcome.is_none();
        let Some(lock) = self.acquire_of(ticket).filter(waits).map(|acquire| acquire.lock) else { return };
        let line = &mut self.locks[lock];
        if line.contender == Some(ticket) && matches!(line.phase, Phase::Sleeping(_)) {
            line.phase = Phase::Sleeping(now + pause.unwrap_or_default());
            self.set_lock_timer(lock);
        }
        if pause.is_none() {
            self.end_busy(now, ticket);
        }
    }

    /// How long a request whose kind has no notices waits before it asks again; `None` where it has asked often enough. If the caller's own
    /// back-off is to say it, this is how long it waits if that is never asked, because its future is not polled.
    fn next_poll(&mut self, ticket: Ticket) -> Option<Duration> {
        let random = self.rng.f64();
        let acquire = self.acquire_of_mut(ticket)?;
        acquire.polls = acquire.polls.saturating_add(1);
        match &acquire.wish.backoff {
            Some(backoff) if !backoff.is_custom() => backoff.pause(acquire.polls, random),
            custom => {
                acquire.asks_backoff = custom.is_some();
                Backoff::default().pause(acquire.polls, random)
            }
        }
    }

    /// How long to sleep when the holder's lease has `left` to go. A little more than that, and not the same everywhere, so
    /// that the clients of a fleet do not all ask at the same instant.
    pub(super) fn sleep(&mut self, left: Option<Duration>) -> Duration {
        let spread = self.jitter(Duration::from_millis(5));
        let recheck = self.settings.recheck;
        left.map_or(recheck, |left| recheck.min(left + Duration::from_millis(1) + spread))
    }

    /// The contender has the lock: who comes next sleeps until it is released, and need not try now.
    pub(super) fn contender_got_in(&mut self, now: Instant, ticket: Ticket, lock: LockId, left: Duration) {
        let line = &mut self.locks[lock];
        if line.contender != Some(ticket) {
            if let Some(acquire) = self.acquire_of_mut(ticket) {
                acquire.place = Place::Aside;
            }
            let line = &self.locks[lock];
            if line.queue.is_empty() && line.contender.is_none() {
                self.line_is_empty(lock);
            } else {
                self.invite(lock);
            }
            return;
        }
        line.contender = None;
        let line_goes_on = !line.queue.is_empty();
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.place = Place::Aside;
        }
        if !line_goes_on {
            self.line_is_empty(lock);
            return;
        }
        if self.is_gated(lock) {
            self.locks[lock].phase = Phase::Gated;
            self.pick_contender(lock);
            self.set_lock_timer(lock);
            return;
        }
        if self.locks[lock].kind.verbs().line() == Line::Shared {
            self.due(now, lock);
            self.invite(lock);
            return;
        }
        let confirmed = self.want_notices(lock);
        let polls = self.locks[lock].keys.channel.is_none();
        let until = now + self.sleep(Some(if polls { Duration::ZERO } else { left }));
        let line = &mut self.locks[lock];
        line.phase = if confirmed { Phase::Sleeping(until) } else { Phase::Subscribing };
        self.pick_contender(lock);
        self.set_lock_timer(lock);
    }

    /// It is the contender's turn.
    pub(super) fn due(&mut self, now: Instant, lock: LockId) {
        let line = &mut self.locks[lock];
        line.phase = Phase::Due(now + self.settings.turn_in(line.kind.verbs().line()));
        self.pick_contender(lock);
        if let Some(contender) = self.locks[lock].contender {
            if self.locks[lock].kind.verbs().line() == Line::Shared && self.is_under_way(contender) {
                // It asked while it was not the contender. Its answer may be older than what makes it its turn.
                let line = &mut self.locks[lock];
                line.phase = Phase::Trying;
                line.again = true;
            } else {
                self.wake(contender);
            }
        }
        self.set_lock_timer(lock);
    }

    /// A lock's timer: a turn lapses, a sleep or a pause ends, or the server has been out of reach for too long.
    pub(super) fn lock_is_due(&mut self, now: Instant, lock: LockId) {
        if !self.locks.contains(lock) {
            return;
        }
        self.locks[lock].timer = None;
        self.beat_is_due(now, lock);
        if self.trouble_is_over(now, lock) {
            return;
        }
        match self.locks[lock].phase {
            Phase::Due(until) if until <= now => {
                if let Some(contender) = self.locks[lock].contender {
                    let name = self.locks[lock].name.clone();
                    self.out.tell(Event::TurnPassed { name });
                    self.turn_missed(now, contender);
                }
            }
            Phase::Sleeping(until) | Phase::BackingOff(until) if until <= now => self.due(now, lock),
            _ => {}
        }
        self.set_lock_timer(lock);
    }

    /// Fails all requests of the line when the server has been out of reach for too long.
    fn trouble_is_over(&mut self, now: Instant, lock: LockId) -> bool {
        let Some(since) = self.trouble_since(lock) else { return false };
        if now < since + self.settings.unreachable_after {
            return false;
        }
        let error = AcquireError::Unreachable(self.trouble_in_words(lock));
        if let Some(contender) = self.locks[lock].contender
            && !self.is_unsure(contender)
            && self.falls_back(now, contender)
        {
            self.degrade(now, contender);
            return true;
        }
        self.fail_line(now, lock, &error);
        true
    }

    /// The request's future was not polled in time: it keeps its place, and others go first until it is polled.
    pub(super) fn turn_missed(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.acquire_of_mut(ticket) else { return };
        let (lock, last) = (acquire.lock, acquire.last);
        acquire.dormant = true;
        let begun = acquire.hold.take();
        if let Some(number) = begun {
            self.forsake(now, ticket, number);
        }
        let Some(acquire) = self.acquire_of(ticket) else { return };
        if acquire.place != Place::Line || self.locks[lock].contender != Some(ticket) {
            return;
        }
        if last {
            self.end_busy(now, ticket);
            return;
        }
        let line = &mut self.locks[lock];
        line.contender = None;
        if line.kind.verbs().line() == Line::Places {
            // Its place on the server is given up: when it is polled again it takes a new one, at the tail.
            line.queue.push_back(ticket);
        } else {
            line.queue.push_front(ticket);
        }
        self.begin_to_wait(now, ticket);
        self.due(now, lock);
    }

    /// The settled call of a request is to be sent again.
    pub(super) fn try_again(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.acquire_of(ticket) else { return };
        let (lock, place, last) = (acquire.lock, acquire.place, acquire.last);
        if last {
            let error = self.trouble_error(ticket);
            self.fail_acquire(now, ticket, error);
        } else if place == Place::Line && self.locks[lock].contender == Some(ticket) {
            self.due(now, lock);
        } else {
            self.wake(ticket);
        }
    }

    /// Whether a call that was to be sent at `since`, and was not, may be sent again at once. A request may do so a few times, so that a
    /// server that is out of reach is still found to be so; and more often while something else is being settled, as it is all the time
    /// where many futures are dropped: the server is not to blame for that, nor is the caller told that it is out of reach.
    pub(super) fn may_go_again(&mut self, ticket: Ticket, since: Instant) -> bool {
        let most = if self.settlements.at_work_since(since) { 32 } else { 3 };
        let Some(acquire) = self.acquire_of_mut(ticket) else { return false };
        acquire.went_again = acquire.went_again.saturating_add(1);
        acquire.went_again <= most
    }

    /// Sends the request's call again at once.
    pub(super) fn go_again(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.acquire_of(ticket) else { return };
        let lock = acquire.lock;
        if acquire.place == Place::Line && self.locks[lock].contender == Some(ticket) {
            self.due(now, lock);
        } else {
            self.wake(ticket);
        }
    }

    /// Leaves the server in peace for a while.
    pub(super) fn back_off(&mut self, now: Instant, ticket: Ticket) {
        let Some(trouble) = self.trouble_of(ticket) else { return };
        let pause = trouble.pause();
        let until = now + pause / 2 + self.jitter(pause / 2);
        let Some(acquire) = self.acquire_of_mut(ticket) else { return };
        let (lock, place, last) = (acquire.lock, acquire.place, acquire.last);
        let contends = self.locks[lock].contender == Some(ticket);
        if last || self.falls_back(now, ticket) {
            self.end_unreachable(now, ticket);
        } else if place == Place::Line && contends {
            self.locks[lock].phase = Phase::BackingOff(until);
            self.set_lock_timer(lock);
            self.begin_to_wait(now, ticket);
        } else {
            if let Some(acquire) = self.acquire_of_mut(ticket) {
                acquire.retry_at = Some(until);
            }
            self.begin_to_wait(now, ticket);
        }
    }

    pub(super) fn set_lock_timer(&mut self, lock: LockId) {
        let trouble = self.trouble_since(lock);
        let Some(line) = self.locks.get_mut(lock) else { return };
        let phase = match line.phase {
            Phase::Due(until) if line.contender.is_some() => Some(until),
            Phase::Sleeping(until) | Phase::BackingOff(until) => Some(until),
            _ => None,
        };
        let trouble = trouble.map(|since| since + self.settings.unreachable_after);
        let next = [phase, trouble, line.beat_at].into_iter().flatten().min();
        self.timers.set(Timer::Lock(lock), &mut line.timer, next);
    }
}
