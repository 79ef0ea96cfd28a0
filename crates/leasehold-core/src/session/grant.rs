//! The reply to an acquire: a grant, its delivery to the future, and the end of the request.

use crate::call::Replicas;
use crate::command::fair::Standing;
use crate::command::{Acquired, Kind, WaitPolicy};
use crate::error::{AcquireError, ReleaseError};
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::{DecodeError, Reply};
use crate::session::hold::Change;
use crate::session::line::End;
use crate::session::lock::{Anomaly, LockId};
use crate::session::offline::RESTORE;
use crate::session::request::{Acquire, AcquireOutcome, LocalPlace, Request};
use crate::session::{AcquireRequest, Event, Patience, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

impl Session {
    /// Takes the outcome of a first acquire.
    pub(super) fn handle_first_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) {
        let Some((change, outcome)) = self.end_raise(now, ticket, number, result) else { return };
        let acquired = match outcome {
            Ok(acquired) => acquired,
            Err(error) => return self.first_failed(now, ticket, number, &change, error),
        };
        self.note_time(change.sent_at, acquired.time());
        match acquired {
            Acquired::Held { left, token, in_all, .. } => {
                self.handle_first_grant(now, ticket, number, &change, left, token, in_all);
            }
            Acquired::Busy { left, .. } => {
                self.forget_begun(now, ticket, number);
                self.note_endless(ticket, left);
                self.busy(now, ticket, left);
            }
            Acquired::Unset { .. } => {
                self.forget_begun(now, ticket, number);
                self.note_anomaly(ticket, Some(Anomaly::Unset));
                self.busy(now, ticket, None);
            }
            Acquired::TooLate { .. } => {
                self.forget_begun(now, ticket, number);
                // Never resend a last attempt: its time is up.
                let was_last = self.requests.acquire(ticket).is_some_and(|acquire| acquire.is_final_attempt);
                if !was_last && self.may_resend_now(ticket, change.sent_at) {
                    self.resend_now(now, ticket);
                    return;
                }
                self.try_later(now, ticket, "the server received the command too late");
            }
            Acquired::Placed { left, time, moved, head, foreign } => {
                self.placed(now, ticket, number, moved, Standing { left, time, head, foreign });
            }
            Acquired::Withdrawn => {
                self.forget_begun(now, ticket, number);
                self.try_later(now, ticket, "the server had a withdrawal of this hold");
            }
            Acquired::Kind(kind) => {
                self.forget_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::KeyConflict(kind));
            }
            Acquired::UpgradeNotSupported => {
                self.forget_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::UpgradeNotSupported);
            }
            Acquired::ExceedsCapacity { capacity } => {
                self.forget_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::ExceedsCapacity { capacity });
            }
            // Neither can answer a first acquire of a hold that was never granted: the server is not what we think it is.
            Acquired::Mismatch | Acquired::Lost => {
                self.fail_acquire(now, ticket, AcquireError::OutcomeUnknown("the hold count is not ours".to_owned()));
            }
        }
    }

    /// The server did not do its part, and has nothing of the request: it asks again after a pause.
    fn try_later(&mut self, now: Instant, ticket: Ticket, why: &str) {
        self.record_failure(now, ticket, why, false);
        self.back_off(now, ticket);
    }

    /// The server refused a first acquire, or it was not sent: the request ends, or it is sent again.
    fn first_failed(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, change: &Change, error: LinkError) {
        match error {
            LinkError::Refused(error) if !error.proves_nothing_done() || !error.is_transient() => {
                // The refusal speaks for this copy only.
                let unsure = self.requests.acquire(ticket).is_some_and(|acquire| acquire.failures.is_outcome_unknown());
                let told = if unsure {
                    AcquireError::OutcomeUnknown(error.text().to_owned())
                } else {
                    AcquireError::Refused(error.clone())
                };
                if !error.proves_nothing_done() {
                    self.take_back_refused(now, ticket, number, told);
                    return;
                }
                if error.is_out_of_memory() {
                    self.forget_refused(now, ticket, number);
                } else {
                    self.forget_first(now, ticket, number);
                }
                self.fail_acquire(now, ticket, told);
            }
            error => {
                if matches!(error, LinkError::Refused(_)) {
                    self.forget_refused(now, ticket, number);
                } else {
                    self.forget_first(now, ticket, number);
                }
                if error.is_worth_going_again() && self.may_resend_now(ticket, change.sent_at) {
                    self.resend_now(now, ticket);
                    return;
                }
                self.retry_later(now, ticket, change, &error);
            }
        }
    }
}

