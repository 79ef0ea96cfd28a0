//! How requests wait and end: patience, trouble with the server, and outcomes.

use super::hold::Change;
use super::lock::{Anomaly, Phase};
use super::request::{Acquire, GivenUp, Granted, Patience, Pause, Place, Request, Ticket, Trouble};
use super::timers::Timer;
use super::{Event, Session};
use crate::command::Line;
use crate::error::{AcquireError, ReleaseError};
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::time::Instant;
use std::task::Waker;
use std::time::Duration;

impl Acquire {
    /// Whether it sends nothing, because something that was begun is being taken back.
    pub(super) const fn rests(&self) -> bool {
        self.undoing.is_some() || matches!(self.given_up, GivenUp::Awaited(..))
    }

    /// The hold of its own owner that it re-enters.
    pub(super) const fn entering(&self) -> Option<HoldNumber> {
        match self.place {
            Place::Entering(number) => Some(number),
            Place::Line | Place::Aside => None,
        }
    }
}

impl Session {
    pub(super) fn acquire_of(&self, ticket: Ticket) -> Option<&Acquire> {
        match self.requests.get(&ticket) {
            Some(Request::Acquire(acquire)) => Some(acquire),
            _ => None,
        }
    }

    pub(super) fn acquire_of_mut(&mut self, ticket: Ticket) -> Option<&mut Acquire> {
        match self.requests.get_mut(&ticket) {
            Some(Request::Acquire(acquire)) => Some(acquire),
            _ => None,
        }
    }

    /// The request was not served at once: its patience begins to count.
    pub(super) fn begin_to_wait(&mut self, now: Instant, ticket: Ticket) {
        self.note_own_client(now, ticket);
        self.set_request_timer(now, ticket);
    }

    /// Notes whether the server has the lock without a time to live: no lease ends it. A client that keeps to the layout leaves no such
    /// lock behind. A kind without a lease, or one that says otherwise how long it lasts, is not meant.
    pub(super) fn note_endless(&mut self, ticket: Ticket, left: Option<Duration>) {
        let Some(acquire) = self.acquire_of(ticket) else { return };
        let verbs = self.locks[acquire.lock].kind.verbs();
        let has_lease = verbs.line() == Line::Exclusive || verbs.shares_key();
        self.note_anomaly(ticket, (has_lease && left.is_none()).then_some(Anomaly::Endless));
    }

    /// Says once what a waiter waits for that may never come, until an attempt finds it otherwise. A try waits for nothing.
    pub(super) fn note_anomaly(&mut self, ticket: Ticket, found: Option<Anomaly>) {
        let Some(acquire) = self.acquire_of(ticket) else { return };
        let (lock, waits) = (acquire.lock, acquire.wish.patience != Patience::Try);
        let state = &mut self.locks[lock];
        let known = state.anomaly == found;
        if !known && !waits {
            // A waiter that finds the same is still to be told.
            state.anomaly = None;
            return;
        }
        state.anomaly = found;
        match found.filter(|_| !known) {
            Some(Anomaly::Endless) => self.out.tell(Event::Endless { name: state.name.clone() }),
            Some(Anomaly::Unset) => self.out.tell(Event::Unset { name: state.name.clone() }),
            None => {}
        }
    }

    /// When the caller does not want to wait any longer.
    pub(super) fn end_of_wish(&self, acquire: &Acquire) -> Instant {
        match acquire.wish.patience {
            Patience::Try => acquire.started + self.settings.command_timeout * 2,
            Patience::Until(until) => until,
            Patience::Forever => Instant::FAR_FUTURE,
        }
    }

    /// When the request ends without the lock, whatever happens until then.
    fn end_of_patience(&self, acquire: &Acquire) -> Instant {
        let patience = self.end_of_wish(acquire);
        let trouble =
            acquire.trouble.since.map_or(Instant::FAR_FUTURE, |since| since + self.settings.unreachable_after);
        patience.min(trouble)
    }

    pub(super) fn set_request_timer(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.acquire_of(ticket) else { return };
        let next = match (&acquire.undoing, &acquire.given_up) {
            // It tries nothing again, whatever it was about to do before.
            (Some(undoing), _) => undoing.until,
            (None, GivenUp::Awaited(_, until)) => *until,
            (None, _) => {
                let end = self.end_of_patience(acquire);
                // A patience that has ended was acted upon: only the last attempt is still awaited.
                let end = if end <= now && acquire.last { Instant::FAR_FUTURE } else { end };
                acquire.retry_at.map_or(end, |retry| retry.min(end))
            }
        };
        if let Some(request) = self.requests.get_mut(&ticket) {
            self.timers.set(Timer::Request(ticket), request.timer(), Some(next));
        }
    }

