//! How long requests wait, for the lock and for a server that does not do its part; and the timers of requests and lines.

use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::session::failures::Failures;
use crate::session::ids::LockId;
use crate::session::outages::Outage;
use crate::session::parts::Parts;
use crate::session::request::acquire::{Acquire, LocalPlace};
use crate::session::request::{Pause, Request};
use crate::session::timers::Timer;
use crate::session::{Patience, Ticket};
use crate::time::Instant;
use std::task::Waker;
use std::time::Duration;

impl Parts {
    /// When the request ends without the lock, whatever happens until then.
    pub(super) fn end_of_patience(&self, ticket: Ticket, acquire: &Acquire) -> Instant {
        let patience = acquire.end_of_wish(self.settings.command_timeout);
        let failures = acquire.failures().since().map(|since| since + self.settings.unreachable_after);
        // A try and a call in flight may get their reply over another connection than the lost one.
        let may_be_answered = acquire.wish().patience == Patience::Try || self.is_under_way(ticket);
        let outage = if may_be_answered { None } else { self.end_by_outage(acquire) };
        [failures, outage].into_iter().flatten().fold(patience, Instant::min)
    }

    /// When a known outage ends the request: a try ends at once, another request after `unreachable_after`. A caller
    /// with its own wait also waits for the server. A request that waits for a task of this client does not need the
    /// server yet.
    fn end_by_outage(&self, acquire: &Acquire) -> Option<Instant> {
        let since = self.outage_of(acquire.lock())?.since();
        if acquire.wish().waits_out_outage || self.is_gated(acquire.lock()) {
            return None;
        }
        let after = match acquire.wish().patience {
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
            || self.requests.acquire(ticket).is_some_and(|acquire| acquire.failures().is_outcome_unknown())
    }

    pub(super) fn failures_of(&self, ticket: Ticket) -> Option<&Failures> {
        let acquire = self.requests.acquire(ticket)?;
        Some(if acquire.place() == LocalPlace::Line {
            self.locks[acquire.lock()].failures()
        } else {
            acquire.failures()
        })
    }

    /// The error for a caller whose server does not do its part.
    pub(super) fn failure_error(&self, ticket: Ticket) -> AcquireError {
        let lock = self.requests.acquire(ticket).map(|acquire| acquire.lock());
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
        let key = self.locks.get(lock)?.name().key();
        self.outages.of(key)
    }

    /// Since when the server has not done its part for those who wait for a lock: as their attempts have shown, and while they sleep as the
    /// link says.
    pub(super) fn failing_since(&self, lock: LockId) -> Option<Instant> {
        let state = self.locks.get(lock)?;
        let told = if state.line().listens() { self.outage_of(lock).map(Outage::since) } else { None };
        [state.failures().since(), told].into_iter().flatten().min()
    }

    /// The same in words.
    pub(super) fn failures_in_words(&self, lock: LockId) -> String {
        self.with_outage(lock, self.locks[lock].failures())
    }

    /// The server does not do its part. `unsure` says that a call of this request may have been applied.
    pub(super) fn record_failure(&mut self, now: Instant, ticket: Ticket, why: &str, unsure: bool) {
        let Some((lock, started)) = self.requests.acquire(ticket).map(|acquire| (acquire.lock(), acquire.started()))
        else {
            return;
        };
        // A waiter that slept when the server was lost has waited for it from then on.
        let since =
            self.outage_of(lock).map_or(now, |outage| if started <= outage.since() { outage.since() } else { now });
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        if unsure {
            acquire.failures_mut().set_outcome_unknown(true);
        }
        if acquire.place() == LocalPlace::Line {
            self.locks[lock].failures_mut().note(since, why);
            self.set_lock_timer(lock);
        } else {
            acquire.failures_mut().note(since, why);
        }
        self.set_request_timer(now, ticket);
    }

    pub(super) fn set_lock_timer(&mut self, lock: LockId) {
        let failures = self.failing_since(lock);
        let Some(state) = self.locks.get_mut(lock) else { return };
        let failures = failures.map(|since| since + self.settings.unreachable_after);
        let next = [state.line().timeout(), failures, state.heartbeat().next()].into_iter().flatten().min();
        self.timers.set(Timer::Lock(lock), state.timer_slot(), next);
    }

    /// See [`Session::pause`](crate::session::Session::pause).
    pub(crate) fn pause(&mut self, now: Instant, pause: Duration) -> Ticket {
        let ticket = Ticket::new(self.next_id());
        self.requests.insert(ticket, Request::Pause(Pause::new(now + pause)));
        ticket
    }

    /// See [`Session::poll_pause`](crate::session::Session::poll_pause).
    pub(crate) fn poll_pause(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> bool {
        let Some(request) = self.requests.get_mut(&ticket) else { return true };
        let Request::Pause(pause) = request else { return true };
        let until = pause.until();
        if self.lost_all || until <= now {
            return true;
        }
        *request.waker() = Some(waker.clone());
        self.timers.set(Timer::Request(ticket), request.timer(), Some(until));
        false
    }

    /// See [`Session::end_pause`](crate::session::Session::end_pause).
    pub(crate) fn end_pause(&mut self, ticket: Ticket) {
        self.remove_request(ticket);
    }

    /// Forgets a request whose future is done or gone.
    pub(super) fn remove_request(&mut self, ticket: Ticket) {
        let Some(mut request) = self.requests.remove(ticket) else { return };
        self.timers.set(Timer::Request(ticket), request.timer(), None);
        if let Request::Acquire(acquire) = request {
            if let Some(owner) = acquire.wish().owner {
                self.owners.remove_wish(acquire.lock(), owner, ticket);
            }
            self.locks.unref(acquire.lock(), &mut self.timers);
        }
    }

    /// A caller waits while the lease may last, and not longer than for any server that is out of reach.
    pub(super) fn limit_wait(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        let reach = self.outage_of(hold.lock()).map_or(now, Outage::since) + self.settings.unreachable_after;
        let limit = reach.min(hold.cell().deadline()).max(now + self.settings.command_timeout);
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let waits = matches!(request, Request::Release(release) if !release.has_ended());
        if waits && request.timer().is_none() {
            self.timers.set(Timer::Request(ticket), request.timer(), Some(limit));
        }
    }
}