// ===== The first grant =====
//
// The first grant of a hold, and its effect on the owner's other requests and the next waiter.

impl Session {
    /// Handles the server's grant. Holds that the grant excludes are lost.
    #[expect(clippy::too_many_arguments, reason = "what the reply says, and what it is about")]
    pub(super) fn handle_first_grant(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        change: &Change,
        left: Duration,
        token: Option<u64>,
        in_all: Option<u64>,
    ) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.note_grant(token);
        if let Some(error) = change.shortfall() {
            self.take_back(now, ticket, number, error);
            return;
        }
        if self.is_held_without_server(number)
            && self.requests.acquire(ticket).is_some_and(|acquire| acquire.beside().is_none())
        {
            self.give_grant_back(now, ticket, number);
            return;
        }
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.confirm_grant(now, change, left);
        let beside = self.requests.acquire(ticket).and_then(|acquire| acquire.beside().cloned());
        self.first_grant(now, ticket, number, left);
        self.lose_what_a_grant_excludes(now, number, change.sent_at, beside.as_ref());
        self.look_where_permits_are_missing(now, number, change.sent_at, in_all);
    }

    /// Passes the grant to the request, unless its deadline has passed.
    fn first_grant(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, left: Duration) {
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let Some(hold) = self.holds.known_mut(number) else { return };
        acquire.forget_hold();
        hold.raising = None;
        if hold.has_passed(now) {
            self.granted_too_late(now, ticket, number);
            return;
        }
        let renewed = acquire.wish.renewed;
        hold.grant(renewed);
        let granted = hold.granted(number, renewed);
        let (lock, owner, place, permits) = (hold.lock, hold.owner, acquire.place, hold.permits());
        let would_linger = acquire.wish.may_linger() && self.locks[lock].protocol().is_asked_for();
        let policy = self.locks[lock].wait_policy();
        if policy == WaitPolicy::Broadcast {
            acquire.end(Ok(Some(granted)));
            self.gate_opens(now, ticket, number, lock);
            return;
        }
        let until = acquire.read_until(now, policy.turn(&self.settings));
        acquire.grant(granted, until);
        self.locks[lock].add_held(permits);
        self.locks[lock].last_granted = Some(number);
        if would_linger {
            self.listen_for_others(now, lock);
        }
        // A request of another client may have arrived, or been missed, before this reply.
        let is_wanted = self.contended.is_contended(now, self.locks[lock].name.key());
        let may_linger = self.holds.get(number).is_some_and(|hold| hold.may_linger());
        if may_linger && (is_wanted || !self.subscriptions.hears(lock)) {
            self.stop_lingering(now, number);
        }
        self.locks[lock].note_anomaly(None, true);
        self.leave_queue(ticket, lock);
        self.schedule_renewal(now, number);
        self.set_hold_timer(number);
        if let Some(owner) = owner {
            self.owners.add_hold(lock, owner, number);
            self.admit_owner(now, lock, owner, number);
            self.admit_readers(now, lock, owner);
        }
        if place == LocalPlace::Line {
            self.locks[lock].forget_failures();
            self.contender_granted(now, ticket, lock, left);
        }
        self.set_request_timer(now, ticket);
    }

    /// Releases a grant whose deadline has passed. A request without another attempt fails after the release.
    fn granted_too_late(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let why = "the server's reply took longer than the lease";
        if self.requests.acquire(ticket).is_some_and(|acquire| {
            acquire.is_final_attempt || acquire.end_of_wish(self.settings.command_timeout) <= now
        }) {
            self.take_back(now, ticket, number, AcquireError::Unreachable(why.to_owned()));
            return;
        }
        if let Some(hold) = self.holds.known_mut(number) {
            hold.clean_up.by_background = true;
        }
        self.reconcile(now, number);
        self.record_failure(now, ticket, why, false);
        self.back_off(now, ticket);
    }

    /// The gate is open for all, and there is nothing to hold.
    fn gate_opens(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, lock: LockId) {
        let granted = self.requests.acquire_mut(ticket).and_then(|acquire| acquire.outcome().cloned());
        if let Some(hold) = self.holds.known_mut(number) {
            hold.forget_grant();
        }
        self.reconcile(now, number);
        let waiting: Vec<Ticket> = self.locks[lock].line().queue.iter().collect();
        if let Some(granted) = granted {
            for other in waiting {
                self.finish_acquire(now, other, granted.clone());
            }
        }
        self.locks[lock].forget_failures();
        self.leave_queue(ticket, lock);
        self.contender_granted(now, ticket, lock, Duration::ZERO);
    }
}

