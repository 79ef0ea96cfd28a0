//! Counts disturbances. A world without disturbances proves nothing.

use std::collections::BTreeMap;

/// The disturbances, and the successes beside them, as they happened and not as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happened {
    CallAnswered,
    SettlingProven,
    NoticeTold,
    RequestHeld,
    ReplyHeld,
    ConnectionCut,
    /// A server executed a call of a connection that its client had lost.
    CallOfLostConnection,
    ConnectionRefused,
    ConnectionKilled,
    /// Requests of the killed connection were in transit.
    RequestsKilled,
    KillForbidden,
    ServerRestarted,
    ScriptUnknown,
    ScriptFailed,
    OutOfMemory,
    ExecutorBlocked,
    HomeSlept,
    HomeEnded,
    FutureDropped,
    FutureLeftAlone,
    Unproven,
    Moved,
    Asked,
    TriedAgain,
    ShardedSubscriptionDropped,
    BatchExecuted,
    /// A whole batch was refused.
    BatchRefused,
}

/// The entries required of worlds with one server.
pub(super) const OF_ONE: [Happened; 23] = [
    Happened::CallAnswered,
    Happened::SettlingProven,
    Happened::NoticeTold,
    Happened::RequestHeld,
    Happened::ReplyHeld,
    Happened::ConnectionCut,
    Happened::CallOfLostConnection,
    Happened::ConnectionRefused,
    Happened::ConnectionKilled,
    Happened::RequestsKilled,
    Happened::KillForbidden,
    Happened::ServerRestarted,
    Happened::ScriptUnknown,
    Happened::ScriptFailed,
    Happened::OutOfMemory,
    Happened::ExecutorBlocked,
    Happened::HomeSlept,
    Happened::HomeEnded,
    Happened::FutureDropped,
    Happened::FutureLeftAlone,
    Happened::Unproven,
    Happened::BatchExecuted,
    Happened::BatchRefused,
];

/// The entries of clusters only.
pub(super) const OF_A_CLUSTER: [Happened; 6] = [
    Happened::Moved,
    Happened::Asked,
    Happened::TriedAgain,
    Happened::ShardedSubscriptionDropped,
    Happened::BatchExecuted,
    Happened::BatchRefused,
];

/// The number of occurrences.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(pub(super) BTreeMap<Happened, u64>);

impl Tally {
    pub(super) fn note(&mut self, what: Happened) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(*what).or_default() += count;
        }
    }

    /// The entries that never occurred.
    pub(super) fn missing(&self, wanted: &[Happened]) -> Vec<Happened> {
        wanted.iter().copied().filter(|what| !self.0.contains_key(what)).collect()
    }
}
