//! How much is measured.

use std::time::Duration;

/// Rounds, windows and crowds. The first round of each row warms up and is not among its rounds.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// The time that a JVM has to compile what it runs often.
    pub(crate) warm_up: Duration,
    pub(crate) pairs: Rounds,
    pub(crate) hot: Rounds,
    pub(crate) contended: Rounds,
    pub(crate) queue: Rounds,
    pub(crate) wake_rounds: usize,
    pub(crate) wake_ups: usize,
    /// A library that polls takes up to 200 ms for each.
    pub(crate) polled_rounds: usize,
    pub(crate) polled_wake_ups: usize,
    pub(crate) lines: &'static [usize],
    pub(crate) held: &'static [usize],
    pub(crate) renewals: Renewals,
    pub(crate) waiters: &'static [usize],
}

/// Whether the renewal of held locks is looked at, which takes long.
#[derive(Clone, Copy)]
pub(crate) enum Renewals {
    /// Only the memory of the locks is measured.
    LeftOut,
    /// For so many periods, after a time in which renewals spread that are bunched after many acquires at once.
    Watched { settle: Duration, period: Duration, periods: usize },
}

#[derive(Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) rounds: usize,
    pub(crate) window: Duration,
}

const fn rounds(rounds: usize, millis: u64) -> Rounds {
    Rounds { rounds, window: Duration::from_millis(millis) }
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        warm_up: Duration::from_secs(10),
        pairs: rounds(11, 600),
        hot: rounds(7, 1_000),
        contended: rounds(7, 2_000),
        queue: rounds(7, 2_000),
        wake_rounds: 7,
        wake_ups: 100,
        polled_rounds: 3,
        polled_wake_ups: 20,
        lines: &[10, 1_000, 10_000],
        held: &[10_000, 100_000],
        // A third of the default lease of leasehold and of Redisson, which is their period of renewal.
        renewals: Renewals::Watched { settle: Duration::from_secs(10), period: Duration::from_secs(10), periods: 3 },
        waiters: &[100_000],
    };

    pub(crate) const QUICK: Self = Self {
        warm_up: Duration::from_secs(2),
        pairs: rounds(3, 150),
        hot: rounds(3, 200),
        contended: rounds(3, 300),
        queue: rounds(3, 500),
        wake_rounds: 3,
        wake_ups: 15,
        polled_rounds: 1,
        polled_wake_ups: 6,
        lines: &[10, 1_000],
        held: &[10_000],
        renewals: Renewals::LeftOut,
        waiters: &[10_000],
    };
}
