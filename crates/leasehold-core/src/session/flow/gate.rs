//! The lock within this client: whether a task of the client keeps the others from asking the server.
//!
//! The gate of a lock is shut while a task has it, if any request for it has chosen `Fallback::Local`.

use crate::command::Kind;
use crate::session::ids::LockId;
use crate::session::parts::Parts;

impl Parts {
    /// A task of this client has the lock, and every request for it falls back to the lock within this client: it waits here.
    pub(super) fn is_gated(&self, lock: LockId) -> bool {
        let state = &self.locks[lock];
        if !self.is_local(lock) {
            return false;
        }
        let held_as = |kind: Kind| self.locks.sibling(lock, kind).is_some_and(|at| self.locks[at].is_held());
        match state.kind() {
            Kind::Read => held_as(Kind::Write),
            Kind::Write => state.is_held() || held_as(Kind::Read),
            _ => state.is_held(),
        }
    }

    /// Whether any request takes the lock, or the other half of it, within this client first.
    fn is_local(&self, lock: LockId) -> bool {
        self.locks.same_name(lock).any(|at| self.locks[at].is_local())
    }
}
