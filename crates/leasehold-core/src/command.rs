//! The calls of each kind of lock, and the meaning of their replies.
//!
//! Each file contains a kind, or several similar kinds. [`KindProtocol`] is the interface to the session; [`Kind`]
//! lists all kinds. `docs/architecture.md`, "How to add a kind of lock", describes the steps for a new kind.

pub mod any;
pub mod durable;
pub mod fair;
pub mod fenced;
pub mod holder;
pub mod latch;
pub mod lock;
pub mod operation;
pub mod outcome;
pub mod permits;
pub mod protocol;
pub mod read_write;
pub mod record;
pub mod semaphore;
pub mod simple;
pub mod store;
pub mod ticket;

pub use outcome::{Acquired, Listeners, Released, Renewed};
pub use protocol::{AcquireArgs, HoldKey, Keys, KindProtocol, ReleaseArgs, Renewal, WaitPolicy};

/// A kind of lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the runtime has a public type for each")]
pub enum Kind {
    /// The reentrant lock.
    #[default]
    Lock,
    /// The fair lock.
    Fair,
    /// The fair lock with fencing tokens.
    FencedFair,
    /// The lock with fencing tokens.
    Fenced,
    /// The lock whose waiters poll.
    Spin,
    /// The lock that is a string under the caller's name, as in go-zero.
    Simple,
    /// The read half of the read-write lock.
    Read,
    /// The write half of the read-write lock.
    Write,
    /// The counter of permits.
    Semaphore,
    /// Permits with ids and leases.
    Permits,
    /// The count-down latch.
    Latch,
}

impl Kind {
    /// All kinds, for tables and tests.
    pub const ALL: [Self; 11] = [
        Self::Lock,
        Self::Fair,
        Self::FencedFair,
        Self::Fenced,
        Self::Spin,
        Self::Simple,
        Self::Read,
        Self::Write,
        Self::Semaphore,
        Self::Permits,
        Self::Latch,
    ];

    /// Returns whether a client can grant the kind locally while its server is unreachable. The other kinds need the
    /// server for fencing tokens, fair queues or permits.
    pub const fn supports_fallback(self) -> bool {
        matches!(self, Self::Lock | Self::Spin | Self::Simple | Self::Read | Self::Write)
    }

    /// Returns whether a hold of the kind can move to another process. The lock must be exclusive, and a hash of hold
    /// counts.
    pub const fn may_move(self) -> bool {
        matches!(self, Self::Lock | Self::Fair | Self::FencedFair | Self::Fenced)
    }

    /// The protocol of the kind on the wire.
    pub fn protocol(self) -> &'static dyn KindProtocol {
        match self {
            Self::Lock => &lock::Lock { is_silent: false },
            Self::Fair => &fair::Fair { is_fenced: false },
            Self::FencedFair => &fair::Fair { is_fenced: true },
            Self::Fenced => &fenced::Fenced,
            Self::Spin => &lock::Lock { is_silent: true },
            Self::Simple => &simple::Simple,
            Self::Read => &read_write::Read,
            Self::Write => &read_write::Write,
            Self::Semaphore => &semaphore::Semaphore,
            Self::Permits => &permits::Permits,
            Self::Latch => &latch::Latch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::LockName;
    use crate::owner::ClientId;

    #[test]
    fn a_cluster_refuses_what_it_cannot_place() {
        // Redisson's names on Redis 7.0: the names that a script with all keys of the kind can use.
        for (raw, all_but_latches, latches) in [
            ("plain", true, true),
            ("é", true, true),
            ("a{b}c", true, false),
            ("{a}{b}", true, false),
            ("}x{a}", true, false),
            ("a{b", false, true),
            ("a}b", false, false),
            ("{}x", false, false),
            ("x{}y", false, false),
        ] {
            let name = LockName::new("", raw).expect("the name is valid");
            for kind in Kind::ALL {
                let placeable = match kind {
                    Kind::Latch => latches,
                    // A single key always has a slot.
                    Kind::Simple | Kind::Spin => true,
                    _ => all_but_latches,
                };
                let checked = kind.protocol().keys(&name, &ClientId::new(uuid::Uuid::nil())).check_cluster(&name);
                assert_eq!(checked.is_ok(), placeable, "{raw} as {kind:?}");
            }
        }
    }
}
