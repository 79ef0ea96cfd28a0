//! The scripts of the clients in a small world.

use leasehold_core::command::Kind;
use leasehold_core::session::LingerTime;
use leasehold_core::settings::HandOver;
use std::fmt;
use std::time::Duration;

/// The subject of a small world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[non_exhaustive]
pub enum Subject {
    /// A reentrant lock, which every client acquires twice.
    Reentrant,
    /// A reentrant lock, which one task of the first client hands over to another task.
    HandOver,
    /// A reentrant lock that lingers.
    Linger,
    /// A fair lock.
    Fair,
    /// A read-write lock, with a writer that becomes a reader.
    ReadWrite,
    /// A leased semaphore.
    Permits,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = clap::ValueEnum::to_possible_value(self);
        f.write_str(shown.as_ref().map_or("", |value| value.get_name()))
    }
}

/// One operation of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Acquires for the client's owner, and keeps the guard.
    Acquire { kind: Kind, permits: u32, renewed: bool },
    /// Acquires in another task, without an owner, while the script continues.
    AcquireBeside { kind: Kind, renewed: bool },
    /// Releases the guard of this acquire of the script, counted from 0, once the acquire ends with a guard.
    Release(usize),
}

/// How long a hold lingers: less than the time until its renewal.
const LINGER: Duration = Duration::from_millis(48);

/// Number of permits of a semaphore.
pub(crate) const CAPACITY: u32 = 2;

impl Subject {
    /// Every subject.
    pub const ALL: [Self; 6] =
        [Self::Reentrant, Self::HandOver, Self::Linger, Self::Fair, Self::ReadWrite, Self::Permits];

    /// The operations of a client, of so many. With three clients or more, leases are not renewed: that is followed with fewer. A hold
    /// that is not renewed does not linger.
    pub(crate) fn script(self, client: usize, clients: usize) -> Vec<Operation> {
        use Operation::{Acquire, AcquireBeside, Release};
        let renewed = clients < 3 || self == Self::Linger;
        let take = |kind| Acquire { kind, permits: 1, renewed };
        match (self, client) {
            (Self::Reentrant, 1..) if clients > 2 => vec![take(Kind::Lock), Release(0)],
            (Self::Reentrant, _) => vec![take(Kind::Lock), take(Kind::Lock), Release(1), Release(0)],
            (Self::HandOver, 0) => {
                let beside = AcquireBeside { kind: Kind::Lock, renewed };
                vec![take(Kind::Lock), beside, Release(0), Release(1)]
            }
            // The first hold starts the subscription, the second hold lingers, and the third acquire reuses it.
            (Self::Linger, 0) => {
                let again = |index| [take(Kind::Lock), Release(index)];
                (0..3).flat_map(again).collect()
            }
            (Self::HandOver | Self::Linger, _) => vec![take(Kind::Lock), Release(0)],
            (Self::Fair, _) => vec![take(Kind::Fair), Release(0)],
            (Self::ReadWrite, 0) if clients > 2 => vec![take(Kind::Write), Release(0)],
            (Self::ReadWrite, _) if clients > 2 => vec![take(Kind::Read), Release(0)],
            (Self::ReadWrite, 0) => vec![take(Kind::Write), take(Kind::Read), Release(0), Release(1)],
            (Self::ReadWrite, 1) => vec![take(Kind::Read), Release(0)],
            (Self::ReadWrite, _) => vec![take(Kind::Write), Release(0)],
            (Self::Permits, 1) => vec![Acquire { kind: Kind::Permits, permits: CAPACITY, renewed }, Release(0)],
            (Self::Permits, _) => vec![take(Kind::Permits), Release(0)],
        }
    }

    /// How long a client may be silent before its waiters lose their places in a queue. Three clients seldom say that they live: what a
    /// heartbeat meets while something else is under way is followed with fewer.
    pub(crate) const fn window(clients: usize) -> Duration {
        if clients < 3 { Duration::from_secs(2) } else { Duration::from_secs(20) }
    }

    /// How the clients hand holds on to their own tasks.
    pub(crate) const fn hand_over(self) -> Option<HandOver> {
        match self {
            Self::HandOver => Some(HandOver { most: 1, within: Duration::from_secs(1) }),
            _ => None,
        }
    }

    /// Returns how long holds linger.
    pub(crate) fn linger(self) -> Option<LingerTime> {
        (self == Self::Linger).then(|| LingerTime::new(LINGER)).flatten()
    }

    /// Returns a kind with the keys and the channel of the subject.
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Reentrant | Self::HandOver | Self::Linger => Kind::Lock,
            Self::Fair => Kind::Fair,
            Self::ReadWrite => Kind::Write,
            Self::Permits => Kind::Permits,
        }
    }
}
