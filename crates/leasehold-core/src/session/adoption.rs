//! A lock that moves to another process: one process offers its hold and gets a ticket, another process adopts it.
//!
//! An adoption replaces the offered hold with a hold of the adopter, which has a field and a greater fencing token of its own. The ticket has
//! a secret: a random part of the offering process, and the server's time of the offer. An adoption deletes the secret, so one adoption succeeds.
//!
//! # At most one believer
//!
//! A process *believes* while it has a guard with a deadline in the future.
//!
//! 1. An offer ends the guard, and with it all renewals, before its call leaves. Then no process believes.
//! 2. Only the reply to the offer completes the secret, and only the future of the offer returns it. Without that reply nobody has a ticket and
//!    nobody can adopt. So after an unknown outcome, and after a dropped future, the session releases the hold like any other clean-up. A copy
//!    of the offer that arrives after the release finds no hold.
//! 3. The session forgets the hold when the future returns the ticket. It never sends a command about the hold again. A renewal that is still in
//!    flight only extends the lease on the server.
//! 4. An adoption believes only after the reply that the server has its hold, and counts the lease from before the send. After an unknown
//!    outcome, and after a dropped future, the session settles the call and releases the hold, as after an acquire.
//! 5. A failover may lose an adoption. The ticket is then valid again, and another process may adopt the lock. The first adopter finds its own
//!    field missing at its next renewal. With a common field, both processes would renew the same hold.
//!
//! The network may duplicate an offer call. A copy before the adoption returns the same secret. A copy after the adoption finds no hold.

use crate::command::ticket::{self, Adopted};
use crate::error::{HoldEnd, LossReason, MoveError};
use crate::link::LinkError;
use crate::owner::{HoldName, HoldNumber};
use crate::session::calls::CallResult;
use crate::session::hold::{CountChange, Hold};
use crate::session::request::RequestKind;
use crate::session::{AcquireRequest, Granted, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The outcome of an offer: what the adopting process needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime must put all of it into the ticket")]
pub struct Offered {
    /// The name of the hold on the server.
    pub field: Bytes,
    /// The complete secret.
    pub secret: Bytes,
}

/// A request to adopt a hold.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct AdoptRequest {
    /// The lock, and the lease of the new hold.
    pub acquire: Box<AcquireRequest>,
    /// The name of the offered hold on the server.
    pub offered: Bytes,
    /// The complete secret.
    pub secret: Bytes,
}

/// Offers.
impl Session {
    /// Ends the guard of a hold, and offers the hold to other processes for `life`. `renewed` is whether the guard wanted renewals, and
    /// `secret` a random text that is used once. If the offer fails, the background releases the hold.
    pub fn offer(&mut self, now: Instant, number: HoldNumber, renewed: bool, life: Duration, secret: Bytes) -> Ticket {
        let ticket = Ticket::new(self.new_number());
        self.lose_if_passed(now, number);
        let refusal = self.holds.get(number).map_or(Some(MoveError::Lost(LossReason::ShutDown)), Hold::refusal_to_move);
        self.take_guard(now, number, renewed);
        let outcome = match refusal {
            Some(error) => {
                self.clean_up_by_background(now, number);
                Some(Err(error))
            }
            None => {
                let hold = &mut self.holds[number];
                hold.lease = hold.limit_lease(now, hold.lease.max(life));
                hold.clean_up.by_background = false;
                let life = hold.limit_lease(now, life);
                let call = ticket::offer(&self.locks[hold.lock].name, &hold.cell.key(), &secret, life);
                self.send_change(now, number, Some(ticket), CountChange::Offer, call);
                None
            }
        };
        self.requests.insert(ticket, RequestKind::Offer { hold: number, secret, outcome });
        ticket
    }

