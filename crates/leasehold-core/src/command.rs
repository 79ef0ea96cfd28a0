//! What is said to a server about each kind of lock, and what its replies mean.
//!
//! One file is one kind. [`Verbs`] is what the session asks of a kind; [`Kind`] is the table of them. A kind is added by its folder
//! of scripts, its rows in [`script`](crate::script), its file here, and its line in [`Kind::verbs`].

pub mod fair;
pub mod lock;
pub mod outcome;
pub mod verbs;

pub use outcome::{Acquired, Released, Renewed};
pub use verbs::{Ask, Give, HoldKey, Keys, Line, Renewal, Verbs};

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
    /// The lock that is a string under a name of the caller's, as go-zero's is.
    Simple,
    /// The read half of the read-write lock.
    Read,
    /// The write half of the read-write lock.
    Write,
    /// The counter of permits.
    Semaphore,
    /// Permits that have ids and leases.
    Permits,
    /// The count-down latch.
    Latch,
}

impl Kind {
    /// Every kind, for tables and tests.
    pub const ALL: [Self; 3] = [Self::Lock, Self::Fair, Self::FencedFair];

    /// What the kind does on the wire.
    pub fn verbs(self) -> &'static dyn Verbs {
        match self {
            Self::Lock => &lock::Lock,
            Self::Fair => &fair::Fair,
            Self::FencedFair => &fair::FencedFair,
            _ => &lock::Lock,
        }
    }
}