// ===== The end of a request =====
//
// The ends of requests: their outcomes, and those that wait until something given up is gone from the server.

impl Session {
    /// Ends an acquire that has nothing on the server, or that has been granted.
    pub(super) fn finish_acquire(&mut self, now: Instant, ticket: Ticket, outcome: AcquireOutcome) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if !acquire.end(outcome) {
            return;
        }
        let (lock, place) = (acquire.lock, acquire.place);
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
        let lock = acquire.lock;
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
        let same = self.locks.same_name(acquire.lock);
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
        let places = taking_back.holds.iter().all(is_place);
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
        let crosses = may_cross && self.locks.same_name(acquire.lock).any(|lock| self.locks[lock].has_given_up());
        if let Some(acquire) = self.requests.acquire_mut(ticket).filter(|_| may_cross) {
            acquire.note_crossing(crosses);
        }
    }

    /// Keeps in mind whether a hold was given up before it was granted, and may still be on the server.
    pub(super) fn note_given_up(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        self.locks[hold.lock].note_given_up(number, hold.is_given_up());
    }

    /// Fails a release that has no outcome yet. `why` is the reason.
    pub(super) fn give_up_release(&mut self, ticket: Ticket, number: HoldNumber, why: &str) {
        // Another copy may be in flight.
        let unsure = self.holds.get(number).is_some_and(|hold| hold.clean_up.is_perhaps_lowered || hold.has_change());
        let why = why.to_owned();
        let error = if unsure { ReleaseError::OutcomeUnknown(why) } else { ReleaseError::Unreachable(why) };
        self.finish_release(ticket, Err(error));
        if let Some(hold) = self.holds.get_mut(number) {
            hold.stop_waiting(ticket);
        }
    }

    /// The hold of the other half of a read-write lock beside which a request that waits may come in by now.
    pub(super) fn own_other_half(&self, acquire: &Acquire) -> Option<Bytes> {
        let beside = self.look_at_siblings(acquire.lock, &acquire.wish).ok().flatten();
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
            let own = own.filter(|hold| hold.lock == at && hold.is_live());
            match (other.kind, wish.kind) {
                (Kind::Write, Kind::Read) => beside = own.map(|hold| hold.field()).or(beside),
                (Kind::Read, Kind::Write) if own.is_some() => return Err(AcquireError::UpgradeNotSupported),
                (Kind::Read, Kind::Write) => {}
                (kind, _) if other.held > 0 || other.line().contender.is_some() => {
                    return Err(AcquireError::KeyConflict(kind.protocol().word().to_owned()));
                }
                _ => {}
            }
        }
        Ok(beside)
    }
}

// ===== Grants that no future reads =====
//
// Unread grants: the session drops a grant that its future does not poll for in time.

