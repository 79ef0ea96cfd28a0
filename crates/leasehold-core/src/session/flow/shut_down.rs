//! The end of a client: nothing is granted any more, every waiting caller is told, and every hold is released.

use crate::error::{AcquireError, LossReason};
use crate::name::LockName;
use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::parts::Parts;
use crate::time::Instant;

impl Parts {
    /// See [`Session::close`](crate::session::Session::close).
    pub(crate) fn close(&mut self, now: Instant) {
        self.closed = true;
        let mut waiting: Vec<Ticket> = self.requests.acquires().map(|(ticket, _)| ticket).collect();
        waiting.sort_unstable();
        for ticket in waiting {
            self.fail_acquire(now, ticket, AcquireError::Closed);
        }
        self.stop_all_lingering(now);
    }

    /// See [`Session::release_all`](crate::session::Session::release_all).
    pub(crate) fn release_all(&mut self, now: Instant) {
        self.stop_all_lingering(now);
        let mut numbers: Vec<HoldNumber> = self.holds.iter().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(hold) = self.holds.known_mut(number) else { continue };
            if hold.is_granted() && hold.has_guards() {
                self.lose(now, number, LossReason::ShutDown);
                self.end_live_hold(now, number);
            }
            let Some(hold) = self.holds.known_mut(number) else { continue };
            hold.remove_all_guards();
            self.clean_up_by_background(now, number);
        }
    }

    /// See [`Session::is_quiet`](crate::session::Session::is_quiet).
    pub(crate) fn is_quiet(&self) -> bool {
        self.holds.is_empty() && self.subscriptions.is_empty()
    }

    /// See [`Session::holds_nothing`](crate::session::Session::holds_nothing).
    pub(crate) fn holds_nothing(&self) -> bool {
        self.holds.is_empty()
    }

    /// See [`Session::has_clean_up`](crate::session::Session::has_clean_up).
    pub(crate) fn has_clean_up(&self) -> bool {
        self.holds.iter().map(|(_, hold)| hold).any(|hold| !hold.has_guards())
    }

    /// See [`Session::unreleased`](crate::session::Session::unreleased).
    pub(crate) fn unreleased(&self) -> Vec<LockName> {
        let mut names: Vec<LockName> =
            self.holds.iter().map(|(_, hold)| hold).map(|hold| self.locks[hold.lock()].name().clone()).collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        names
    }
}
