//! A cluster's description of itself, as one of its nodes gives it.

use super::Finding;
use crate::raw::Node;

/// The slots of every cluster.
const SLOTS: &str = "16384";

/// Judges the cluster from the point of view of a node.
pub(super) async fn judge(node: &Node) -> Finding {
    match node.ask::<String>("CLUSTER", &["INFO"]).await {
        Ok(text) => of_info(&text),
        Err(why) => {
            Finding::note("cluster", format!("CLUSTER INFO was not answered: {why}"), "allow CLUSTER INFO to this user")
        }
    }
}

fn of_info(text: &str) -> Finding {
    let field = |name: &str| text.lines().find_map(|line| line.trim_end().strip_prefix(name)).unwrap_or_default();
    let (assigned, served) = (field("cluster_slots_assigned:"), field("cluster_slots_ok:"));
    // A cluster that need not be whole is in the state ok without some of its slots.
    if assigned != SLOTS || served != SLOTS {
        let text = format!("of {SLOTS} slots {assigned} have a server, and {served} of these are served");
        let advice = "locks in the other slots cannot be had; see CLUSTER SLOTS and CLUSTER NODES";
        return Finding::fault("cluster", text, advice);
    }
    if field("cluster_state:") != "ok" {
        return Finding::fault(
            "cluster",
            "the cluster is down, and no lock is to be had",
            "see CLUSTER INFO and CLUSTER NODES",
        );
    }
    Finding::good("cluster", "all slots are served")
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn slot_without_a_server_is_a_fault_in_any_state() {
        let info = |state, assigned, ok| {
            let text =
                format!("cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{ok}\r\n");
            of_info(&text).verdict
        };
        assert_eq!(info("ok", 16_384, 16_384), Verdict::Good);
        for (state, assigned, ok) in [("ok", 16_383, 16_383), ("ok", 16_384, 10_923), ("fail", 16_384, 16_384)] {
            assert_eq!(info(state, assigned, ok), Verdict::Fault, "{state} {assigned} {ok}");
        }
    }
}
