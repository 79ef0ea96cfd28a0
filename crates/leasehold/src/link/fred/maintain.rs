//! What must be done from time to time, by a task on the lifeline's runtime.

use super::notices::Notices;
use super::settle;
use super::slots::{self, Slots};
use super::wire::Shared;
use super::wires::Wires;
use fred::types::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// However many calls doubt the slot map, it is not read more often than this.
const REST: Duration = Duration::from_millis(100);

/// Keeps the slot map and the sharded subscriptions true, and has the server forget connections that ended, until the lifeline
/// is closed.
pub(super) async fn maintain(wires: Arc<Wires>, notices: Arc<Notices>) {
    let shared = Arc::clone(&wires.shared);
    let work = async {
        let mut audited = Instant::now();
        loop {
            let left = shared.settings.audit_interval.saturating_sub(audited.elapsed()).max(Duration::from_millis(10));
            let due = tokio::time::timeout(left, doubted(&shared)).await.is_err();
            if let Some(slots) = &shared.slots {
                refresh(&wires, slots).await;
                notices.check_anchor().await;
            }
            if due {
                bury(&shared, &wires).await;
                notices.audit().await;
                audited = Instant::now();
            }
            tokio::time::sleep(REST).await;
        }
    };
    tokio::select! {
        biased;
        () = wires.closed.cancelled() => {}
        () = work => {}
    }
}

async fn doubted(shared: &Shared) {
    match &shared.slots {
        Some(slots) => slots.doubted.notified().await,
        None => std::future::pending().await,
    }
}

/// Reads the slot map from the first node that answers.
async fn refresh(wires: &Wires, slots: &Slots) {
    let shared = &wires.shared;
    let timeout = Some(shared.settings.command_timeout);
    for (_, wire) in wires.all() {
        let Ok(generation) = wire.current() else { continue };
        let answer = generation.send("CLUSTER", vec![Value::from_static_str("SLOTS")], timeout).await;
        let host = slots::host_and_port(&generation.server).map_or("", |(host, _)| host);
        match answer.map(|answer| slots.learn(&answer, host)) {
            Ok(Ok(changed)) => {
                changed.into_iter().for_each(|slot| shared.slot_moved(slot));
                let primaries = slots.primaries();
                for all in shared.all_wires() {
                    all.prune(&primaries);
                }
                for node in primaries {
                    drop(wires.to(node));
                }
                return;
            }
            Ok(Err(reason)) => tracing::debug!(server = %wire.label(), reason, "the slot map cannot be read"),
            Err(error) => tracing::debug!(server = %wire.label(), %error, "the slot map was not answered"),
        }
    }
}

/// Kills connections that ended, so that nothing of theirs is left to be settled, and the list of them stays short.
async fn bury(shared: &Shared, by: &Wires) {
    for wires in shared.all_wires() {
        for (node, wire) in wires.all() {
            let ended = wire.ended().into_iter().filter(|generation| !generation.is_spared());
            for generation in ended {
                let Some(executioner) = by.known(node) else { break };
                if executioner.current().is_ok() {
                    drop(settle::bury(&generation, &wire, &executioner).await);
                }
            }
        }
    }
}
