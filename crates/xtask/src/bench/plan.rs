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
    /// The time until the renewals are spread, which are bunched after many acquires at once.
    pub(crate) settle: Duration,
    pub(crate) waiters: &'static [usize],
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
        queue: rounds(5, 2_000),
        wake_rounds: 7,
        wake_ups: 100,
        polled_rounds: 3,
        polled_wake_ups: 20,
        lines: &[10, 1_000, 10_000],
        held: &[10_000, 100_000],
        settle: Duration::from_secs(10),
        waiters: &[100_000],
    };

    pub(crate) const QUICK: Self = Self {
        warm_up: Duration::from_secs(2),
        pairs: rounds(2, 200),
        hot: rounds(2, 300),
        contended: rounds(2, 500),
        queue: rounds(2, 700),
        wake_rounds: 2,
        wake_ups: 30,
        polled_rounds: 1,
        polled_wake_ups: 6,
        lines: &[10, 1_000],
        held: &[1_000],
        settle: Duration::ZERO,
        waiters: &[10_000],
    };
}
