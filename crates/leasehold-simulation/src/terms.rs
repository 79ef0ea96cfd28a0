//! The terms of a world: the kind of its locks, the mix of its faults, its settings, and the choices of its users.

use leasehold_core::name::LockName;
use leasehold_core::owner::OwnerId;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::fmt;
use std::time::Duration;

/// The longest lease in a random world.
pub(crate) const LEASE: Duration = ms(1_200);
/// Until when a random world is disturbed.
pub(crate) const DISTURBED: Duration = ms(4_000);

/// Values to choose from, and the source of the choices. It is not that of the world, so that everything else in the world is what it
/// would be without them.
#[derive(Debug)]
pub(crate) struct Choices<T> {
    pub(crate) rng: fastrand::Rng,
    pub(crate) of: T,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) family: LockFamily,
    pub(crate) mix: FaultMix,
    pub(crate) settings: Settings,
    pub(crate) locks: u64,
    /// The families of all locks but the first, where they are not that of the world.
    pub(crate) others: Vec<LockFamily>,
    /// How many clients there are from the beginning.
    pub(crate) clients: usize,
    /// No user is late and nothing goes wrong, so that a fair queue is served in the order in which it came to be.
    pub(crate) orderly: bool,
    /// Nothing goes wrong but that clients crash, and that users are late or drop what they asked for.
    pub(crate) fault_free: bool,
    /// The server loses neither data nor time, and no clock is wrong beyond the margin.
    pub(crate) keeps_data: bool,
    /// A copy of a command may come late, or it cannot be proven that none does.
    pub(crate) copies: bool,
    pub(crate) owners: Vec<Vec<OwnerId>>,
    /// By which requests are chosen that go on without the server, if any do.
    pub(crate) fallbacks: Option<fastrand::Rng>,
    /// The leases that requests choose from, where there are several.
    pub(crate) leases: Option<Choices<Vec<Duration>>>,
    /// For how long at most locks stay busy after their release, if they do.
    pub(crate) least_times: Option<Choices<Duration>>,
    /// For how long at most tickets live, if holds move between clients.
    pub(crate) tickets: Option<Choices<Duration>>,
    /// How many users are about to come with a ticket.
    pub(crate) tickets_sent: u32,
    /// For how long at most locks linger, if they do.
    pub(crate) lingering: Option<Choices<Duration>>,
    /// By which choices requests wait for a replica, if they do.
    pub(crate) replicas: Option<fastrand::Rng>,
    /// How long a guard is kept.
    pub(crate) hold: Duration,
    /// How likely it is that a future is polled late, or never, or is dropped.
    pub(crate) late: f64,
    pub(crate) never: f64,
    pub(crate) dropped: f64,
    /// Nothing goes wrong any more, and no user begins anything.
    pub(crate) over: bool,
    /// When that began.
    pub(crate) ended: Instant,
}

impl Plan {
    pub(crate) fn lock_names(&self) -> impl Iterator<Item = LockName> + use<> {
        (0..self.locks).map(|lock| name(&format!("lock{lock}")))
    }

    /// How long a message may still be on the way when the faults end.
    pub(crate) fn under_way(&self) -> Duration {
        ms(if self.copies || self.mix.has(FaultMix::Delays) { 3_500 } else { 1_500 })
    }
}

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

    /// Whether its locks can wait for replicas.
    pub(crate) const fn is_durable(self) -> bool {
        !matches!(self, Self::Semaphore | Self::Permits | Self::Latch)
    }
}

/// Which faults a world meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FaultMix {
    /// No user is late, and nothing goes wrong but that clients crash.
    #[default]
    Orderly,
    /// Futures are polled late, or never, or dropped. So they are in all that follow.
    Impatience,
    /// Messages are lost, and scripts are refused something in their middle.
    Losses,
    Delays,
    /// Clients are cut off, and the server restarts.
    Outages,
    Copies,
    /// Nothing can be proven to be dead, and the server refuses.
    Unproven,
    /// All of these.
    Messages,
    /// Crashes, pauses, and clocks that are wrong within the margin.
    Processes,
    /// Messages and processes.
    Both,
    /// The server loses data or time, or a clock is wrong beyond the margin.
    Data,
    Everything,
}

impl FaultMix {
    pub(crate) const ALL: [Self; 12] = [
        Self::Orderly,
        Self::Impatience,
        Self::Losses,
        Self::Delays,
        Self::Outages,
        Self::Copies,
        Self::Unproven,
        Self::Messages,
        Self::Processes,
        Self::Both,
        Self::Data,
        Self::Everything,
    ];

    /// The mix of a world: all of them in turn.
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self::ALL[usize::try_from(seed % Self::ALL.len() as u64).unwrap_or_default()]
    }

    /// Whether faults of a mix happen in this one.
    pub(crate) fn has(self, other: Self) -> bool {
        self == other
            || match self {
                Self::Everything => other != Self::Orderly,
                Self::Both => other != Self::Orderly && other != Self::Data && other != Self::Everything,
                Self::Messages => {
                    matches!(other, Self::Losses | Self::Delays | Self::Outages | Self::Copies | Self::Unproven)
                }
                _ => false,
            }
    }
}

/// A time at which a world is disturbed.
pub(crate) fn some_time(rng: &mut fastrand::Rng) -> Duration {
    DISTURBED.mul_f64(rng.f64())
}

/// A time of any order of magnitude between a millisecond and `most`.
pub(crate) fn any_length(rng: &mut fastrand::Rng, most: Duration) -> Duration {
    ms(1).mul_f64((most.as_secs_f64() * 1e3).powf(rng.f64()))
}

/// Settings with short times.
pub(crate) fn settings() -> Settings {
    Settings {
        lease: ms(3_000),
        recheck: ms(3_000),
        command_timeout: ms(200),
        unreachable_after: ms(2_000),
        ..Settings::default()
    }
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new("", name).expect("the name is valid")
}

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
