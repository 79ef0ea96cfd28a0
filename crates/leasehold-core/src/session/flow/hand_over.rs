//! Handing a hold on within the client: its guard goes, and the next waiter of the line has it, without a word to the server.
//!
//! The server sees one hold that lasts; for its other clients nothing has happened. So the hold must be one that the waiter could have been
//! granted, and it goes to the contender alone, which is first in the line and sends nothing at that moment. It is handed on so often and for
//! so long as [`HandOver`](crate::settings::HandOver) says; then it is released to the server, and its other clients are let in.
//!
//! | a guard goes, and | what follows |
//! |---|---|
//! | the contender rests, and the hold is what it wishes for | the hold is handed on |
//! | the contender asks the server at this moment, or there is none | a release |
//! | the hold has another guard, a change or a renewal on its way, or something to be taken back | a release |
//! | a third of the lease or less is left, or it was lost, or granted without the server | a release |
//! | one of both leases is not renewed, or they differ; or replicas are asked for | a release |
//! | the kind is another one than the reentrant lock, or every request takes the lock within the client first | a release |
//! | the server is known to be out of reach, or the client is closed | a release |
//! | the hold was handed on for long enough; or often enough, and other clients may want the lock | a release |
//!
//! The release of a hold that was handed on before, for whatever reason, gives other clients a head start, if there may be some.

use crate::owner::HoldNumber;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::session::timers::Timer;
use crate::session::{Granted, Ticket};
use crate::time::Instant;

mod rivals;

impl Parts {
    /// A guard of a hold goes: hands the hold on to the next waiter of this client. Says whether it did; if not, the guard is still there.
    pub(super) fn hand_over(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> bool {
        if self.settings.hand_over.is_none() {
            return false;
        }
        self.lose_if_passed(now, number);
        let Some(hold) = self.holds.get(number) else { return false };
        let Some(limits) = self.hand_over_limits(hold.lock()) else { return false };
        let may = renewed && hold.may_be_handed_on(now) && hold.has_tenure_left(now, limits);
        let next = self.next_holder(number).filter(|_| may);
        match next {
            Some(ticket) => self.pass_on(now, number, ticket),
            None => self.pause_behind(now, number),
        }
        next.is_some()
    }

    /// Whether a request that comes to an empty line need not ask the server: this client has the lock, by a hold that is about to be handed on.
    pub(super) fn expects_hand_over(&self, now: Instant, lock: LockId) -> bool {
        let Some(limits) = self.hand_over_limits(lock) else { return false };
        let hold = self.locks[lock].last_granted().and_then(|number| self.holds.get(number));
        let may = hold.is_some_and(|hold| hold.may_be_handed_on(now) && hold.has_tenure_left(now, limits));
        may && self.locks[lock].protocol().may_be_handed_on() && self.is_well(lock)
    }

    /// The server can be reached as far as is known, and no task of this client keeps the others from it.
    pub(super) fn is_well(&self, lock: LockId) -> bool {
        !self.closed && !self.is_gated(lock) && self.outage_of(lock).is_none() && self.failing_since(lock).is_none()
    }

    /// The request to which a hold can be handed on: the contender, where it rests and wishes for such a hold.
    fn next_holder(&self, number: HoldNumber) -> Option<Ticket> {
        let hold = self.holds.get(number)?;
        let lock = &self.locks[hold.lock()];
        if !lock.protocol().may_be_handed_on() || !lock.line().is_at_rest() || !self.is_well(hold.lock()) {
            return None;
        }
        let ticket = lock.line().contender()?;
        let acquire = self.requests.waiter(ticket)?;
        let rests = acquire.is_awake() && acquire.is_open() && !acquire.rests() && acquire.hold().is_none();
        (rests && !self.is_outcome_unknown(ticket) && hold.is_what_is_wished(acquire.wish())).then_some(ticket)
    }

    /// The hold is the request's from here on.
    fn pass_on(&mut self, now: Instant, number: HoldNumber, ticket: Ticket) {
        let Some(granted) = self.renumber(now, number, ticket) else { return };
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, next, left) = (acquire.lock(), granted.hold, granted.cell.deadline().since(now));
        let until = acquire.read_until(now, self.locks[lock].wait_policy().turn(&self.settings));
        acquire.grant(granted, until);
        self.hand_overs += 1;
        self.admit_others(now, lock, next);
        self.contender_granted(now, ticket, lock, left);
        self.set_request_timer(now, ticket);
        self.wake(ticket);
    }

    /// Ends a hold for the request that had it, and begins it anew for another, under another number. Gives the grant.
    pub(super) fn renumber(&mut self, now: Instant, number: HoldNumber, ticket: Ticket) -> Option<Granted> {
        let next = self.new_hold();
        let wish = self.requests.known_acquire(ticket)?.wish();
        let hold = self.holds.renumber(number, next)?;
        let (lock, planned) = (hold.lock(), hold.next_renewal());
        self.timers.set(Timer::Hold(number), hold.timer_slot(), None);
        if let Some(owner) = hold.owner() {
            self.owners.remove_hold(lock, owner, number);
        }
        hold.hand_on(now, ticket, wish, self.out.woken());
        let granted = hold.granted(next, wish.renewed);
        self.locks[lock].note_granted(next);
        self.schedule_renewal(now, next);
        if let Some(hold) = self.holds.known_mut(next) {
            // A renewal that is planned, or a look, is not put off.
            planned.into_iter().for_each(|at| hold.look_by(at));
        }
        self.set_hold_timer(next);
        Some(granted)
    }

    /// The owner of a hold that was begun anew has it: its other requests re-enter.
    pub(super) fn admit_others(&mut self, now: Instant, lock: LockId, number: HoldNumber) {
        if let Some(owner) = self.holds.get(number).and_then(|hold| hold.owner()) {
            self.owners.add_hold(lock, owner, number);
            self.admit_owner(now, lock, owner, number);
        }
    }
}

#[cfg(test)]
mod tests;
