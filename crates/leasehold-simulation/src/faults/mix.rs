//! The mixes of faults that worlds are of.

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
