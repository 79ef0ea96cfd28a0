//! The end of a client: nothing is granted any more, every waiting caller is told, and every hold is released.

use super::Session;
use super::request::{Request, Ticket};
use crate::error::{AcquireError, LossReason};
use crate::name::LockName;
use crate::owner::HoldNumber;
use crate::time::Instant;

impl Session {
    /// Stops granting: every waiting caller is told so, and every later acquire is refused. Holds stay as they are.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        let mut waiting: Vec<Ticket> = self
            .requests
            .iter()
            .filter(|(_, request)| matches!(request, Request::Acquire(_)))
            .map(|(ticket, _)| *ticket)
            .collect();
        waiting.sort_unstable();
        for ticket in waiting {
            self.fail_acquire(now, ticket, AcquireError::Closed);
        }
    }

    /// Takes every hold from its guards, who are told, and has the lifeline release it.
    pub fn release_all(&mut self, now: Instant) {
        let mut numbers: Vec<HoldNumber> = self.holds.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(hold) = self.holds.get_mut(&number) else { continue };
            if hold.granted && hold.count.has_guards() {
                self.lose(now, number, LossReason::ShutDown);
                self.retire(now, number);
            }
            let Some(hold) = self.holds.get_mut(&number) else { continue };
            hold.count.remove_all_guards();
            self.clean_up_by_lifeline(now, number);
        }
    }

    /// Whether nothing of this client can be left on the server, and nothing is subscribed to.
    pub fn is_quiet(&self) -> bool {
        self.holds.is_empty() && self.subscriptions.is_empty()
    }

    /// Whether nothing of this client's holds may be on the server. A subscription may be: it ends with its
    /// connection.
    pub fn holds_nothing(&self) -> bool {
        self.holds.is_empty()
    }

    /// Whether a hold that no guard has any more may still be on the server.
    pub fn has_clean_up(&self) -> bool {
        self.holds.values().any(|hold| !hold.count.has_guards())
    }

    /// The locks of which something may be left on the server, by name.
    pub fn unreleased(&self) -> Vec<LockName> {
        let mut names: Vec<LockName> = self.holds.values().map(|hold| self.locks[hold.lock].name.clone()).collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        names
    }
}