    /// A request's timer: it may try again, or its patience has ended.
    pub(super) fn patience_ends(&mut self, now: Instant, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        *request.timer() = None;
        let acquire = match request {
            Request::Acquire(acquire) => acquire,
            Request::Release(release) => {
                let number = release.hold;
                self.give_up_release(ticket, number);
                return;
            }
            Request::Pause(_) => {
                self.wake(ticket);
                return;
            }
        };
        if acquire.outcome.is_some() {
            return;
        }
        if let Some(undoing) = &acquire.undoing {
            if undoing.until <= now {
                self.undone_later(now, ticket, "no reply came within the command timeout");
            } else {
                self.set_request_timer(now, ticket);
            }
            return;
        }
        if let GivenUp::Awaited(_, until) = acquire.given_up {
            if until <= now {
                acquire.given_up = GivenUp::Over;
                self.end_busy(now, ticket);
            } else {
                self.set_request_timer(now, ticket);
            }
            return;
        }
        if acquire.retry_at.is_some_and(|at| at <= now) {
            acquire.retry_at = None;
            self.wake(ticket);
        }
        let Some(acquire) = self.acquire_of(ticket) else { return };
        if self.end_of_patience(acquire) > now {
            self.set_request_timer(now, ticket);
            return;
        }
        self.end_patience(now, ticket);
    }

