//! The local line: of all who wait for a lock in this client, one contends for it on the server.
//!
//! The contender tries; where the lock is busy it has the channel subscribed, tries again once the server has confirmed
//! that, and sleeps until a notice, or until the lease that the server named may be over. Then it is its turn. A contender
//! whose future is not polled within the turn goes back to the head of the line, and is passed over until it is polled.

use super::beside::Invitations;
use super::ids::LockId;
use super::own_client::Alarm;
use super::request::{
    Acquire, AcquireRequest, Fallback, GivenUp, Granted, Patience, Place, Step, Ticket, Trouble, Via,
};
use super::timers::Timer;
use super::wait_queue::WaitQueue;
use super::{Event, Session, replicas};
use crate::backoff::Backoff;
use crate::command::{Keys, Kind, Line};
use crate::error::AcquireError;
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber};
use crate::time::Instant;
use std::collections::BTreeSet;
use std::task::Waker;
use std::time::Duration;

/// The state that the client keeps about a lock while it holds it, waits for it, or listens for it.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) name: LockName,
    pub(super) kind: Kind,
    pub(super) keys: Keys,
    /// How many holds and requests refer to this.
    pub(super) refs: usize,
    /// How many holds of this client are held.
    pub(super) held: usize,
    /// How many permits these have together: one each, where it is no semaphore.
    pub(super) permits: u64,
    /// The requests that wait, the contender aside.
    pub(super) queue: WaitQueue,
    pub(super) contender: Option<Ticket>,
    /// The waiters that may ask beside the contender, if several may hold the lock.
    pub(super) invitations: Invitations,
    pub(super) phase: Phase,
    /// A notice came while the contender's command was under way.
    pub(super) again: bool,
    pub(super) trouble: Trouble,
    /// When the server is told next that the waiters live, where it wants to be told.
    pub(super) beat_at: Option<Instant>,
    /// A beat is on the way.
    pub(super) beating: bool,
    /// Another beat is wanted as soon as the one that is on the way has been answered.
    pub(super) beat_again: bool,
    /// Every request takes the lock within this client first.
    pub(super) local: bool,
    /// Another lock with the same name: the other half of a read-write lock, or a lock of another kind.
    pub(super) sibling: Option<LockId>,
    /// Holds that were given up before they were granted, and that the server may still have.
    pub(super) given_up: BTreeSet<HoldNumber>,
    /// When it was last said that a task of this client may wait for itself.
    pub(super) alarmed_at: Instant,
    /// The reason that a waiter was told why it waits in vain.
    pub(super) anomaly: Option<Anomaly>,
    pub(super) timer: Option<Instant>,
}

/// A state that no lease and no release of a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anomaly {
    /// The server has the lock without a time to live.
    Endless,
    /// There is no such semaphore.
    Unset,
}

/// The activity of the contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request waits.
    Idle,
    /// It may try, and has until then to be polled; for ever, if all waiting futures are never polled.
    Due(Instant),
    /// Its command is under way, or being settled.
    Trying,
    /// It waits for the server to confirm the subscription.
    Subscribing,
    /// It waits for a notice, until then at most.
    Sleeping(Instant),
    /// It leaves the server in peace until then.
    BackingOff(Instant),
    /// It waits for another task of this client to let go.
    Gated,
}

impl Lock {
    pub(super) fn new(name: LockName, kind: Kind, client: &ClientId) -> Self {
        Self {
            keys: kind.verbs().keys(&name, client),
            kind,
            name,
            refs: 0,
            held: 0,
            permits: 0,
            queue: WaitQueue::default(),
            contender: None,
            invitations: Invitations::new(),
            phase: Phase::Idle,
            again: false,
            trouble: Trouble::default(),
            beat_at: None,
            beating: false,
            beat_again: false,
            local: false,
            sibling: None,
            given_up: BTreeSet::new(),
            alarmed_at: Instant::from_nanos(0),
            anomaly: None,
            timer: None,
        }
    }
}

impl Session {
    /// Begins to acquire. The first [`Session::poll_acquire`] must follow at once.
    pub fn acquire(&mut self, now: Instant, mut wish: AcquireRequest) -> Ticket {
        if !wish.kind.verbs().reenters() {
            wish.owner = None;
            wish.reenter = None;
        }
        let ticket = Ticket(self.next_id());
        let lock = self.lock_for(&wish.name, wish.kind);
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
        if let Some(number) = acquire.wish.reenter.or_else(|| self.hold_of_owner(lock, acquire.wish.owner)) {
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

    /// The next step of the future of an acquire. `via` is where a call would go.
    pub fn poll_acquire(
        &mut self,
        now: Instant,
        ticket: Ticket,
        via: Via,
        waker: &Waker,
    ) -> Step<Result<Option<Granted>, AcquireError>> {
        let Some(acquire) = self.acquire_of_mut(ticket) else { return Step::Done(Err(AcquireError::Closed)) };
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
        let Some(acquire) = self.acquire_of_mut(ticket) else { return Step::Done(Err(AcquireError::Closed)) };
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
        let Some(acquire) = self.acquire_of(ticket) else { return };
        if acquire.wish.patience == Patience::Try || acquire.last || self.end_of_wish(acquire) <= now {
            self.end_busy(now, ticket);
        } else {
            self.begin_to_wait(now, ticket);
        }
    }

    /// The outcome of a request that came to the gate.
    fn poll_acquire_at_gate(&mut self, ticket: Ticket) -> Step<Result<Option<Granted>, AcquireError>> {
        let outcome = self.acquire_of_mut(ticket).and_then(|acquire| acquire.outcome.take());
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
        let other = line.contender.and_then(|contender| self.acquire_of(contender));
        if other.is_some_and(|other| !missed || other.last || other.hold.is_some()) {
            return;
        }
        let line = &mut self.locks[lock];
        line.queue.remove(ticket);
        if let Some(contender) = line.contender.replace(ticket) {
            line.queue.push_front(contender);
        }
    }

    /// The future of an acquire was dropped.
    pub fn abandon_acquire(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.acquire_of_mut(ticket) else { return };
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
