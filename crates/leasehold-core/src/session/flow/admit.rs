//! Requests of an owner that holds already: they leave the line and re-enter, or come in beside the other half.

use crate::command::Kind;
use crate::owner::{HoldNumber, OwnerId};
use crate::session::Ticket;
use crate::session::ids::LockId;
use crate::session::lock::line::Phase;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::Acquire;
use crate::time::Instant;

impl Parts {
    pub(super) fn grant_entry(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let Some(hold) = self.holds.known_mut(number) else { return };
        let renewed = acquire.wish().renewed;
        hold.add_guard(now, renewed, acquire.wish().lease);
        let until = acquire.read_until(now, self.locks[hold.lock()].wait_policy().turn(&self.settings));
        acquire.grant(hold.granted(number, renewed), until);
        if hold.renew_at().is_none() {
            self.schedule_renewal(now, number);
        }
        self.set_request_timer(now, ticket);
    }

    /// Takes a request out of the line, because its owner holds the lock already.
    pub(super) fn enter_instead(&mut self, now: Instant, ticket: Ticket, lock: LockId, number: HoldNumber) {
        self.leave_line(now, ticket, lock);
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if let Some(begun) = acquire.enter(number) {
            self.abandon_hold(now, ticket, begun);
        }
        self.wake(ticket);
    }

    /// The owner holds the lock from here on: its other requests that stand in the line re-enter.
    pub(super) fn admit_owner(&mut self, now: Instant, lock: LockId, owner: OwnerId, number: HoldNumber) {
        let state = &self.locks[lock];
        let contender = state.line().contender();
        // A contender whose command is under way learns of it from the reply.
        let trying = contender.filter(|_| state.line().phase() == Phase::Trying);
        let mut same = self.owners.wishes(lock, owner).to_vec();
        same.retain(|ticket| {
            let waits = |acquire: &Acquire| acquire.waits_in_line();
            trying != Some(*ticket) && self.requests.acquire(*ticket).is_some_and(waits)
        });
        // The contender last, so that the turn goes to none that leaves as well.
        same.sort_by_key(|ticket| contender == Some(*ticket));
        for ticket in same {
            self.enter_instead(now, ticket, lock, number);
        }
    }

    /// The owner writes from here on: its other requests, which wait to read, come in beside. They would wait for their own owner.
    pub(super) fn admit_readers(&mut self, now: Instant, lock: LockId, owner: OwnerId) {
        if self.locks[lock].kind() != Kind::Write {
            return;
        }
        let Some(read) = self.locks.sibling(lock, Kind::Read) else { return };
        let line = self.locks[read].line();
        // A contender whose command is under way learns of it from the reply.
        let contender = line.contender().filter(|_| line.phase() != Phase::Trying);
        let waiting: Vec<Ticket> = line.queue().iter().chain(contender).collect();
        for ticket in waiting {
            let same = self
                .requests
                .acquire(ticket)
                .filter(|acquire| acquire.wish().owner == Some(owner) && acquire.waits_in_line());
            if let Some(beside) = same.and_then(|acquire| self.own_other_half(acquire)) {
                self.stand_beside(now, ticket, beside);
            }
        }
    }
}
