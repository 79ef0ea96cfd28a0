//! The kinds of locks, as marker types.
//!
//! These types have no values. They parameterize `Lock<K>`, `Guard<K>` and `Acquire<K>`. Most methods exist for every kind; the traits of a kind
//! add further methods.

use crate::kinds::group::Rule;
use leasehold_core::command::Kind;
use std::fmt::Debug;

/// A kind of lock. This trait is sealed.
pub trait LockKind: sealed::Sealed + Debug + Send + Sync + 'static {}

/// A kind whose grants include a fencing token.
pub trait Fencing: LockKind {}

/// A kind whose holds belong to an owner that can re-enter them, and whose acquires can wait for replicas. Permits have no owner.
pub trait Owned: Leased {}

/// A kind whose acquires can take several permits.
pub trait Counted: LockKind {}

/// A kind whose holds have a lease.
pub trait Leased: LockKind {}

/// A kind that can stay busy after its release: see [`Acquire::keep_busy_for`](crate::Acquire::keep_busy_for).
pub trait Keepable: Owned {}

/// A kind with at most one holder at a time.
pub trait Exclusive: Owned {}

/// An exclusive kind without a queue on the server, whose inspection shows its holder.
pub trait Inspectable: Exclusive {}

/// A kind that supports grants during an outage of the server: see [`Fallback`](crate::Fallback).
pub trait SupportsFallback: LockKind {}

/// A kind whose hold can move to another process: see [`Ticket`](crate::Ticket). This trait is sealed.
pub trait Movable: Owned + sealed::Moves {}

/// A kind without release notices, whose waiters poll.
pub trait Polled: LockKind {}

/// The number of members of a [`GroupLock`](crate::group::GroupLock) that must be held. This trait is sealed.
pub trait GroupRule: Rule + Clone + Debug + Send + Sync + Unpin + 'static {}

/// All members: [`MultiLock`](crate::MultiLock).
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum AllMembers {}

/// A majority of the servers: [`QuorumLock`](crate::QuorumLock).
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Majority {}

impl GroupRule for AllMembers {}
impl GroupRule for Majority {}

pub(crate) mod sealed {
    #[expect(unnameable_types, reason = "that is what keeps the trait from being implemented elsewhere")]
    pub trait Sealed {}

    #[expect(unnameable_types, reason = "that is what keeps the trait from being implemented elsewhere")]
    pub trait Moves {
        /// The kind in the core.
        const KIND: super::Kind;
        /// The name of the kind in the text of a ticket.
        const WORD: &'static str;
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $($trait:ident),*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[expect(clippy::exhaustive_enums, reason = "it has no values")]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl LockKind for $name {}

        $(impl $trait for $name {})*
    )*

        /// The kinds and their traits.
        #[cfg(test)]
        const TRAITS: &[(&str, &[&str])] = &[$((stringify!($name), &[$(stringify!($trait)),*])),*];
    };
}

kinds! {
    /// The reentrant lock: [`Lock`](crate::Lock).
    Reentrant: SupportsFallback, Owned, Leased, Exclusive, Inspectable, Keepable, Movable;
    /// The fair lock: [`FairLock`](crate::FairLock).
    Fair: Owned, Leased, Exclusive, Movable;
    /// The fair lock with fencing tokens: [`FencedFairLock`](crate::FencedFairLock).
    FencedFair: Owned, Leased, Exclusive, Fencing, Movable;
    /// The fenced lock: [`FencedLock`](crate::FencedLock).
    Fenced: Owned, Leased, Fencing, Exclusive, Inspectable, Keepable, Movable;
    /// The spin lock: [`SpinLock`](crate::SpinLock).
    Spin: SupportsFallback, Owned, Leased, Polled, Exclusive, Inspectable, Keepable;
    /// The simple lock: [`SimpleLock`](crate::SimpleLock).
    Simple: SupportsFallback, Owned, Leased, Polled, Exclusive, Inspectable;
    /// The read half of a read-write lock: [`ReadLock`](crate::ReadLock).
    Read: SupportsFallback, Owned, Leased;
    /// The write half of a read-write lock: [`WriteLock`](crate::WriteLock).
    Write: SupportsFallback, Owned, Leased, Exclusive, Inspectable;
    /// A kind chosen at run time: [`AnyLock`](crate::AnyLock).
    Any: Owned, Leased;
    /// Permits of a bare counter: [`BareSemaphore`](crate::BareSemaphore).
    Counter: Counted;
    /// Permits with ids and leases: [`Semaphore`](crate::Semaphore).
    Permit: Counted, Leased;
}

macro_rules! moves {
    ($($name:ident: $kind:ident, $word:literal;)*) => {$(
        impl sealed::Moves for $name {
            const KIND: Kind = Kind::$kind;
            const WORD: &'static str = $word;
        }
    )*};
}

moves! {
    Reentrant: Lock, "reentrant";
    Fair: Fair, "fair";
    FencedFair: FencedFair, "fenced-fair";
    Fenced: Fenced, "fenced";
}

#[cfg(test)]
mod tests {
    use super::TRAITS;
    use leasehold_core::command::Kind;

    /// Returns the marker of a kind, or `None` for a kind without a public lock type.
    const fn marker(kind: Kind) -> Option<&'static str> {
        Some(match kind {
            Kind::Lock => "Reentrant",
            Kind::Fair => "Fair",
            Kind::FencedFair => "FencedFair",
            Kind::Fenced => "Fenced",
            Kind::Spin => "Spin",
            Kind::Simple => "Simple",
            Kind::Read => "Read",
            Kind::Write => "Write",
            Kind::Semaphore => "Counter",
            Kind::Permits => "Permit",
            Kind::Latch => return None,
        })
    }

    #[test]
    fn kinds_have_the_traits_of_what_they_can() {
        for kind in Kind::ALL {
            let Some(marker) = marker(kind) else { continue };
            let traits = TRAITS.iter().find(|(name, _)| *name == marker).map(|(_, traits)| *traits);
            let traits = traits.unwrap_or_else(|| panic!("there is no marker {marker}"));
            assert_eq!(traits.contains(&"SupportsFallback"), kind.supports_fallback(), "{marker}");
            assert_eq!(traits.contains(&"Leased"), kind.protocol().renewal().is_some(), "{marker}");
            assert_eq!(traits.contains(&"Movable"), kind.may_move(), "{marker}");
            assert_eq!(traits.contains(&"Keepable"), kind.protocol().may_be_kept(), "{marker}");
        }
    }
}
