//! Holds that linger: the last guard goes and the server is not told, so that the next acquire of the client costs no command.
//!
//! The server sees one hold that lasts, as it does of a hold that is [handed on](super::hand_over). A request has it under a new number.
//!
//! A hold may linger only if its client was subscribed to requests before the acquire. So the first hold of a lock does
//! not linger: its grant starts the subscription, which lasts from hold to hold, until two seconds after the last hold.
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
//!
//! After the release of such a hold its client gives other clients a head start, if there may be any: it sends no
//! acquire for two round trips.

use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::hold::linger::Stay;
use crate::session::ids::LockId;
use crate::session::listening::Kept;
use crate::session::parts::Parts;
use crate::session::request::acquire::LocalPlace;
use crate::time::Instant;

impl Parts {
    /// A guard of a hold goes: for how long the hold is kept; `None` where it is released.
    pub(super) fn plan_stay(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<Stay> {
        self.lose_if_passed(now, number);
        let hold = self.holds.get(number).filter(|_| renewed)?;
        let (stay, lock) = (hold.plan_stay(now)?, hold.lock());
        let may = self.locks[lock].line().is_empty() && self.subscriptions.hears(lock) && self.may_keep(lock);
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
        acquire.forget_hold();
        acquire.end(Ok(Some(granted)));
        let place = acquire.place();
        self.locks[lock].add_held(permits);
        self.resumed += 1;
        self.listen_for_others(now, lock);
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
            self.let_others_in(now, number);
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
        let listened = self.listening.end(lock, &mut self.timers);
        if let Some(number) = self.locks[lock].last_granted().filter(|number| self.holds.contains(*number)) {
            self.stop_lingering(now, number);
        }
        if listened {
            self.drop_unwanted_notices(lock);
            self.locks.unref(lock, &mut self.timers);
        }
    }

    /// Starts the subscription to requests after a grant for an acquire that wants its hold to linger.
    pub(super) fn listen_for_others(&mut self, now: Instant, lock: LockId) {
        let is_quiet = !self.contended.is_contended(now, self.locks[lock].name().key());
        if !is_quiet || !self.may_keep(lock) {
            return;
        }
        match self.listening.keep(now, lock, &mut self.timers) {
            Kept::Not => return,
            Kept::New => self.locks[lock].add_ref(),
            Kept::Longer => {}
        }
        self.want_notices(lock);
    }

    /// Ends the subscription of a lock after its last hold, unless something still refers to the lock.
    pub(crate) fn listening_is_due(&mut self, now: Instant, lock: LockId) {
        if !self.listening.contains(lock) {
            return;
        }
        if self.locks[lock].refs() > 1 {
            let _ = self.listening.keep(now, lock, &mut self.timers);
        } else {
            self.stop_listening(lock);
        }
    }

    fn stop_listening(&mut self, lock: LockId) {
        if self.listening.end(lock, &mut self.timers) {
            self.drop_unwanted_notices(lock);
            self.locks.unref(lock, &mut self.timers);
        }
    }

    /// Ends all subscriptions to requests, because the client ends.
    pub(super) fn stop_all_listening(&mut self) {
        let listening: Vec<LockId> = self.listening.locks().collect();
        listening.into_iter().for_each(|lock| self.stop_listening(lock));
    }

    /// Starts the head start of other clients after the release of a hold with the mark, if there may be any.
    pub(super) fn let_others_in(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(number).filter(|hold| hold.wanted() <= 1) else { return };
        let lock = hold.lock();
        let is_wanted = self.contended.is_contended(now, self.locks[lock].name().key());
        let may_be = self.locks[lock].rivals().get_a_head_start();
        let Some(pause) = hold.head_start(is_wanted, may_be) else { return };
        let until = now + pause;
        self.contended.hold_back(now, self.locks[lock].name().key(), until);
        let line = self.locks[lock].line();
        if line.contender().is_some() && line.is_at_rest() {
            self.locks[lock].line_mut().back_off(until);
            self.set_lock_timer(lock);
        }
    }

    /// Ends lingering for all holds, with or without a guard: this client may have missed requests, or is closing.
    pub(crate) fn stop_all_lingering(&mut self, now: Instant) {
        self.stop_lingering_of(now, |_| true);
    }

    /// Ends lingering for the holds of some locks.
    pub(super) fn stop_lingering_of(&mut self, now: Instant, is_it: impl Fn(LockId) -> bool) {
        let marked = self.holds.iter().filter(|(_, hold)| hold.may_linger() && is_it(hold.lock()));
        let mut marked: Vec<HoldNumber> = marked.map(|(number, _)| number).collect();
        marked.sort_unstable();
        marked.into_iter().for_each(|number| self.stop_lingering(now, number));
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
