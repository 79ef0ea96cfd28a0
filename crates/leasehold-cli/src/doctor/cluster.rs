//! The state of a cluster, as one node reports it.

use super::Finding;
use crate::raw::Node;

/// Number of slots in a cluster.
const SLOTS: &str = "16384";

/// Evaluates the state of the cluster.
pub(super) async fn judge(node: &Node) -> Finding {
    match node.ask::<String>("CLUSTER", &["INFO"]).await {
        Ok(text) => of_info(&text),
        Err(why) => Finding::note("cluster", format!("CLUSTER INFO failed: {why}"), "grant CLUSTER INFO to this user"),
    }
}

fn of_info(text: &str) -> Finding {
    let field = |name: &str| text.lines().find_map(|line| line.trim_end().strip_prefix(name)).unwrap_or_default();
    let (assigned, served) = (field("cluster_slots_assigned:"), field("cluster_slots_ok:"));
    // Without cluster-require-full-coverage, the state is ok even if slots are missing.
    if assigned != SLOTS || served != SLOTS {
        let text = format!("{assigned} of {SLOTS} slots have a server, and {served} slots are served");
        let advice = "acquires in the other slots fail; see CLUSTER SLOTS and CLUSTER NODES";
        return Finding::fault("cluster", text, advice);
    }
    if field("cluster_state:") != "ok" {
        return Finding::fault(
            "cluster",
            "the cluster is down, and every acquire fails",
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
