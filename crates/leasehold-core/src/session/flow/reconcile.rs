//! Reconciling a hold with the server: its count is lowered, the requests that wait for it go on, or it is forgotten.

use crate::command::Kind;
use crate::error::ReleaseError;
use crate::owner::HoldNumber;
use crate::session::flow::send::give;
use crate::session::hold::change::CountChange;
use crate::session::hold::clean_up::NextStep;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::session::timers::Timer;
use crate::time::Instant;

impl Parts {
    /// From `now` on, nothing that was sent can make the lease of a hold last longer than it, or its change on the way, asks for.
    ///
    /// A reader's lease also keeps what the server has of the writer beside whom it reads, because both lie under one key: a write hold
    /// that is lost here lives on there, and is not left to its own lease to end.
    pub(super) fn extend_clean_up(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(number) else { return };
        hold.extend_clean_up(now);
        let until = hold.kept_until();
        let Some(write) = self.other_half(number, Kind::Read, Kind::Write) else { return };
        let lock = &self.locks[write];
        let requests = lock.line().len();
        if lock.refs() <= requests {
            // Writers that only wait, as is usual, are no reason to look through all holds of the client.
            return;
        }
        for other in self.holds.values_mut().filter(|other| other.lock() == write) {
            other.keep_until(until);
        }
    }

    /// Whether a reader has something on its way that may keep the writer's entry for longer than this client knows yet.
    pub(super) fn is_kept_by_reader(&self, number: HoldNumber) -> bool {
        let read = self.other_half(number, Kind::Write, Kind::Read);
        read.is_some_and(|read| {
            self.holds.iter().map(|(_, hold)| hold).any(|other| other.lock() == read && other.is_being_raised())
        })
    }

    pub(super) fn set_hold_timer(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(number) else { return };
        let next = hold.timeout();
        self.timers.set(Timer::Hold(number), hold.timer_slot(), next);
    }

    /// The half of one kind of a read-write lock, for a hold of the other.
    fn other_half(&self, number: HoldNumber, of: Kind, other: Kind) -> Option<LockId> {
        let lock = self.holds.get(number)?.lock();
        if self.locks[lock].kind() == of { self.locks.sibling(lock, other) } else { None }
    }

    /// Forgets a hold of which the server has nothing, or nothing that will not go by itself.
    fn forget(&mut self, now: Instant, number: HoldNumber) {
        let Some(mut hold) = self.holds.remove(number) else { return };
        self.timers.set(Timer::Hold(number), hold.timer_slot(), None);
        let gone = !hold.exceeds_wanted();
        hold.forget(self.out.woken());
        for ticket in hold.take_waiting() {
            let unknown = || ReleaseError::OutcomeUnknown("no reply came while the lease lasted".to_owned());
            self.finish_release(ticket, if gone { Ok(()) } else { Err(unknown()) });
            self.note_taken_back(now, ticket, number);
            self.wake(ticket);
        }
        self.locks[hold.lock()].note_given_up(number, false);
        if let Some(owner) = hold.owner() {
            self.owners.remove_hold(hold.lock(), owner, number);
        }
        self.locks.unref(hold.lock(), &mut self.timers);
    }

    /// Nothing stands in the way of those who wait for the hold's count any more: entries are sent, releases are done.
    fn resume_waiting(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        for ticket in hold.take_waiting() {
            self.finish_release(ticket, Ok(()));
            self.note_taken_back(now, ticket, number);
            self.wake(ticket);
        }
    }

    /// Looks after a hold whose state has changed: lowers its count, lets requests go on, or forgets it.
    pub(super) fn reconcile(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(number) else { return };
        if hold.is_over(now) && self.is_kept_by_reader(number) {
            self.extend_clean_up(now, number);
        }
        self.note_given_up(number);
        let Some(hold) = self.holds.known(number) else { return };
        match hold.next_step(now) {
            NextStep::Nothing => {}
            NextStep::Forget => return self.forget(now, number),
            NextStep::GoOn => self.resume_waiting(now, number),
            NextStep::Lower => self.lower_by_background(now, number),
        }
        self.set_hold_timer(number);
    }

    /// Sends the lowering of a count that no caller lowers, as soon as there is room for it.
    pub(super) fn lower_by_background(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        if !self.to_lower.has_room(self.pending.lowerings()) {
            hold.set_queued(true);
            self.to_lower.push(hold.lock(), number);
            return;
        }
        hold.note_repeat(now);
        let target = hold.wanted();
        let call = give(now, &self.locks[hold.lock()], hold, &self.settings);
        self.send_change(now, number, None, CountChange::LowerTo(target), call);
    }

    pub(super) fn clean_up_by_background(&mut self, now: Instant, number: HoldNumber) {
        if let Some(hold) = self.holds.get_mut(number) {
            hold.leave_to_background();
            self.reconcile(now, number);
        }
    }

    /// There is room for lowerings that had to wait.
    pub(super) fn lower_more(&mut self, now: Instant) {
        while self.to_lower.has_room(self.pending.lowerings())
            && let Some(number) = self.to_lower.pop()
        {
            if let Some(hold) = self.holds.known_mut(number) {
                hold.set_queued(false);
                self.reconcile(now, number);
            }
        }
    }

    /// A lowering by the background has come to an end, which says how many more the server stands.
    pub(super) fn note_lowered(&mut self, now: Instant, number: HoldNumber, answered: bool) {
        let sent_at = self.holds.get(number).and_then(|hold| hold.change()).map(|change| change.sent_at());
        match sent_at.filter(|_| answered) {
            Some(sent_at) => self.to_lower.answered(now.since(sent_at)),
            None => self.to_lower.not_answered(),
        }
    }
}
