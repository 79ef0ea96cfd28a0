//! How often each disturbance has happened. A world that never disturbs shows nothing.

use std::collections::BTreeMap;

/// The disturbances, and what must succeed beside them, by what really happened and not by what was planned.
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
    /// There were requests of the killed connection on their way.
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
    /// The whole of a batch was refused.
    BatchRefused,
}

/// The entries that worlds of one server must have.
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

/// Those that only a cluster has.
pub(super) const OF_A_CLUSTER: [Happened; 6] = [
    Happened::Moved,
    Happened::Asked,
    Happened::TriedAgain,
    Happened::ShardedSubscriptionDropped,
    Happened::BatchExecuted,
    Happened::BatchRefused,
];

/// How often each has happened.
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

    /// Those that never happened.
    pub(super) fn missing(&self, wanted: &[Happened]) -> Vec<Happened> {
        wanted.iter().copied().filter(|what| !self.0.contains_key(what)).collect()
    }
}