    /// Polls an offer. The ticket is invalid once this is ready. The session forgets the hold with a successful outcome.
    pub fn poll_offer(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Result<Offered, MoveError>> {
        let number = self.offered_hold(ticket);
        let outcome = self.poll_result(ticket, waker, outcome_of_offer);
        if let (Poll::Ready(Some(Ok(_))), Some(number)) = (&outcome, number) {
            self.hand_out(now, number);
        }
        outcome.map(|outcome| outcome.unwrap_or(Err(MoveError::Closed)))
    }

    /// Drops the future of an offer; the background releases the hold.
    pub fn abandon_offer(&mut self, now: Instant, ticket: Ticket) {
        if let Some(number) = self.offered_hold(ticket) {
            self.remove_request(ticket);
            self.clean_up_by_background(now, number);
        }
    }

    fn offered_hold(&self, ticket: Ticket) -> Option<HoldNumber> {
        match self.requests.0.get(ticket)?.kind {
            RequestKind::Offer { hold, .. } => Some(hold),
            _ => None,
        }
    }

    /// Forgets a hold whose ticket leaves the session.
    fn hand_out(&mut self, now: Instant, number: HoldNumber) {
        if let Some(hold) = self.holds.get_mut(number) {
            hold.count.on_server = 0;
            self.forget(now, number);
        }
    }

    /// Handles the reply to an offer.
    pub(super) fn handle_offered(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, result: CallResult) {
        let decode = |reply| ticket::offered(&reply).map_err(|error| LinkError::Unknown(error.to_string()));
        let offered = result.and_then(decode);
        self.extend_clean_up(now, number);
        if let Err(LinkError::Unknown(why)) = &offered {
            self.begin_settling(number);
            self.set_result(ticket, outcome_of_offer, Err(MoveError::OutcomeUnknown(why.clone())));
            return self.clean_up_by_background(now, number);
        }
        self.end_change(number);
        let hold = &mut self.holds[number];
        let outcome = match offered {
            Ok(ticket::Offered::Offered { time, .. }) => Ok(time),
            Ok(ticket::Offered::Gone | ticket::Offered::Kind(_)) => {
                hold.count.on_server = 0;
                Err(MoveError::Lost(LossReason::Removed))
            }
            Ok(ticket::Offered::Count(_)) => Err(MoveError::Lost(LossReason::CountMismatch)),
            Err(LinkError::Refused(refusal)) => Err(MoveError::Refused(refusal)),
            Err(LinkError::NotSent(why) | LinkError::Unknown(why)) => Err(MoveError::Unreachable(why)),
        };
        let field = hold.cell.field();
        let secret = match self.requests.0.get(ticket).map(|request| &request.kind) {
            Some(RequestKind::Offer { secret, outcome: None, .. }) => Some(secret.clone()),
            _ => None,
        };
        match (outcome, secret) {
            (Ok(time), Some(secret)) => {
                let secret = ticket::secret_at(&secret, time);
                self.set_result(ticket, outcome_of_offer, Ok(Offered { field, secret }));
            }
            // Nobody reads the outcome, so nobody gets the ticket.
            (Ok(_), None) => self.clean_up_by_background(now, number),
            (Err(error), _) => {
                self.set_result(ticket, outcome_of_offer, Err(error));
                self.clean_up_by_background(now, number);
            }
        }
    }
}

/// Adoptions.
impl Session {
    /// Begins to adopt an offered hold.
    pub fn adopt(&mut self, now: Instant, request: &AdoptRequest) -> Ticket {
        let ticket = Ticket::new(self.new_number());
        let (acquire, number) = (&request.acquire, self.new_hold());
        let renewed = acquire.renewed;
        if self.closed {
            let outcome = Some(Err(MoveError::Closed));
            self.requests.insert(ticket, RequestKind::Adoption { hold: number, renewed, outcome });
            return ticket;
        }
        let lock = self.locks.get_or_insert(&acquire.name, acquire.kind, &self.client);
        self.locks[lock].refs += 1;
        let mut hold = Hold::new(now, lock, ticket, HoldName::new(self.client, number, None), acquire);
        hold.raising = None;
        let key = hold.cell.key();
        let call = ticket::adopt(&acquire.name, acquire.kind, &key, &request.offered, &request.secret, acquire.lease);
        self.holds.insert(number, hold);
        self.requests.insert(ticket, RequestKind::Adoption { hold: number, renewed, outcome: None });
        self.send_change(now, number, Some(ticket), CountChange::Adopt, call);
        ticket
    }

    /// Polls an adoption. The ticket is invalid once this is ready.
    pub fn poll_adopt(&mut self, ticket: Ticket, waker: &Waker) -> Poll<Result<Granted, MoveError>> {
        let outcome = self.poll_result(ticket, waker, outcome_of_adoption);
        outcome.map(|outcome| outcome.unwrap_or(Err(MoveError::Closed)))
    }

    /// Drops the future of an adoption; the background releases the hold.
    pub fn abandon_adopt(&mut self, now: Instant, ticket: Ticket) {
        let Some(RequestKind::Adoption { hold, renewed, outcome }) = self.requests.0.get(ticket).map(|it| &it.kind)
        else {
            return;
        };
        let (number, renewed, granted) = (*hold, *renewed, matches!(outcome, Some(Ok(_))));
        self.remove_request(ticket);
        if granted {
            self.drop_guard(now, number, renewed);
        } else {
            self.clean_up_by_background(now, number);
        }
    }

