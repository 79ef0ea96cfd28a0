//! The regular duties of a link, done by a task on the lifeline's runtime.

use super::error::ConnectError;
use super::generation::Generation;
use super::notices::Notices;
use super::pools::Pools;
use super::settings::Backoff;
use super::shared::Shared;
use super::slots::{self, Node, Slots};
use super::wires::Wires;
use super::{settle, target};
use fred::types::Value;
use fred::types::config::ServerConfig;
use futures_util::FutureExt as _;
use leasehold_core::link::{LinkEvent, Plane, Settled};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// However many calls doubt the slot map, it is not read more often than this.
const REST: Duration = Duration::from_millis(100);

/// Keeps the slot map and the sharded subscriptions true, and has the server forget connections that ended, until the lifeline
/// is closed.
pub(super) async fn maintain(pools: Arc<Pools>, wires: Arc<Wires>, notices: Arc<Notices>) {
    let shared = Arc::clone(&wires.shared);
    let work = async {
        let mut audited = Instant::now();
        let mut search = Search::default();
        loop {
            let audit = audited + shared.settings.audit_interval;
            let next = search.next.map_or(audit, |search| search.min(audit));
            let left = next.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
            drop(tokio::time::timeout(left, doubted(&shared)).await);
            if let Some(slots) = &shared.slots {
                if refresh(&pools, &wires, slots).await {
                    search = Search::default();
                } else {
                    search.at_the_seeds(&pools, &wires, slots).await;
                }
                notices.check_anchor().await;
            }
            if Instant::now() >= audit {
                bury(&pools, &wires).await;
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

/// The way back to a cluster of which no node answers any more: all of them may have come back under other addresses.
#[derive(Default)]
struct Search {
    backoff: Backoff,
    /// Not before then again.
    next: Option<Instant>,
}

impl Search {
    /// Asks the addresses of the URL, with their names resolved anew, as often as a server that is down is asked.
    async fn at_the_seeds(&mut self, pools: &Pools, wires: &Wires, slots: &Slots) {
        let Some(next) = self.next else {
            // Connections that were only cut stand again by then.
            self.next = Some(Instant::now() + self.backoff.after_failure());
            return;
        };
        if Instant::now() < next {
            return;
        }
        let shared = &wires.shared;
        let seeds = shared.target.seeds().into_iter().map(|seed| ask_seed(shared, slots, seed).boxed());
        match futures_util::future::select_ok(seeds).await {
            Ok((changed, _)) => {
                tracing::debug!("the cluster was found again by the addresses of the URL");
                settle_in(pools, wires, slots, changed);
                // No outcome depends on it: what owns no slot is not settled, and its connections have ended. It keeps the lists short.
                slots.forget_strangers();
                // The connections are new ones, and cannot tell that there were others before.
                shared.reset_notices();
                for plane in [Plane::Foreground, Plane::Lifeline] {
                    shared.inbox.event(LinkEvent::PlaneReset(plane));
                }
                *self = Self::default();
            }
            Err(error) => {
                tracing::debug!(%error, "no address of the URL leads to the cluster");
                self.next = Some(Instant::now() + self.backoff.after_failure());
            }
        }
    }
}

/// Reads the slot map by a connection of its own, and tells which slots changed their owner.
async fn ask_seed(shared: &Shared, slots: &Slots, seed: ServerConfig) -> Result<Vec<u16>, ConnectError> {
    let server = target::label(&seed);
    let (generation, _router) = Generation::connect(&shared.target, seed, &shared.settings, 16).await?;
    let timeout = Some(shared.settings.command_timeout);
    let answer = generation.send("CLUSTER", vec![Value::from_static_str("SLOTS")], timeout).await;
    generation.end();
    let host = slots::host_and_port(&generation.server).map_or("", |(host, _)| host);
    let protocol = |reason| ConnectError::Protocol { server: server.clone(), reason, source: None };
    slots.learn(&answer.map_err(|error| protocol(error.to_string()))?, host).map_err(protocol)
}

/// Follows the slot map: connections to nodes that own nothing end, others are made.
fn settle_in(pools: &Pools, wires: &Wires, slots: &Slots, changed: Vec<u16>) {
    changed.into_iter().for_each(|slot| pools.shared.slot_moved(slot));
    let in_use = slots.in_use();
    for all in pools.all() {
        all.prune(&in_use);
    }
    for node in slots.primaries() {
        drop(wires.to(node));
    }
}

/// Reads the slot map from the first node that answers, if one does.
async fn refresh(pools: &Pools, wires: &Wires, slots: &Slots) -> bool {
    let shared = &wires.shared;
    let timeout = Some(shared.settings.command_timeout);
    for (_, wire) in wires.all() {
        let Ok(generation) = wire.current() else { continue };
        let answer = generation.send("CLUSTER", vec![Value::from_static_str("SLOTS")], timeout).await;
        let host = slots::host_and_port(&generation.server).map_or("", |(host, _)| host);
        match answer.map(|answer| slots.learn(&answer, host)) {
            Ok(Ok(changed)) => {
                settle_in(pools, wires, slots, changed);
                return true;
            }
            Ok(Err(reason)) => tracing::debug!(server = %wire.label(), reason, "the slot map cannot be read"),
            Err(error) => tracing::debug!(server = %wire.label(), %error, "the slot map was not answered"),
        }
    }
    false
}

/// Kills connections that ended, so that nothing of theirs is left to be settled, and the list of them stays short.
async fn bury(pools: &Pools, by: &Wires) {
    let shared = &pools.shared;
    if let Some(slots) = &shared.slots {
        for node in slots.quiet_goals() {
            let audits = if are_killed(pools, by, node).await { slots::QUIET } else { slots::UNREACHABLE };
            slots.forget_goal(node, audits);
        }
    }
    for wires in pools.all() {
        for (node, wire) in wires.all() {
            let ended = wire.ended().into_iter().filter(|generation| !generation.is_spared());
            for generation in ended {
                let Some(executioner) = by.known(node) else { break };
                if executioner.current().is_ok() {
                    drop(settle::bury(&generation, &wire, &executioner).await);
                }
            }
        }
        bury_retired(shared, &wires, by).await;
    }
}

/// Kills the connections to a node to which an `ASK` led, and which has not taken the slot over. Tells whether all of them are dead.
async fn are_killed(pools: &Pools, by: &Wires, node: Node) -> bool {
    let Some(executioner) = by.to(node) else { return true };
    if executioner.current().is_err() {
        return false;
    }
    for wire in pools.all().iter().filter_map(|wires| wires.known(node)) {
        let (generations, forgot) = wire.unburied();
        for generation in generations {
            generation.end();
            if settle::bury(&generation, &wire, &executioner).await != Ok(Settled::Proven) {
                return false;
            }
        }
        if forgot {
            return false;
        }
    }
    true
}

/// The same for connections to addresses that were given up: the process behind one may be a node under another address, or is none.
async fn bury_retired(shared: &Shared, wires: &Wires, by: &Wires) {
    let primaries: Vec<_> = shared.slots.iter().flat_map(Slots::primaries).filter_map(|node| by.known(node)).collect();
    let Ok(known) = primaries.iter().map(|wire| wire.current()).collect::<Result<Vec<_>, _>>() else { return };
    for wire in wires.retired().0 {
        let mut gone = true;
        for generation in wire.unburied().0 {
            let mut each = known.iter().map(|node| generation.is_of_process(node));
            gone &= each.clone().all(|same| same.is_some());
            let node = each.position(|same| same == Some(true));
            if let Some(executioner) = node.and_then(|at| primaries.get(at)) {
                gone = false;
                if !generation.is_spared() {
                    drop(settle::bury(&generation, &wire, executioner).await);
                }
            }
        }
        if gone {
            wires.forget(&wire);
        }
    }
}