    fn end_patience(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.acquire_of(ticket) else { return };
        let (lock, place, begun) = (
            acquire.lock,
            acquire.place,
            acquire
                .hold
                .and_then(|number| self.holds.get(&number))
                .is_some_and(|hold| !hold.placed || hold.change.is_some()),
        );
        let (wish_ended, more) = (self.end_of_wish(acquire) <= now, self.settings.command_timeout);
        if !wish_ended && self.is_under_way(ticket) {
            // The server has been out of reach for too long, but may be about to answer after all.
            if let Some(since) = self.acquire_of_mut(ticket).and_then(|acquire| acquire.trouble.since.as_mut()) {
                *since = *since + more;
            }
            self.set_request_timer(now, ticket);
            return;
        }
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.last = true;
        }
        let contends = place == Place::Line && self.locks[lock].contender == Some(ticket);
        let Some(trouble) = self.trouble_of(ticket) else { return };
        let own = self.acquire_of(ticket).and_then(|acquire| acquire.trouble.since);
        let begun_at = [trouble.since, own].into_iter().flatten().min();
        let too_long = begun_at.is_some_and(|since| now >= since + self.settings.unreachable_after);
        // One failure in the line is no outage: it is about to be repeated, and the contender's last attempt will tell.
        let out_of_reach =
            too_long || if place == Place::Line { trouble.tries > 1 && !contends } else { own.is_some() };
        let flying = self.is_under_way(ticket);
        if flying {
            // The command that is under way is the last attempt; it takes no longer than the command timeout.
        } else if out_of_reach || (begun && (begun_at.is_some() || self.is_unsure(ticket))) {
            self.end_unreachable(now, ticket);
        } else if contends && self.locks[lock].phase != Phase::Gated {
            self.due(now, lock);
        } else if self.may_ask_beside(ticket) {
            self.wake(ticket);
        } else {
            self.end_busy(now, ticket);
        }
    }

    /// Whether a call of the request has been sent, and a reply may still come.
    pub(super) fn is_under_way(&self, ticket: Ticket) -> bool {
        let Some(acquire) = self.acquire_of(ticket) else { return false };
        acquire
            .hold
            .or_else(|| acquire.entering())
            .and_then(|number| self.holds.get(&number)?.change.as_ref())
            .is_some_and(|change| change.by == Some(ticket) && !change.settling)
    }

    /// The server does not do its part. `unsure` says that a call of this request may have been applied.
    pub(super) fn note_trouble(&mut self, now: Instant, ticket: Ticket, why: &str, unsure: bool) {
        let Some((lock, started)) = self.acquire_of(ticket).map(|acquire| (acquire.lock, acquire.started)) else {
            return;
        };
        // A waiter that slept when the server was lost has waited for it from then on.
        let since = self.outage_of(lock).map_or(now, |outage| if started <= outage.since { outage.since } else { now });
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        acquire.trouble.unsure |= unsure;
        if acquire.place == Place::Line {
            self.locks[lock].trouble.note(since, why);
            self.set_lock_timer(lock);
        } else {
            acquire.trouble.note(since, why);
        }
        self.set_request_timer(now, ticket);
    }

    /// A call of the request was certainly not applied: it is sent again after a pause. A try ends where that is of no use, because a new
    /// connection has led to a replica again.
    pub(super) fn failed_for_now(&mut self, now: Instant, ticket: Ticket, change: &Change, error: &LinkError) {
        let why = error.to_string();
        self.note_trouble(now, ticket, &why, false);
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let trouble = match acquire.place {
            Place::Line => &mut self.locks[acquire.lock].trouble,
            Place::Aside | Place::Entering(_) => &mut acquire.trouble,
        };
        let of_a_replica = matches!(error, LinkError::Refused(refusal) if refusal.is_of_a_replica());
        let found_again = of_a_replica && trouble.note_demotion(&why, change.plane, change.epoch);
        if found_again && acquire.wish.patience == Patience::Try {
            self.end_unreachable(now, ticket);
        } else {
            self.back_off(now, ticket);
        }
    }

    pub(super) fn trouble_of(&self, ticket: Ticket) -> Option<&Trouble> {
        let acquire = self.acquire_of(ticket)?;
        Some(if acquire.place == Place::Line { &self.locks[acquire.lock].trouble } else { &acquire.trouble })
    }

    /// Whether a call of the request has been, or may yet be, applied without a reply.
    pub(super) fn is_unsure(&self, ticket: Ticket) -> bool {
        self.is_under_way(ticket) || self.acquire_of(ticket).is_some_and(|acquire| acquire.trouble.unsure)
    }

    /// The error for a caller whose server does not do its part.
    pub(super) fn trouble_error(&self, ticket: Ticket) -> AcquireError {
        let lock = self.acquire_of(ticket).map(|acquire| acquire.lock);
        let why = lock
            .zip(self.trouble_of(ticket))
            .map(|(lock, trouble)| self.with_outage(lock, trouble))
            .unwrap_or_default();
        if self.is_unsure(ticket) { AcquireError::OutcomeUnknown(why) } else { AcquireError::Unreachable(why) }
    }

    /// Ends an acquire that has nothing on the server, or that has been granted.
    pub(super) fn finish_acquire(
        &mut self,
        now: Instant,
        ticket: Ticket,
        outcome: Result<Option<Granted>, AcquireError>,
    ) {
        let Some(acquire) = self.acquire_of_mut(ticket) else { return };
        if acquire.outcome.is_some() {
            return;
        }
        acquire.outcome = Some(outcome);
        let (lock, place) = (acquire.lock, acquire.place);
        if place == Place::Line {
            self.leave_line(now, ticket, lock);
        }
        self.wake(ticket);
    }

    /// Ends an acquire without the lock, and takes back what it may have begun.
    pub(super) fn fail_acquire(&mut self, now: Instant, ticket: Ticket, error: AcquireError) {
        let Some(acquire) = self.acquire_of_mut(ticket) else { return };
        let begun = acquire.hold.take().or_else(|| acquire.entering());
        self.finish_acquire(now, ticket, Err(error));
        if let Some(number) = begun {
            self.forsake(now, ticket, number);
        }
    }

    pub(super) fn finish_release(&mut self, ticket: Ticket, outcome: Result<(), ReleaseError>) {
        if let Some(Request::Release(release)) = self.requests.get_mut(&ticket) {
            release.outcome.get_or_insert(outcome);
            self.wake(ticket);
        }
    }

    /// Lets a caller wait for time to pass. The clock is the session's, so that it also goes on where a test moves it by hand.
    pub fn pause(&mut self, now: Instant, pause: Duration) -> Ticket {
        let ticket = Ticket(self.next_id());
        self.requests.insert(ticket, Request::Pause(Pause { until: now + pause, timer: None, waker: None }));
        ticket
    }

    /// Whether a pause is over; `waker` is woken when it is.
    pub fn poll_pause(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> bool {
        let Some(Request::Pause(pause)) = self.requests.get_mut(&ticket) else { return true };
        if self.closed || pause.until <= now {
            return true;
        }
        pause.waker = Some(waker.clone());
        self.timers.set(Timer::Request(ticket), &mut pause.timer, Some(pause.until));
        false
    }

    /// Forgets a pause.
    pub fn end_pause(&mut self, ticket: Ticket) {
        self.remove_request(ticket);
    }

    /// A number between 0 and 1.
    pub fn random(&mut self) -> f64 {
        self.rng.f64()
    }

    /// Forgets a request whose future is done or gone.
    pub(super) fn remove_request(&mut self, ticket: Ticket) {
        let Some(mut request) = self.requests.remove(&ticket) else { return };
        self.timers.set(Timer::Request(ticket), request.timer(), None);
        if let Request::Acquire(acquire) = request {
            self.end_wish(acquire.lock, acquire.wish.owner, ticket);
            self.unref(acquire.lock);
        }
    }
}