    /// Handles the reply to an adoption.
    pub(super) fn handle_adopted(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, result: CallResult) {
        let lock = self.holds[number].lock;
        let kind = self.locks[lock].kind;
        let decode = |reply| ticket::adopted(kind, &reply).map_err(|error| LinkError::Unknown(error.to_string()));
        let adopted = result.and_then(decode);
        self.extend_clean_up(now, number);
        if let Err(LinkError::Unknown(why)) = &adopted {
            self.begin_settling(number);
            self.set_result(ticket, outcome_of_adoption, Err(MoveError::OutcomeUnknown(why.clone())));
            return self.clean_up_by_background(now, number);
        }
        let Some(change) = self.end_change(number) else { return };
        let hold = &mut self.holds[number];
        let mut may_be_on_server = false;
        let error = match adopted {
            Ok(Adopted::Adopted { left, token }) => {
                may_be_on_server = true;
                hold.note_grant(token);
                hold.confirm_grant(now, change.sent_at, left, change.acknowledged);
                if hold.has_passed(now) {
                    Some(MoveError::OutcomeUnknown("the server's reply took longer than the lease".to_owned()))
                } else {
                    self.closed.then_some(MoveError::Closed)
                }
            }
            Ok(Adopted::Spent | Adopted::Gone) => Some(MoveError::Spent),
            Ok(Adopted::Kind(kind)) => Some(MoveError::KeyConflict(kind)),
            Err(LinkError::Refused(refusal)) => {
                may_be_on_server = !refusal.proves_nothing_done();
                Some(MoveError::Refused(refusal))
            }
            Err(LinkError::NotSent(why) | LinkError::Unknown(why)) => Some(MoveError::Unreachable(why)),
        };
        if !may_be_on_server {
            hold.count.on_server = 0;
        }
        if let Some(error) = error {
            self.set_result(ticket, outcome_of_adoption, Err(error));
            return self.clean_up_by_background(now, number);
        }
        match self.requests.0.get(ticket).map(|request| &request.kind) {
            Some(RequestKind::Adoption { renewed, outcome: None, .. }) => {
                let granted = self.grant_adopted(now, number, *renewed, change.sent_at);
                self.set_result(ticket, outcome_of_adoption, Ok(granted));
            }
            // Nobody reads the outcome, so nobody gets the guard.
            _ => self.clean_up_by_background(now, number),
        }
    }

    /// Grants an adopted hold, which never was in the line of its lock.
    fn grant_adopted(&mut self, now: Instant, number: HoldNumber, renewed: bool, sent_at: Instant) -> Granted {
        let hold = &mut self.holds[number];
        hold.grant(renewed);
        let granted = hold.granted(number, renewed);
        let (lock, owner, permits) = (hold.lock, hold.owner, hold.permits());
        self.locks[lock].add_held(permits);
        self.locks[lock].last_granted = Some(number);
        self.schedule_renewal(now, number);
        self.set_hold_timer(number);
        if let Some(owner) = owner {
            self.owners.change(lock, owner, |owned| owned.holds.push(number));
            self.admit_owner(now, lock, owner, number);
        }
        self.lose_excluded(now, number, sent_at, None);
        granted
    }

    /// Ends a move because the client ends. Releases an adopted hold that no future has read.
    pub(super) fn end_move(&mut self, now: Instant, ticket: Ticket, why: &str) {
        let unknown = || MoveError::OutcomeUnknown(why.to_owned());
        self.set_result(ticket, outcome_of_offer, Err(unknown()));
        let adopted = self.requests.0.get_mut(ticket).and_then(|request| outcome_of_adoption(&mut request.kind));
        if let Some(Some(Ok(granted))) = adopted.map(|outcome| outcome.replace(Err(unknown()))) {
            self.drop_guard(now, granted.hold, granted.renewed);
        }
        self.wake(ticket);
    }
}

const fn outcome_of_offer(request: &mut RequestKind) -> Option<&mut Option<Result<Offered, MoveError>>> {
    match request {
        RequestKind::Offer { outcome, .. } => Some(outcome),
        _ => None,
    }
}

const fn outcome_of_adoption(request: &mut RequestKind) -> Option<&mut Option<Result<Granted, MoveError>>> {
    match request {
        RequestKind::Adoption { outcome, .. } => Some(outcome),
        _ => None,
    }
}

impl Hold {
    /// Why the hold cannot move to another process.
    fn refusal_to_move(&self) -> Option<MoveError> {
        if let Some(HoldEnd::Lost(reason)) = self.end() {
            return Some(MoveError::Lost(reason));
        }
        let count = self.count.wanted.max(self.count.on_server);
        if count > 1 || self.raising.is_some() {
            return Some(MoveError::Shared(count.max(2)));
        }
        if self.state.is_degraded() {
            return Some(MoveError::Bound("it was granted without the server"));
        }
        match self.extras.as_deref() {
            Some(extras) if extras.replicas.is_some() => Some(MoveError::Bound("it waits for replicas")),
            Some(extras) if extras.busy_until.is_some() => Some(MoveError::Bound("it stays busy after its release")),
            _ if self.change.is_some() => Some(MoveError::Shared(count.max(2))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
