//! The faults of a world: of single calls by chance, of connections, of processes, and of the server.

mod connections;
pub(crate) mod event;
mod expiry;
pub(crate) mod last_faults;
pub(crate) mod mix;
pub(crate) mod plan;
pub(crate) mod processes;
pub(crate) mod rates;
pub(crate) mod server;

use crate::world::draws::Draws;
use bytes::Bytes;
use last_faults::LastFaults;
use rates::{FaultRates, PlannedFault};
use rustc_hash::FxHashSet;

/// The faults to come, and the last that came.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) rates: FaultRates,
    /// Faults for calls to come, in order.
    pub(crate) planned: Vec<PlannedFault>,
    /// By which scripts are refused something in their middle. It is not that of the world, so that everything else in that is what it
    /// would be without.
    pub(crate) insides: Draws,
    pub(crate) last: LastFaults,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let insides = Draws::with_seed(seed);
        Self { rates: FaultRates::default(), planned: Vec::new(), insides, last: LastFaults::default() }
    }
}

/// The doubts that faults have left behind, for which invariants must allow.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// The server has lost data or time, so that what is promised of holds is not promised of those that it had.
    pub(crate) broken: bool,
    /// Something is left to time on the server: the hold of a client that crashed, or what a fault brought back.
    pub(crate) leftovers: bool,
    /// Fencing tokens were lost with other data.
    pub(crate) lost_tokens: bool,
    /// The server's data or time was put back.
    pub(crate) restored: bool,
    /// The server has lost what tells waiters of ours from those of a JVM.
    pub(crate) forgot_processes: bool,
    /// Holds of which a call was sent whose outcome is not known.
    pub(crate) doubtful: FxHashSet<Bytes>,
    /// Holds of which a release was refused because the server did not know its script, and was not sent again.
    pub(crate) refused_releases: FxHashSet<Bytes>,
    /// Holds of which a script was refused something in its middle.
    pub(crate) half_done: FxHashSet<Bytes>,
    /// Holds of which an acquire was on its way for longer than the lease that it asks for.
    pub(crate) outlasted: FxHashSet<Bytes>,
}
