//! Unread grants: a request was granted a hold, and its future has not been polled since. The hold goes to the next request, or back.

use crate::session::flow::restore::RESTORE;
use crate::session::lock::line::End;
use crate::session::parts::Parts;
use crate::session::{Event, Ticket};
use crate::time::Instant;

impl Parts {
    /// The future of a request is polled: a hold that was handed on to it, and that has ended since, is none.
    pub(super) fn check_unread(&mut self, now: Instant, ticket: Ticket) {
        let unread = self.requests.acquire(ticket).and_then(|acquire| acquire.unread());
        let Some(number) = unread.map(|granted| granted.hold) else { return };
        self.lose_if_passed(now, number);
        if !self.holds.get(number).is_some_and(|hold| hold.is_live()) {
            self.take_unread_back(now, ticket);
        }
    }

    /// A future did not read its grant in time. Its request waits again, behind requests whose futures are polled. While the server is out of
    /// reach, it keeps the grant, because it would get the same one again.
    pub(super) fn unread_too_long(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        if acquire.unread().is_some_and(|granted| granted.cell.is_degraded()) {
            acquire.keep_unread(now + RESTORE);
            return self.set_request_timer(now, ticket);
        }
        acquire.note_unpolled();
        let name = self.locks[acquire.lock()].name().clone();
        self.out.tell(Event::UnpolledTurn { name });
        self.take_unread_back(now, ticket);
    }

    /// The guard that was handed on is dropped, and the request stands where it stood before.
    fn take_unread_back(&mut self, now: Instant, ticket: Ticket) {
        let granted = self.requests.known_acquire_mut(ticket).and_then(|acquire| acquire.take_unread());
        let Some(granted) = granted else { return };
        self.drop_guard(now, granted.hold, granted.renewed);
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let (lock, owner) = (acquire.lock(), acquire.wish().owner);
        if let Some(number) = owner.and_then(|owner| self.owners.hold(lock, owner)) {
            // Another request of its owner has entered what was handed on.
            if let Some(acquire) = self.requests.known_acquire_mut(ticket) {
                acquire.enter(number);
            }
            self.begin_to_wait(now, ticket);
        } else {
            self.join_line_at(now, ticket, End::Front);
        }
    }
}