impl Session {
    /// Drops an unread grant whose hold has ended, before a poll would return it.
    pub(super) fn check_unread(&mut self, now: Instant, ticket: Ticket) {
        let unread = self.requests.acquire(ticket).and_then(|acquire| acquire.unread());
        let Some(granted) = unread else { return };
        let (number, has_ended) = (granted.hold, granted.cell.ended(now).is_some());
        if !has_ended {
            return;
        }
        if self.holds.get(number).is_some_and(|hold| hold.is_live()) {
            self.lose_by_deadline(now, number);
        }
        self.take_unread_back(now, ticket);
    }

    /// Takes an unread grant from a request at its deadline. The request waits again, behind requests whose futures are polled. It keeps a grant
    /// that the server has not confirmed, because it would get the same grant again.
    pub(super) fn unread_too_long(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if acquire.unread().is_some_and(|granted| granted.cell.is_degraded()) {
            acquire.keep_unread(now + RESTORE);
            return self.set_request_timer(now, ticket);
        }
        acquire.note_unpolled();
        let name = self.locks[acquire.lock].name.clone();
        self.out.tell(Event::UnpolledTurn { name });
        self.take_unread_back(now, ticket);
    }

    /// Drops the unread grant's guard, and returns the request to its place.
    fn take_unread_back(&mut self, now: Instant, ticket: Ticket) {
        let granted = self.requests.known_acquire_mut(ticket).and_then(|acquire| acquire.take_unread());
        let Some(granted) = granted else { return };
        self.drop_guard(now, granted.hold, granted.renewed);
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, owner) = (acquire.lock, acquire.wish.owner);
        if matches!(acquire.place, LocalPlace::Entering(_)) || acquire.beside().is_some() {
            // In the line the request would wait for its own owner.
            self.begin_to_wait(now, ticket);
        } else if let Some(number) = owner.and_then(|owner| self.owners.hold(lock, owner)) {
            // Another request of this owner has re-entered the hold.
            if let Some(acquire) = self.requests.known_acquire_mut(ticket) {
                acquire.enter(number);
            }
            self.begin_to_wait(now, ticket);
        } else {
            self.join_line_at(now, ticket, End::Front);
        }
    }
}

// ===== Requests that give up =====
//
// Withdraws requests before their grant: places in queues, marks of writers, and acquires with an unknown outcome.
//
// A request whose wait elapsed ends after its withdrawal from the server. The background withdraws the hold of a dropped future. If another
// request of this client finds the lock busy during a withdrawal, it retries once afterwards.

impl Session {
    /// Withdraws the count that the request was raising. If a call is in flight, the background reverts its effect after the reply.
    pub(super) fn abandon_hold(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        self.keep_until_queue_expires(now, number);
        let Some(hold) = self.holds.get_mut(number) else { return };
        hold.stop_waiting(ticket);
        if hold.stop_raising(ticket) {
            hold.clean_up.by_background = true;
        }
        self.reconcile(now, number);
    }

