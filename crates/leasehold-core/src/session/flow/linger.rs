//! Holds that linger: the last guard goes and the server is not told, so that the next acquire of the client costs no command.
//!
//! The server sees one hold that lasts, as it does of a hold that is [handed on](super::hand_over). A request has it under a new number.
//!
//! | what happens to a hold that may linger | what follows |
//! |---|---|
//! | its only guard goes, and no request of the client waits | it lingers |
//! | a renewal is due or on its way, a third of the lease or less is left, or it was lost | a release |
//! | another client has asked for the lock, or the hold was kept from the server for ten times as long as it may linger | a release |
//! | the server or the channel is known to be out of reach, or the client is closed | a release |
//! | **what happens while it lingers** | |
//! | a request comes that wishes for such a hold | the request has it |
//! | a request comes that wishes for another lease, for replicas, or for the lock within this client | a release, and the request asks |
//! | another client asks, or ends the hold by force | a release |
//! | the time is over | a release |
//! | messages were missed, a connection was lost, a subscription failed, or the client closes | a release |

use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::hold::linger::Stay;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::session::request::acquire::LocalPlace;
use crate::time::Instant;

impl Parts {
    /// A guard of a hold goes: for how long the hold is kept; `None` where it is released.
    pub(super) fn plan_stay(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<Stay> {
        self.lose_if_passed(now, number);
        let hold = self.holds.get(number).filter(|_| renewed)?;
        let (stay, lock) = (hold.plan_stay(now)?, hold.lock());
        let may = self.locks[lock].line().is_empty() && self.subscriptions.is_heard(lock) && self.may_keep(lock);
        may.then_some(stay)
    }

    /// The guard goes, and the hold is kept.
    pub(super) fn begin_stay(&mut self, number: HoldNumber, stay: Stay) {
        if let Some(hold) = self.holds.known_mut(number) {
            hold.begin_stay(stay);
        }
    }

    /// A request is about to ask the server: if a hold of its lock lingers, the request has that, or the hold lingers no longer. Says whether
    /// the request has it.
    pub(super) fn resume(&mut self, now: Instant, ticket: Ticket) -> bool {
        let Some(acquire) = self.requests.acquire(ticket) else { return false };
        let lock = acquire.lock();
        let Some(number) = self.lingering(lock) else { return false };
        let fits = acquire.hold().is_none()
            && acquire.is_open()
            && self.may_keep(lock)
            && !self.is_outcome_unknown(ticket)
            && self
                .holds
                .get(number)
                .is_some_and(|hold| hold.may_be_resumed(now) && hold.is_what_is_wished(acquire.wish()));
        if fits {
            self.resume_by(now, ticket, number, lock);
        } else {
            self.stop_lingering(now, number);
        }
        fits
    }

    fn resume_by(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, lock: LockId) {
        let Some(granted) = self.renumber(now, number, ticket) else { return };
        let left = granted.cell.deadline().since(now);
        let (next, permits) = (granted.hold, u64::from(granted.cell.key().permits));
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        acquire.grant(granted);
        let place = acquire.place();
        self.locks[lock].add_held(permits);
        self.resumed += 1;
        self.admit_others(now, lock, next);
        if place == LocalPlace::Line {
            self.locks[lock].forget_failures();
            self.contender_granted(now, ticket, lock, left);
        }
    }

    /// The hold of a lock that lingers.
    pub(super) fn lingering(&self, lock: LockId) -> Option<HoldNumber> {
        let number = self.locks.get(lock)?.last_granted()?;
        self.holds.get(number).is_some_and(|hold| hold.lingers()).then_some(number)
    }

    /// Whether holds of a lock may linger: the server is well as far as is known, and no request takes the lock within this client.
    fn may_keep(&self, lock: LockId) -> bool {
        self.is_well(lock) && !self.is_local(lock)
    }

    /// A hold lingers no longer: it is released, as one is whose guard was dropped.
    pub(super) fn stop_lingering(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        let (lock, lingered) = (hold.lock(), hold.decline_to_linger());
        self.drop_unwanted_notices(lock);
        if lingered {
            // A hold whose lease is over by now is forgotten, and the lock perhaps with it.
            self.clean_up_by_background(now, number);
        }
    }

    /// Releases a hold that has lingered for long enough. Says whether it has.
    pub(super) fn end_stay(&mut self, now: Instant, number: HoldNumber) -> bool {
        let is_over = self.holds.get(number).is_some_and(|hold| hold.has_lingered(now));
        if is_over {
            self.stop_lingering(now, number);
        }
        is_over
    }

    /// Another client wants the lock: what this client has of it does not linger.
    pub(super) fn give_way(&mut self, now: Instant, lock: LockId) {
        self.contended.note(now, self.locks[lock].name().key());
        if let Some(number) = self.locks[lock].last_granted().filter(|number| self.holds.contains(*number)) {
            self.stop_lingering(now, number);
        }
    }

    /// No hold lingers any longer: this client may not hear who wants the lock, or closes.
    pub(crate) fn stop_all_lingering(&mut self, now: Instant) {
        let lingering = self.holds.iter().filter(|(_, hold)| hold.lingers());
        let mut lingering: Vec<HoldNumber> = lingering.map(|(number, _)| number).collect();
        lingering.sort_unstable();
        lingering.into_iter().for_each(|number| self.stop_lingering(now, number));
    }

    /// See [`Session::look_again`](crate::session::Session::look_again). A hold of this name lingers no longer.
    pub(crate) fn look_after_end(&mut self, now: Instant, name: &str) {
        let same = |lock: LockId| self.locks[lock].name().as_str() == name;
        let lingering = self.holds.iter().filter(|(_, hold)| hold.lingers() && same(hold.lock()));
        let lingering: Vec<HoldNumber> = lingering.map(|(number, _)| number).collect();
        lingering.into_iter().for_each(|number| self.stop_lingering(now, number));
        self.look_again(now, name);
    }
}

#[cfg(test)]
mod tests;
