//! The common part of the kinds of locks in a random world, and the checks of each.

use crate::faults::mix::FaultMix;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::name::LockName;
use leasehold_core::session::AcquireRequest;
use std::fmt;
use std::time::Duration;

/// The locks of a world that have one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum LockFamily {
    /// Reentrant locks.
    #[default]
    Lock,
    /// Fair locks.
    Fair,
    /// Fair locks that give fencing tokens.
    FencedFair,
    /// Fenced locks.
    Fenced,
    /// Spin locks.
    Spin,
    /// Simple locks.
    Simple,
    /// Both halves of read-write locks.
    ReadWrite,
    /// Both halves of read-write locks whose writers come first.
    PreferWriters,
    /// Bare semaphores.
    Semaphore,
    /// Leased semaphores.
    Permits,
    /// Count-down latches.
    Latch,
}

impl fmt::Display for LockFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = clap::ValueEnum::to_possible_value(self);
        f.write_str(shown.as_ref().map_or("", |value| value.get_name()))
    }
}

/// How many permits every semaphore of a world has.
pub(crate) const CAPACITY: u32 = 3;

impl LockFamily {
    pub(crate) const ALL: [Self; 11] = [
        Self::Lock,
        Self::Fair,
        Self::FencedFair,
        Self::Fenced,
        Self::Spin,
        Self::Simple,
        Self::ReadWrite,
        Self::PreferWriters,
        Self::Semaphore,
        Self::Permits,
        Self::Latch,
    ];

    /// Whether one hold excludes all others, or all but those of its sort.
    pub(crate) const fn excludes(self) -> bool {
        !matches!(self, Self::Semaphore | Self::Permits | Self::Latch)
    }

    /// The family of a world whose seed says which: after each round of all mixes of faults the next one.
    pub fn of_seed(seed: u64) -> Self {
        let round = seed / FaultMix::ALL.len() as u64;
        Self::ALL[usize::try_from(round % Self::ALL.len() as u64).unwrap_or_default()]
    }

    /// Whether its locks can be granted within a client while the server is out of reach.
    pub(crate) const fn supports_fallback(self) -> bool {
        matches!(self, Self::Lock | Self::Spin | Self::Simple | Self::ReadWrite | Self::PreferWriters)
    }

    pub(crate) const fn counts(self) -> bool {
        matches!(self, Self::Semaphore | Self::Permits)
    }

    /// A wish for a lock of this family.
    pub(crate) fn wish(self, lock: LockName, lease: Duration, rng: &mut fastrand::Rng) -> AcquireRequest {
        let half = if rng.u8(..3) == 0 { Kind::Write } else { Kind::Read };
        let kind = match self {
            Self::Lock => Kind::Lock,
            Self::Fair => Kind::Fair,
            Self::FencedFair => Kind::FencedFair,
            Self::Fenced => Kind::Fenced,
            Self::Spin => Kind::Spin,
            Self::Simple => Kind::Simple,
            Self::ReadWrite | Self::PreferWriters => half,
            Self::Semaphore => Kind::Semaphore,
            Self::Permits => Kind::Permits,
            Self::Latch => Kind::Latch,
        };
        let mut wish = AcquireRequest::new(lock, kind, lease);
        if self.counts() {
            wish.permits = 1 + rng.u32(..CAPACITY);
        }
        if self == Self::PreferWriters {
            wish.prefer_writers = Some(Duration::from_millis(300));
        }
        wish
    }
}

/// The key of the lock of a call.
pub(crate) fn lock_of(call: &Call) -> Bytes {
    Bytes::copy_from_slice(&call.keys()[0])
}

/// The id that tells one hold from all others in the calls of its kind, and the count that the call is about.
pub(crate) fn hold_of(call: &Call) -> Option<(Bytes, u32)> {
    let (folder, verb) = call.script().name().split_once('/')?;
    if !matches!(verb, "acquire" | "release") || folder == "latch" {
        return None;
    }
    let (id, count) = match folder {
        "semaphore" => (call.keys().get(1)?, call.args().first()?),
        _ => (call.args().first()?, call.args().get(1)?),
    };
    Some((Bytes::copy_from_slice(id), std::str::from_utf8(count).ok()?.parse().ok()?))
}
