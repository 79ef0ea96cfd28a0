//! The calls of scripts that the nodes of a cluster carry out, as they tell them by `MONITOR`. No proxy stands before a cluster, because its nodes
//! name themselves.

use leasehold_test_support::{Cluster, Monitor, Resp};
use std::sync::Arc;

/// Commands that carry calls: scripts, and plain commands in their place.
const CALLS: [&str; 4] = ["EVALSHA", "SET", "DELEX", "DELIFEQ"];

/// A command, word by word.
pub(crate) type Words = Vec<Vec<u8>>;

/// Listens to all nodes of a cluster, until they are gone.
pub(crate) struct Monitors {
    cluster: Arc<Cluster>,
    monitors: Vec<Monitor>,
}

impl Monitors {
    pub(crate) fn of(cluster: &Arc<Cluster>) -> Self {
        Self { cluster: cluster.clone(), monitors: cluster.nodes().iter().map(Monitor::of).collect() }
    }

    /// The calls of scripts up to now, in the order in which the nodes have carried them out.
    #[track_caller]
    pub(crate) fn calls(&self) -> Vec<Words> {
        let told = self.monitors.iter().zip(self.cluster.nodes()).flat_map(|(monitor, node)| monitor.commands(node));
        let mut told: Vec<_> = told.collect();
        told.sort_by_key(|command| command.micros);
        told.into_iter()
            .filter(|command| !command.by_script && CALLS.contains(&command.name().as_str()))
            .map(|command| command.words)
            .collect()
    }

    /// Has a call carried out once more.
    #[track_caller]
    pub(crate) fn replay(&self, call: &Words) -> Resp {
        let key = if call[0] == b"EVALSHA" { &call[3] } else { &call[1] };
        let key = String::from_utf8_lossy(key);
        self.cluster.node_of(&key).command(call)
    }
}
