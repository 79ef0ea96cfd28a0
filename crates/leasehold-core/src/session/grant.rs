//! The reply to a first acquire: a grant and its delivery to the future, or the end of the request.
//!
//! A request whose wait elapsed ends after its withdrawal from the server. The background withdraws the hold of a dropped future. If another
//! request of this client finds the lock busy during a withdrawal, it retries once afterwards.

use crate::call::Replicas;
use crate::command::fair::Standing;
use crate::command::{Acquired, Kind, WaitPolicy};
use crate::error::AcquireError;
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::{DecodeError, Reply};
use crate::session::calls::CallResult;
use crate::session::hold::{Change, HoldState};
use crate::session::line::End;
use crate::session::lock::{Anomaly, LockId};
use crate::session::offline::RESTORE_INTERVAL;
use crate::session::request::{Acquire, AcquireOutcome, Awaited, Failures, LastRetry, Route, Stage};
use crate::session::{AcquireRequest, Event, Granted, Patience, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

impl Session {
    pub(super) fn handle_first_reply(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, result: CallResult) {
        let Some((change, outcome)) = self.end_raise(now, ticket, number, result) else { return };
        let acquired = match outcome {
            Ok(acquired) => acquired,
            Err(error) => return self.first_failed(now, ticket, number, &change, error),
        };
        self.note_time(now, change.sent_at, acquired.time());
        let may_be_on_server =
            matches!(acquired, Acquired::Held { .. } | Acquired::Placed { .. } | Acquired::Mismatch | Acquired::Lost);
        if !may_be_on_server {
            self.discard_hold(now, ticket, number);
        }
        match acquired {
            Acquired::Held { left, token, in_all, .. } => {
                let hold = &mut self.holds[number];
                hold.note_grant(token);
                if let Some(error) = change.shortfall() {
                    return self.withdraw(now, ticket, number, error);
                }
                let acquire = &self.requests[ticket];
                let beside = acquire.beside().cloned();
                let is_shut = self.is_gated(acquire.lock) && !self.keepers(acquire.lock).is_empty();
                if is_shut && !self.stands_beside(acquire) {
                    return self.return_grant(now, ticket, number);
                }
                let hold = &mut self.holds[number];
                hold.confirm_grant(now, change.sent_at, left, change.acknowledged);
                self.deliver_grant(now, ticket, number, left);
                self.lose_excluded(now, number, change.sent_at, beside.as_ref());
                self.verify_missing_permits(now, number, change.sent_at, in_all);
            }
            Acquired::Busy { left, .. } => {
                self.note_anomaly(ticket, left.is_none().then_some(Anomaly::Endless));
                self.busy(now, ticket, left);
            }
            Acquired::Unset { .. } => {
                self.note_anomaly(ticket, Some(Anomaly::Unset));
                self.busy(now, ticket, None);
            }
            Acquired::TooLate { .. } => {
                // The time of a final attempt is up, unless the server refused it because the client did not know the server's time.
                let is_up = self.requests[ticket].is_final_attempt && !self.was_time_unknown(change.sent_at);
                if !is_up && self.may_resend_now(ticket, change.sent_at) {
                    self.resend_now(now, ticket);
                } else {
                    self.try_later(now, ticket, "the server received the command too late");
                }
            }
            Acquired::Placed { left, time, moved, head, foreign } => {
                self.placed(now, ticket, number, moved, Standing { left, time, head, foreign });
            }
            Acquired::Withdrawn => self.try_later(now, ticket, "the server had a withdrawal of this hold"),
            Acquired::Kind(kind) => self.fail_acquire(now, ticket, AcquireError::KeyConflict(kind)),
            Acquired::UpgradeNotSupported => self.fail_acquire(now, ticket, AcquireError::UpgradeNotSupported),
            Acquired::ExceedsCapacity { capacity } => {
                self.fail_acquire(now, ticket, AcquireError::ExceedsCapacity { capacity });
            }
            // A correct server never sends these replies to a first acquire.
            Acquired::Mismatch | Acquired::Lost => {
                self.fail_acquire(now, ticket, AcquireError::OutcomeUnknown("the hold count is not ours".to_owned()));
            }
        }
    }

    /// The server refused a first acquire, or the acquire was not sent: the request ends or retries.
    fn first_failed(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, change: &Change, error: LinkError) {
        let refusal = match error {
            LinkError::Refused(error) if !error.proves_nothing_done() || !error.is_transient() => error,
            error => {
                self.discard_failed(now, ticket, number, matches!(error, LinkError::Refused(_)));
                return self.retry_unsent(now, ticket, change, &error);
            }
        };
        // The refusal is about this copy of the command only.
        let unsure = self.requests[ticket].failures.is_outcome_unknown();
        let error = if unsure {
            AcquireError::OutcomeUnknown(refusal.text().to_owned())
        } else {
            AcquireError::Refused(refusal.clone())
        };
        if refusal.proves_nothing_done() {
            self.discard_failed(now, ticket, number, refusal.is_out_of_memory());
            self.fail_acquire(now, ticket, error);
        } else {
            self.keep_until_queue_expires(now, number);
            self.withdraw(now, ticket, number, error);
        }
    }

    /// Grants the hold to the request. If the hold's deadline has passed, the hold is released; a request without another attempt fails.
    fn deliver_grant(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, left: Duration) {
        let (acquire, hold) = (&mut self.requests[ticket], &mut self.holds[number]);
        acquire.hold = None;
        hold.raising = None;
        if hold.has_passed(now) {
            let why = "the server's reply took longer than the lease";
            if self.is_last_attempt(now, ticket) {
                return self.withdraw(now, ticket, number, AcquireError::Unreachable(why.to_owned()));
            }
            self.holds[number].clean_up.by_background = true;
            self.reconcile(now, number);
            return self.try_later(now, ticket, why);
        }
        let renewed = acquire.request.renewed;
        hold.grant(renewed);
        let granted = hold.granted(number, renewed);
        let (lock, permits) = (hold.lock, hold.permits());
        let would_linger = acquire.request.may_linger() && self.locks[lock].protocol().may_be_handed_on();
        let policy = self.locks[lock].wait_policy();
        if policy == WaitPolicy::Broadcast {
            acquire.end(Ok(Some(granted.clone())));
            return self.broadcast_grant(now, ticket, number, &granted);
        }
        acquire.grant(now, granted, policy.turn(&self.settings));
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
        self.note_anomaly(ticket, None);
        // The server may grant out of turn. The request leaves the queue before another request meets it there.
        self.locks[lock].line.queue.remove(ticket);
        self.schedule_renewal(now, number);
        self.finish_grant(now, ticket, number, left);
    }

    /// The request has the hold, of whose lease `left` remains: its owner's other requests re-enter the hold, and the line goes on.
    pub(super) fn finish_grant(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, left: Duration) {
        self.set_hold_timer(number);
        let hold = &self.holds[number];
        let (lock, on_server) = (hold.lock, !hold.state.is_degraded());
        if let Some(owner) = hold.owner {
            self.owners.change(lock, owner, |owned| owned.holds.push(number));
            self.admit_owner(now, lock, owner, number);
            if on_server {
                self.admit_readers(now, lock, owner);
            }
        }
        if self.requests[ticket].route == Route::Queued {
            self.locks[lock].forget_failures();
            self.contender_granted(now, ticket, lock, left);
        }
        self.set_request_timer(now, ticket);
    }

    /// Wakes every waiter of a latch. A latch has nothing to hold.
    fn broadcast_grant(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, granted: &Granted) {
        let hold = &mut self.holds[number];
        let lock = hold.lock;
        hold.state = HoldState::Asking;
        (hold.count.on_server, hold.count.wanted, hold.count.renewing) = (0, 0, 0);
        self.reconcile(now, number);
        let waiting: Vec<Ticket> = self.locks[lock].line.queue.iter().collect();
        for other in waiting {
            self.finish_acquire(now, other, Ok(Some(granted.clone())));
        }
        self.locks[lock].forget_failures();
        self.locks[lock].line.queue.remove(ticket);
        self.contender_granted(now, ticket, lock, Duration::ZERO);
    }

    /// Moves a request out of the line, because its owner holds the other half.
    pub(super) fn stand_beside(&mut self, now: Instant, ticket: Ticket, beside: Bytes) {
        let acquire = &mut self.requests[ticket];
        acquire.stand_beside(Some(beside));
        let lock = acquire.lock;
        self.locks[lock].forget_failures();
        self.leave_line(now, ticket);
        self.wake(ticket);
    }

    /// The owner's hold of the other half, beside which a waiting request may now acquire.
    pub(super) fn own_other_half(&self, acquire: &Acquire) -> Option<Bytes> {
        let beside = self.look_at_siblings(acquire.lock, &acquire.request).ok().flatten();
        beside.filter(|beside| !acquire.was_refused_beside(beside))
    }

    /// Whether the request asks beside its owner's hold of the other half, past the tasks of this client: until that hold ends.
    pub(super) fn stands_beside(&self, acquire: &Acquire) -> bool {
        acquire.beside().is_some_and(|beside| self.own_other_half(acquire).as_ref() == Some(beside))
    }

    /// Checks the other locks of the same name. Returns the hold beside which the request may acquire, or why the request must fail.
    ///
    /// Only the client can see that a name is used for two kinds: their hashes look alike on the server.
    pub(super) fn look_at_siblings(
        &self,
        lock: LockId,
        request: &AcquireRequest,
    ) -> Result<Option<Bytes>, AcquireError> {
        let mut beside = None;
        for at in self.locks.same_name(lock).filter(|at| *at != lock) {
            let other = &self.locks[at];
            let of_owner = request.owner.and_then(|owner| self.owners.hold(at, owner));
            let own = of_owner.or(request.beside).and_then(|number| self.holds.get(number));
            let own = own.filter(|hold| hold.lock == at && hold.is_live());
            match (other.kind, request.kind) {
                (Kind::Write, Kind::Read) => beside = own.map(|hold| hold.cell.field()).or(beside),
                (Kind::Read, Kind::Write) if own.is_some() => return Err(AcquireError::UpgradeNotSupported),
                (Kind::Read, Kind::Write) => {}
                (kind, _) if other.permits > 0 || other.line.contender.is_some() => {
                    return Err(AcquireError::KeyConflict(kind.protocol().kind_name().to_owned()));
                }
                _ => {}
            }
        }
        Ok(beside)
    }
}

/// Unread grants: the session drops a grant that the future does not read in time.
impl Session {
    /// Drops an unread grant whose hold has ended, before a poll would return it.
    pub(super) fn check_unread(&mut self, now: Instant, ticket: Ticket) {
        let unread = self.requests.acquire(ticket).and_then(Acquire::unread);
        let Some(granted) = unread.filter(|granted| granted.cell.ended(now).is_some()) else { return };
        let number = granted.hold;
        if self.holds.get(number).is_some_and(|hold| hold.is_live()) {
            self.lose_by_deadline(now, number);
        }
        self.revoke_unread_grant(now, ticket);
    }

    /// Takes an unread grant from a request at its deadline. The request waits again, behind requests whose futures are polled. It keeps a grant
    /// that the server has not confirmed, because it would get the same grant again.
    pub(super) fn unread_too_long(&mut self, now: Instant, ticket: Ticket) {
        let acquire = &mut self.requests[ticket];
        if let Stage::Granted(granted, until) = &mut acquire.stage
            && granted.cell.is_degraded()
        {
            *until = now + RESTORE_INTERVAL;
            return self.set_request_timer(now, ticket);
        }
        acquire.unpolled = true;
        self.out.emit(Event::UnpolledTurn(self.locks[acquire.lock].name.clone()));
        self.revoke_unread_grant(now, ticket);
    }

    /// Drops the unread grant's guard, and returns the request to its place.
    fn revoke_unread_grant(&mut self, now: Instant, ticket: Ticket) {
        let acquire = &mut self.requests[ticket];
        let Some(granted) = acquire.take_granted() else { return };
        acquire.missed_grants = acquire.missed_grants.saturating_add(1);
        acquire.is_final_attempt = false;
        // The request continues as if no call had failed.
        acquire.failures = Failures::default();
        self.drop_guard(now, granted.hold, granted.renewed);
        let acquire = &mut self.requests[ticket];
        if acquire.entering().is_none() && acquire.beside().is_none() {
            let held = acquire.request.owner.and_then(|owner| self.owners.hold(acquire.lock, owner));
            let Some(number) = held else { return self.join_line(now, ticket, End::Front) };
            // Another request of this owner has re-entered the hold.
            acquire.route = Route::Reentering(number);
        }
        // In the line the request would wait for its own owner.
        self.begin_to_wait(now, ticket);
    }
}

/// The ends of requests.
impl Session {
    /// Ends an acquire that left nothing on the server, or that was granted.
    pub(super) fn finish_acquire(&mut self, now: Instant, ticket: Ticket, outcome: AcquireOutcome) {
        if self.requests[ticket].end(outcome) {
            self.leave_line(now, ticket);
            self.wake(ticket);
        }
    }

    /// Fails an acquire, and withdraws its hold.
    pub(super) fn fail_acquire(&mut self, now: Instant, ticket: Ticket, error: AcquireError) {
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return };
        let begun = acquire.target();
        acquire.hold = None;
        self.finish_acquire(now, ticket, Err(error));
        if let Some(number) = begun {
            self.abandon_hold(now, ticket, number);
        }
    }

    /// Ends an acquire that found the lock busy until its patience ended. It first waits for the withdrawal of its place or mark on the
    /// server, so that the next request does not meet them. It ends one command timeout after its patience at the latest.
    pub(super) fn end_busy(&mut self, now: Instant, ticket: Ticket) {
        let timeout = self.settings.command_timeout;
        let Some(acquire) = self.requests.acquire(ticket).filter(|acquire| !acquire.has_ended()) else { return };
        let outcome = if acquire.request.patience == Patience::Try { Ok(None) } else { Err(AcquireError::WaitElapsed) };
        let (lock, begun, until) = (acquire.lock, acquire.target(), acquire.wait_deadline(timeout).min(now) + timeout);
        self.leave_line(now, ticket);
        let acquire = &mut self.requests[ticket];
        acquire.hold = None;
        acquire.route = Route::Direct;
        if let Some(number) = begun {
            self.abandon_hold(now, ticket, number);
        }
        let own = |number: &HoldNumber| self.holds.get(*number).is_some_and(|hold| hold.begun_by == ticket);
        let holds: Vec<HoldNumber> = self.locks[lock].line.given_up.iter().copied().filter(own).collect();
        if holds.is_empty() {
            return self.finish_acquire(now, ticket, outcome);
        }
        self.await_holds(now, ticket, holds, until, Some(outcome));
        if until <= now {
            self.stop_withdrawing(now, ticket, "there was no time left");
        }
    }

    /// Releases a grant that must not reach the caller, then fails the request with `error`. The request waits for the release for one command
    /// timeout at most. The background continues the release.
    pub(super) fn withdraw(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, error: AcquireError) {
        let until = now + self.settings.command_timeout;
        self.requests[ticket].hold = None;
        let hold = &mut self.holds[number];
        hold.raising = None;
        hold.clean_up.by_background = true;
        self.await_holds(now, ticket, vec![number], until, Some(Err(error)));
        self.reconcile(now, number);
    }

    /// Waits for these holds to be gone, until `until`. Then the request ends with this outcome, or retries.
    fn await_holds(
        &mut self,
        now: Instant,
        ticket: Ticket,
        holds: Vec<HoldNumber>,
        until: Instant,
        outcome: Option<AcquireOutcome>,
    ) {
        for number in &holds {
            self.holds[*number].wait(ticket);
        }
        self.requests[ticket].stage = Stage::Awaiting(Box::new(Awaited { holds, until, outcome }));
        self.set_request_timer(now, ticket);
    }

    /// A hold that acquires waited for is gone: its own acquire reports its outcome, and other requests retry.
    pub(super) fn note_withdrawn(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let stage = self.requests.acquire_mut(ticket).map(|acquire| &mut acquire.stage);
        let Some(Stage::Awaiting(awaited)) = stage else { return };
        awaited.holds.retain(|awaited| *awaited != number);
        if !awaited.holds.is_empty() {
            return;
        }
        match awaited.outcome.take() {
            Some(outcome) => self.finish_acquire(now, ticket, outcome),
            None => self.retry_after_cleanup(now, ticket),
        }
    }

    /// Ends an acquire whose hold is not withdrawn yet, and leaves the withdrawal to the background. The caller learns that the server may
    /// still have the hold. A place in a queue is no hold, and a script that granted nothing leaves none.
    pub(super) fn stop_withdrawing(&mut self, now: Instant, ticket: Ticket, why: &str) {
        let stage = self.requests.acquire_mut(ticket).map(|acquire| &mut acquire.stage);
        let Some(Stage::Awaiting(awaited)) = stage else { return };
        let Some(outcome) = awaited.outcome.take() else { return };
        let is_place = |number: &HoldNumber| self.holds.get(*number).is_none_or(|hold| hold.state.is_queued());
        let places = awaited.holds.iter().all(is_place);
        let unknown = |text: &str| {
            Err(AcquireError::OutcomeUnknown(format!("{text}; what that left behind is not taken back yet: {why}")))
        };
        let outcome = match outcome {
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

    /// A request found the lock busy while this client was withdrawing a hold of the same lock. That hold may be all that was in the way:
    /// the request retries when it is gone. Returns whether the request does so.
    pub(super) fn await_cleanup(&mut self, now: Instant, ticket: Ticket) -> bool {
        let timeout = self.settings.command_timeout;
        let acquire = &mut self.requests[ticket];
        if acquire.last_retry != LastRetry::Overlapping {
            return false;
        }
        let same = self.locks.same_name(acquire.lock);
        let holds: Vec<HoldNumber> = same.flat_map(|lock| &self.locks[lock].line.given_up).copied().collect();
        acquire.is_final_attempt = true;
        if holds.is_empty() {
            self.retry_after_cleanup(now, ticket);
        } else {
            // Half a timeout, so that a slow server does not delay the caller by two more commands.
            let until = acquire.wait_deadline(timeout).min(now) + timeout / 2;
            self.await_holds(now, ticket, holds, until, None);
        }
        true
    }

    fn retry_after_cleanup(&mut self, now: Instant, ticket: Ticket) {
        let acquire = &mut self.requests[ticket];
        acquire.stage = Stage::Open;
        acquire.last_retry = LastRetry::Used;
        self.set_request_timer(now, ticket);
        self.resend_now(now, ticket);
    }
}

/// Holds without a grant: what the server may have of them is withdrawn.
impl Session {
    /// Withdraws the count that the request was raising. If a call is in flight, the background reverts its effect after the reply.
    pub(super) fn abandon_hold(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        self.keep_until_queue_expires(now, number);
        let Some(hold) = self.holds.get_mut(number) else { return };
        hold.stop_waiting(ticket);
        if hold.raising.take_if(|raising| *raising == ticket).is_some() {
            hold.clean_up.by_background = true;
        }
        self.reconcile(now, number);
    }

    /// Forgets the request's hold: the server has no trace of it.
    fn discard_hold(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let acquire = &mut self.requests[ticket];
        acquire.hold = None;
        acquire.failures.set_outcome_unknown(false);
        let hold = &mut self.holds[number];
        hold.count.on_server = 0;
        hold.raising = None;
        if hold.clean_up.is_unproven {
            hold.expect_late_copies(now + self.settings.command_timeout * 2);
        }
        self.reconcile(now, number);
    }

    /// Forgets the hold of a call that the server did not apply. It stays if an earlier call may have left a hold or a place.
    ///
    /// `may_come_late`: the server refused the call only for now, so it may grant a late copy of the call. Without a lease that grant would
    /// stay, so the background releases the hold as if it was granted.
    fn discard_failed(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, may_come_late: bool) {
        if self.requests[ticket].failures.is_outcome_unknown() {
            return;
        }
        let protocol = self.protocol_of(number);
        if !may_come_late || protocol.renewal().is_some() || protocol.wait_policy() == WaitPolicy::Broadcast {
            if !self.holds.get(number).is_some_and(|hold| hold.state.is_queued()) {
                self.discard_hold(now, ticket, number);
            }
            return;
        }
        self.requests[ticket].hold = None;
        let hold = &mut self.holds[number];
        hold.raising = None;
        hold.expect_late_copies(now);
        self.reconcile(now, number);
    }
}

/// Splits the reply to a call: the script's reply, and the number of replicas that acknowledged a durable call. Without enough replicas a
/// failover may undo the script's work: then the reply never postpones a deadline, and an acquire is taken back.
pub(super) fn split_acknowledged(
    reply: &Reply,
    replicas: Option<Replicas>,
) -> Result<(&Reply, Option<u32>), DecodeError> {
    if replicas.is_none() {
        return Ok((reply, None));
    }
    let [script, acknowledged] = reply.array()? else {
        return Err(DecodeError::new("an array of two", reply));
    };
    let count = u32::try_from(acknowledged.int()?);
    Ok((script, Some(count.map_err(|_| DecodeError::new("a number of replicas", acknowledged))?)))
}

#[cfg(test)]
mod tests;
