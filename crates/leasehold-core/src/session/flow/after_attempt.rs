//! What a request does after an attempt that did not get the lock: it waits, asks again, or ends.

use crate::backoff::Backoff;
use crate::command::WaitPolicy;
use crate::error::AcquireError;
use crate::link::LinkError;
use crate::session::hold::change::Change;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::LocalPlace;
use crate::session::{Patience, Ticket};
use crate::time::Instant;
use std::time::Duration;

impl Parts {
    /// Another holder has the lock.
    pub(super) fn busy(&mut self, now: Instant, ticket: Ticket, left: Option<Duration>) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, last, patience, place) =
            (acquire.lock(), acquire.is_final_attempt(), acquire.wish().patience, acquire.place());
        let acquire_owner = acquire.wish().owner;
        let own = self.locks[lock].last_granted().and_then(|number| self.holds.get(number));
        let is_own = own.is_some_and(|hold| hold.on_server() > 0);
        if !is_own && acquire.wish().linger.is_some() {
            self.contended.note(now, self.locks[lock].name().key());
        }
        if place == LocalPlace::Aside {
            if acquire.refuse_beside() {
                // The other half was lost meanwhile, whether that is known already or not.
                self.join_line(now, ticket);
            } else if !self.await_given_up(now, ticket) {
                self.finish_acquire(now, ticket, Ok(None));
            }
            return;
        }
        if let Some(number) = acquire_owner.and_then(|owner| self.owners.hold(lock, owner)) {
            self.locks[lock].forget_failures();
            self.enter_instead(now, ticket, lock, number);
            return;
        }
        if let Some(beside) = self.requests.acquire(ticket).and_then(|acquire| self.own_other_half(acquire)) {
            self.stand_beside(now, ticket, beside);
            return;
        }
        let state = &mut self.locks[lock];
        let beside = state.wait_policy() == WaitPolicy::Shared && !state.line().is_contender(ticket);
        if state.wait_policy() == WaitPolicy::Shared {
            state.invitations_mut().end_round();
        }
        // An attempt whose reply comes after the end of the wait was the last one.
        let ended = self
            .requests
            .acquire(ticket)
            .is_some_and(|acquire| acquire.end_of_wish(self.settings.command_timeout) <= now);
        let mut goes = patience == Patience::Try || last || ended;
        self.locks[lock].forget_failures();
        let mut left = left;
        if self.locks[lock].is_polled() {
            let pause = self.next_poll(ticket);
            goes |= pause.is_none();
            left = pause;
        }
        if goes && self.await_given_up(now, ticket) {
            return;
        }
        // The reply to another request does not move the contender: it may be asking itself.
        if !beside && (!goes || !self.locks[lock].line().queue().is_empty()) {
            self.contender_waits(now, lock, left);
        }
        if goes {
            self.end_busy(now, ticket);
            return;
        }
        self.begin_to_wait(now, ticket);
    }

    /// Leaves the server in peace for a while.
    pub(super) fn back_off(&mut self, now: Instant, ticket: Ticket) {
        let Some(failures) = self.failures_of(ticket) else { return };
        let pause = failures.pause();
        let until = now + pause / 2 + self.jitter(pause / 2);
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, place, last) = (acquire.lock(), acquire.place(), acquire.is_final_attempt());
        let contends = self.locks[lock].line().is_contender(ticket);
        if last || self.falls_back(now, ticket) || self.is_ended_by_outage(now, ticket) {
            self.end_unreachable(now, ticket);
        } else if place == LocalPlace::Line && contends {
            self.locks[lock].line_mut().back_off(until);
            self.set_lock_timer(lock);
            self.begin_to_wait(now, ticket);
        } else {
            if let Some(acquire) = self.requests.acquire_mut(ticket) {
                acquire.retry_at(until);
            }
            self.begin_to_wait(now, ticket);
        }
    }

    /// Fails all requests of the line when the server has been out of reach for too long, unless they wait for a task of this client.
    pub(super) fn give_up_on_server(&mut self, now: Instant, lock: LockId) -> bool {
        let Some(since) = self.failing_since(lock) else { return false };
        if now < since + self.settings.unreachable_after {
            return false;
        }
        if self.waits_at_gate(now, lock) {
            return true;
        }
        let error = AcquireError::Unreachable(self.failures_in_words(lock));
        if let Some(contender) = self.locks[lock].line().contender()
            && !self.is_outcome_unknown(contender)
            && self.falls_back(now, contender)
        {
            self.degrade(now, contender);
            return true;
        }
        self.fail_line(now, lock, &error);
        true
    }

    /// See [`Session::poll_backoff`](crate::session::Session::poll_backoff).
    pub(crate) fn poll_backoff(&mut self, ticket: Ticket) -> Option<u32> {
        self.requests.acquire_mut(ticket)?.take_backoff_question()
    }

    /// How long a request whose kind has no notices waits before it asks again; `None` where it has asked often enough. If the caller's own
    /// back-off is to say it, this is how long it waits if that is never asked, because its future is not polled.
    fn next_poll(&mut self, ticket: Ticket) -> Option<Duration> {
        let random = self.rng.f64();
        let acquire = self.requests.acquire_mut(ticket)?;
        let polls = acquire.note_poll();
        match &acquire.wish().backoff {
            Some(backoff) if !backoff.is_custom() => backoff.pause(polls, random),
            custom => {
                let asks = custom.is_some();
                acquire.ask_backoff(asks);
                Backoff::default().pause(polls, random)
            }
        }
    }

    /// Whether a call that was to be sent at `since`, and was not, may be sent again at once. A request may do so a few times, so that a
    /// server that is out of reach is still found to be so; and more often while something else is being settled, as it is all the time
    /// where many futures are dropped: the server is not to blame for that, nor is the caller told that it is out of reach.
    pub(super) fn may_resend_now(&mut self, ticket: Ticket, since: Instant) -> bool {
        let most = if self.settlements.at_work_since(since) { 32 } else { 3 };
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return false };
        acquire.note_resend() <= most
    }

    /// A call of the request was certainly not applied: it is sent again after a pause. A try ends where that is of no use, because a new
    /// connection has led to a replica again.
    pub(super) fn retry_later(&mut self, now: Instant, ticket: Ticket, change: &Change, error: &LinkError) {
        let why = error.to_string();
        self.record_failure(now, ticket, &why, false);
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let failures = match acquire.place() {
            LocalPlace::Line => self.locks[acquire.lock()].failures_mut(),
            LocalPlace::Aside | LocalPlace::Entering(_) => acquire.failures_mut(),
        };
        let of_a_replica = matches!(error, LinkError::Refused(refusal) if refusal.is_of_a_replica());
        let found_again = of_a_replica && failures.note_demotion(&why, change.resets());
        if found_again && acquire.wish().patience == Patience::Try {
            self.end_unreachable(now, ticket);
        } else {
            self.back_off(now, ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::Step;
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::sync::Arc;
    use std::task::Waker;

    #[test]
    fn own_back_off_of_a_caller_is_asked_once_for_each_failure() {
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let pause = Duration::from_millis(10);
        let backoff = Some(Arc::new(Backoff::custom(move |_| Some(pause))));
        let wish = AcquireRequest { backoff, ..AcquireRequest::new(name, Kind::Spin, Duration::from_secs(30)) };
        let ticket = session.acquire(now, wish);
        let mut asked = Vec::new();
        for _ in 0..3 {
            assert_eq!(session.poll_backoff(ticket), None, "no failure has come");
            let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("it asks") };
            assert_eq!(session.poll_backoff(ticket), None, "it is under way");
            session.handle_called(now, flight, Ok(Reply::Array([0, 30_000, 0].map(Reply::Int).to_vec())));
            asked.push(session.poll_backoff(ticket));
            session.handle_backoff(now, ticket, Some(pause));
            now = now + pause;
            session.handle_timeout(now);
        }
        assert_eq!(asked, [Some(1), Some(2), Some(3)]);
    }
}
