//! The ends of requests: their outcomes, and those that wait until something given up is gone from the server.

use crate::command::Kind;
use crate::error::{AcquireError, ReleaseError};
use crate::owner::HoldNumber;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::{Acquire, AcquireOutcome, LocalPlace};
use crate::session::{AcquireRequest, Ticket};
use crate::time::Instant;
use bytes::Bytes;

impl Parts {
    /// Ends an acquire that has nothing on the server, or that has been granted.
    pub(super) fn finish_acquire(&mut self, now: Instant, ticket: Ticket, outcome: AcquireOutcome) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if !acquire.end(outcome) {
            return;
        }
        let (lock, place) = (acquire.lock(), acquire.place());
        if place == LocalPlace::Line {
            self.leave_line(now, ticket, lock);
        }
        self.wake(ticket);
    }

    pub(super) fn finish_release(&mut self, ticket: Ticket, outcome: Result<(), ReleaseError>) {
        if let Some(Request::Release(release)) = self.requests.get_mut(&ticket) {
            release.end(outcome);
            self.wake(ticket);
        }
    }

    /// Takes a request out of the line, because its owner holds the other half.
    pub(super) fn stand_beside(&mut self, now: Instant, ticket: Ticket, beside: Bytes) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        acquire.stand_beside(Some(beside));
        let lock = acquire.lock();
        self.locks[lock].forget_failures();
        self.leave_line(now, ticket, lock);
        self.wake(ticket);
    }

    fn ask_once_more(&mut self, now: Instant, ticket: Ticket) {
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.stop_awaiting();
        }
        self.set_request_timer(now, ticket);
        self.resend_now(now, ticket);
    }

    /// A request has found the lock busy, and would be told so. If this client was giving up something of the lock when it asked, that may
    /// be all that was in its way: it asks once more when that is gone. Says whether it does.
    pub(super) fn await_given_up(&mut self, now: Instant, ticket: Ticket) -> bool {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return false };
        if !acquire.crossed() {
            return false;
        }
        let same = self.locks.same_name(acquire.lock());
        let holds: Vec<HoldNumber> = same.flat_map(|lock| self.locks[lock].given_up()).collect();
        for number in &holds {
            if let Some(hold) = self.holds.known_mut(*number) {
                hold.wait(ticket);
            }
        }
        let Some(acquire) = self.requests.known_acquire(ticket) else { return false };
        // Its caller is not to wait for two commands more where the server is slow.
        let until = acquire.end_of_wish(self.settings.command_timeout).min(now) + self.settings.command_timeout / 2;
        let gone = holds.is_empty();
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.await_given_up(holds, until);
        }
        if gone {
            self.ask_once_more(now, ticket);
        } else {
            self.set_request_timer(now, ticket);
        }
        true
    }

    /// The hold that an acquire had begun is gone: its caller is told how it ended. Requests that waited for it to be gone ask again.
    pub(super) fn note_taken_back(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return };
        if acquire.is_taking_back() {
            if let Some(outcome) = acquire.note_taken_back(number) {
                self.finish_acquire(now, ticket, outcome);
            }
        } else if acquire.note_given_up_gone(number) {
            self.ask_once_more(now, ticket);
        }
    }

    /// The hold that an acquire had begun could not be taken back yet, and is left to the background: its caller is told how it ended, and
    /// that the server may still have it. A place in a queue is not a hold, so its outcome does not matter. Nor do
    /// preparations of a script that granted nothing make the outcome unknown.
    pub(super) fn stop_taking_back(&mut self, now: Instant, ticket: Ticket, why: &str) {
        let taking_back = self.requests.acquire_mut(ticket).and_then(Acquire::stop_taking_back);
        let Some(taking_back) = taking_back else { return };
        let is_place = |number: &HoldNumber| self.holds.get(*number).is_none_or(|hold| hold.is_queued());
        let places = taking_back.holds().iter().all(is_place);
        let unknown = |text: &str| {
            Err(AcquireError::OutcomeUnknown(format!("{text}; what that left behind is not taken back yet: {why}")))
        };
        let outcome = match taking_back.into_outcome() {
            Err(AcquireError::Refused(refusal)) if refusal.proves_no_grant() => Err(AcquireError::Refused(
                refusal
                    .adding("; the lock is not held, and taking back what the script may have prepared failed: ", why),
            )),
            Err(AcquireError::Refused(refusal)) => unknown(refusal.text()),
            Err(AcquireError::Unreachable(text)) => unknown(&text),
            Ok(None) | Err(AcquireError::WaitElapsed) if !places => unknown("an attempt was given up"),
            other => other,
        };
        self.finish_acquire(now, ticket, outcome);
    }

    /// A request is about to ask: notes whether this client is giving up something of the same lock.
    pub(super) fn note_crossing(&mut self, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let may_cross = acquire.may_cross();
        let crosses = may_cross && self.locks.same_name(acquire.lock()).any(|lock| self.locks[lock].has_given_up());
        if let Some(acquire) = self.requests.acquire_mut(ticket).filter(|_| may_cross) {
            acquire.note_crossing(crosses);
        }
    }

    /// Keeps in mind whether a hold was given up before it was granted, and may still be on the server.
    pub(super) fn note_given_up(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        self.locks[hold.lock()].note_given_up(number, hold.is_given_up());
    }

    /// Fails a release that has no outcome yet. `why` is the reason.
    pub(super) fn give_up_release(&mut self, ticket: Ticket, number: HoldNumber, why: &str) {
        // Another copy may be in flight.
        let unsure = self.holds.get(number).is_some_and(|hold| hold.is_perhaps_lowered() || hold.has_change());
        let why = why.to_owned();
        let error = if unsure { ReleaseError::OutcomeUnknown(why) } else { ReleaseError::Unreachable(why) };
        self.finish_release(ticket, Err(error));
        if let Some(hold) = self.holds.get_mut(number) {
            hold.stop_waiting(ticket);
        }
    }

    /// The hold of the other half of a read-write lock beside which a request that waits may come in by now.
    pub(super) fn own_other_half(&self, acquire: &Acquire) -> Option<Bytes> {
        let beside = self.look_at_siblings(acquire.lock(), acquire.wish()).ok().flatten();
        beside.filter(|beside| !acquire.was_refused_beside(beside))
    }

    /// The meaning of other locks of the same name for a wish: the hold beside which it may be taken, or why it must be refused.
    ///
    /// The hashes of most kinds look alike on the server, so only here can be seen that a name is used for two of them.
    pub(super) fn look_at_siblings(&self, lock: LockId, wish: &AcquireRequest) -> Result<Option<Bytes>, AcquireError> {
        let mut beside = None;
        for at in self.locks.same_name(lock).filter(|at| *at != lock) {
            let other = &self.locks[at];
            let of_owner = wish.owner.and_then(|owner| self.owners.hold(at, owner));
            let own = of_owner.or(wish.beside).and_then(|number| self.holds.get(number));
            let own = own.filter(|hold| hold.lock() == at && hold.is_live());
            match (other.kind(), wish.kind) {
                (Kind::Write, Kind::Read) => beside = own.map(|hold| hold.field()).or(beside),
                (Kind::Read, Kind::Write) if own.is_some() => return Err(AcquireError::UpgradeNotSupported),
                (Kind::Read, Kind::Write) => {}
                (kind, _) if other.is_held() || other.line().contender().is_some() => {
                    return Err(AcquireError::KeyConflict(kind.protocol().word().to_owned()));
                }
                _ => {}
            }
        }
        Ok(beside)
    }
}
