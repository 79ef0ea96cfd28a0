//! What is said to a server about each kind of lock, and what its replies mean.
//!
//! One file is one kind. [`Verbs`] is what the session asks of a kind; [`Kind`] is the table of them. A kind is added by its folder
//! of scripts, its rows in [`script`](crate::script), its file here, and its line in [`Kind::verbs`].

pub mod fenced;
pub mod lock;
pub mod outcome;
pub mod read_write;
pub mod simple;
pub mod spin;
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
    /// The fenced lock: each grant has a token that is greater than all before.
    Fenced,
    /// The spin lock: releases are announced to nobody, and waiting is by polling.
    Spin,
    /// The simple lock: a string that holds the caller's id, shared with go-zero.
    Simple,
    /// The read half of the read-write lock.
    Read,
    /// The write half of the read-write lock.
    Write,
}

impl Kind {
    /// Every kind, for tables and tests.
    pub const ALL: [Self; 6] = [Self::Lock, Self::Fenced, Self::Spin, Self::Simple, Self::Read, Self::Write];

    /// What the kind does on the wire.
    pub fn verbs(self) -> &'static dyn Verbs {
        match self {
            Self::Lock => &lock::Lock,
            Self::Fenced => &fenced::Fenced,
            Self::Spin => &spin::Spin,
            Self::Simple => &simple::Simple,
            Self::Read => &read_write::Read,
            Self::Write => &read_write::Write,
        }
    }
}