    /// Ends an acquire that found the lock busy until its patience ended. If it left a place or a mark on the server, it first waits for the
    /// withdrawal, so that the next request does not meet them. It ends one command timeout after its patience at the latest.
    pub(super) fn end_busy(&mut self, now: Instant, ticket: Ticket) {
        let more = self.settings.command_timeout;
        let Some(acquire) = self.requests.acquire(ticket).filter(|acquire| !acquire.has_ended()) else { return };
        let outcome = if acquire.wish.patience == Patience::Try { Ok(None) } else { Err(AcquireError::WaitElapsed) };
        let (lock, begun, until) =
            (acquire.lock, acquire.target(), acquire.end_of_wish(self.settings.command_timeout).min(now) + more);
        self.leave_line(now, ticket, lock);
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
            acquire.stand_aside();
        }
        if let Some(number) = begun {
            self.abandon_hold(now, ticket, number);
        }
        let own = |number: &HoldNumber| self.holds.get(*number).is_some_and(|hold| hold.was_begun_by(ticket));
        let holds: Vec<HoldNumber> = self.locks[lock].given_up().filter(own).collect();
        if holds.is_empty() {
            self.finish_acquire(now, ticket, outcome);
            return;
        }
        for hold in &holds {
            if let Some(hold) = self.holds.known_mut(*hold) {
                hold.wait(ticket);
            }
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.take_back(outcome, holds, until);
        }
        if until <= now {
            self.stop_taking_back(now, ticket, "there was no time left");
        }
        self.set_request_timer(now, ticket);
    }

    /// Fails an acquire, and withdraws its hold.
    pub(super) fn fail_acquire(&mut self, now: Instant, ticket: Ticket, error: AcquireError) {
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return };
        let begun = acquire.forget_hold().or_else(|| acquire.entering());
        self.finish_acquire(now, ticket, Err(error));
        if let Some(number) = begun {
            self.abandon_hold(now, ticket, number);
        }
    }

    /// Releases a grant that must not reach the caller, then fails the request with `error`. The request waits for the release for one command
    /// timeout at most. The background continues the release.
    pub(super) fn take_back(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, error: AcquireError) {
        let until = now + self.settings.command_timeout;
        if let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) {
            acquire.take_back(Err(error), vec![number], until);
        }
        if let Some(hold) = self.holds.known_mut(number) {
            hold.raising = None;
            hold.clean_up.by_background = true;
            hold.wait(ticket);
        }
        self.set_request_timer(now, ticket);
        self.reconcile(now, number);
    }

    /// Releases the hold after the script of an acquire failed. The script may have written before its error.
    pub(super) fn take_back_refused(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, error: AcquireError) {
        self.keep_until_queue_expires(now, number);
        self.take_back(now, ticket, number, error);
    }

    /// Forgets the request's hold: the server has no trace of it.
    pub(super) fn forget_begun(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
            acquire.failures.set_outcome_unknown(false);
        }
        let pause = self.settings.command_timeout * 2;
        if let Some(hold) = self.holds.known_mut(number) {
            hold.count.on_server = 0;
            hold.raising = None;
            if hold.clean_up.is_unproven {
                hold.expect_late_copies(now + pause);
            }
        }
        self.reconcile(now, number);
    }

    /// Forgets the hold of a call that the server did not apply, unless an earlier call may have left a hold or a place.
    pub(super) fn forget_first(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let unsure = self.requests.acquire(ticket).is_some_and(|acquire| acquire.failures.is_outcome_unknown());
        let placed = self.holds.get(number).is_some_and(|hold| hold.is_queued());
        if !unsure && !placed {
            self.forget_begun(now, ticket, number);
        }
    }

    /// Gives up the hold after a temporary refusal. The server does not record the refusal, so it may grant a late copy of the call. For kinds
    /// without a lease such a grant would stay, so the background releases the hold as if granted.
    pub(super) fn forget_refused(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let protocol = self.protocol_of(number);
        let unsure = self.requests.acquire(ticket).is_some_and(|acquire| acquire.failures.is_outcome_unknown());
        if unsure || protocol.renewal().is_some() || protocol.wait_policy() == WaitPolicy::Broadcast {
            self.forget_first(now, ticket, number);
            return;
        }
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
        }
        if let Some(hold) = self.holds.known_mut(number) {
            hold.raising = None;
            hold.expect_late_copies(now);
        }
        self.reconcile(now, number);
    }
}

// ===== Acknowledgements of replicas =====
//
// Conditions of replicas: how their answers are read, and how two conditions are joined.
//
// The server answers such a call twice over: what the script did, and how many replicas have it. The first without enough of the
// second is a state of the primary alone, which a failover may undo. It never puts a deadline off, and an acquire that ends so is
// taken back before its caller is told.

/// The script's reply, and how many replicas acknowledged it.
pub(super) fn split_acknowledged(reply: &Reply) -> Result<(&Reply, u32), DecodeError> {
    let [script, acknowledged] = reply.array()? else {
        return Err(DecodeError::new("an array of two", reply));
    };
    let count = u32::try_from(acknowledged.int()?);
    Ok((script, count.map_err(|_| DecodeError::new("a number of replicas", acknowledged))?))
}

/// The condition that satisfies both of the given ones.
pub(super) fn both_conditions(one: Option<Replicas>, other: Option<Replicas>) -> Option<Replicas> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
