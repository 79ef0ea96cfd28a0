//! The lock within this client: whether a task of the client keeps the others from asking the server.
//!
//! The gate of a lock is shut while a task has it, if any request for it has chosen `Fallback::Local`.

use crate::command::Kind;
use crate::session::ids::LockId;
use crate::session::parts::Parts;

impl Parts {
    /// A task of this client has the lock, and every request for it falls back to the lock within this client: it waits here.
    pub(super) fn is_gated(&self, lock: LockId) -> bool {
        self.is_local(lock) && self.excluders(lock).any(|at| self.locks[at].is_held())
    }

    /// The locks whose holders keep a hold of this one out: itself, and the other half of a read-write lock. Readers keep no reader out.
    pub(super) fn excluders(&self, lock: LockId) -> impl Iterator<Item = LockId> {
        let (itself, other_half) = match self.locks[lock].kind() {
            Kind::Read => (None, self.locks.sibling(lock, Kind::Write)),
            Kind::Write => (Some(lock), self.locks.sibling(lock, Kind::Read)),
            _ => (Some(lock), None),
        };
        itself.into_iter().chain(other_half)
    }

    /// Whether any request takes the lock, or the other half of it, within this client first.
    pub(super) fn is_local(&self, lock: LockId) -> bool {
        self.locks.same_name(lock).any(|at| self.locks[at].is_local())
    }
}
