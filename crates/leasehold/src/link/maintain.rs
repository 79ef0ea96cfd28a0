//! The periodic checks of a link, in a task on the background's runtime.

use super::connection::Connection;
use super::notices::Notices;
use super::pool::{Backoff, Pool, Unconfirmed};
use super::route::{Node, Slots};
use super::{route, settle};
use crate::telemetry::event;
use leasehold_core::link::{LinkError, LinkEvent, Settled};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// The minimum interval between reads of the slot map, regardless of the number of misdirected calls.
const REST: Duration = Duration::from_millis(100);

/// Updates the slot map and the sharded subscriptions, and kills ended connections, until the background is closed.
pub(super) async fn maintain(pools: Arc<[Arc<Pool>]>, pool: Arc<Pool>, notices: Arc<Notices>) {
    let shared = Arc::clone(&pool.shared);
    let work = async {
        let mut audit = shared.next_audit();
        let mut search = Search::default();
        loop {
            let next = search.next.map_or(audit, |search| search.min(audit));
            let next = next.max(Instant::now() + Duration::from_millis(10));
            let doubted = async {
                match &shared.slots {
                    Some(slots) => slots.doubted.notified().await,
                    None => std::future::pending().await,
                }
            };
            drop(tokio::time::timeout_at(next, doubted).await);
            if let Some(slots) = &shared.slots {
                if refresh(&pools, &pool, slots).await {
                    search = Search::default();
                } else {
                    search.at_the_seeds(&pools, &pool, slots).await;
                }
                notices.check_anchor().await;
                tokio::time::sleep(REST).await;
            }
            if Instant::now() >= audit {
                kill_ended(&pools, &pool).await;
                notices.audit().await;
                audit = shared.next_audit();
            }
        }
    };
    tokio::select! {
        biased;
        () = shared.closed.cancelled() => {}
        () = work => {}
    }
}

/// Reconnects to a cluster without reachable nodes, which may have returned at other addresses.
#[derive(Default)]
struct Search {
    backoff: Backoff,
    next: Option<Instant>,
}

impl Search {
    /// Tries the addresses of the URL, with a new name lookup, at the pace of reconnects.
    async fn at_the_seeds(&mut self, pools: &[Arc<Pool>], pool: &Pool, slots: &Slots) {
        let network = &pool.shared.settings.network;
        let Some(next) = self.next else {
            // By then, interrupted connections have reconnected.
            self.next = Some(Instant::now() + self.backoff.after_failure(network));
            return;
        };
        if Instant::now() < next {
            return;
        }
        let shared = &pool.shared;
        let seeds = shared.target.servers.iter().map(|seed| {
            Box::pin(async move {
                let connection =
                    Connection::connect(&shared.target, seed.clone(), &shared.settings, &shared.inbox).await?;
                slots.read(&connection, shared.settings.command_timeout).await
            })
        });
        match futures_util::future::select_ok(seeds).await {
            Ok((changed, _)) => {
                event!(debug, "found the cluster again at an address of the URL");
                settle_in(pools, pool, slots, changed);
                // This keeps the lists short. A settling skips nodes without slots, whose connections have ended.
                slots.prune_unowned();
                // New connections cannot report that they replace earlier ones.
                shared.reset_notices();
                shared.events.event(LinkEvent::CallsReset);
                *self = Self::default();
            }
            Err(error) => {
                event!(debug, %error, "found the cluster at no address of the URL");
                self.next = Some(Instant::now() + self.backoff.after_failure(network));
            }
        }
    }
}

/// Applies the slot map: closes connections to nodes without slots, and opens new ones.
fn settle_in(pools: &[Arc<Pool>], pool: &Pool, slots: &Slots, changed: Vec<u16>) {
    changed.into_iter().for_each(|slot| pool.shared.slot_moved(slot));
    let in_use = slots.in_use();
    for all in pools {
        all.prune(&in_use);
    }
    for node in slots.primaries() {
        drop(pool.to(node));
    }
}

/// Reads the slot map from the first node that replies.
async fn refresh(pools: &[Arc<Pool>], pool: &Pool, slots: &Slots) -> bool {
    let shared = &pool.shared;
    for (_, manager) in pool.all() {
        let Ok(connection) = manager.current() else { continue };
        match slots.read(&connection, shared.settings.command_timeout).await {
            Ok(changed) => {
                settle_in(pools, pool, slots, changed);
                return true;
            }
            Err(error) => event!(debug, server = %manager.label(), %error, "the slot map cannot be read"),
        }
    }
    false
}

/// Kills ended connections. This keeps the list of unsettled connections short.
async fn kill_ended(pools: &[Arc<Pool>], by: &Pool) {
    if let Some(slots) = &by.shared.slots {
        for node in slots.idle_ask_targets() {
            let audits = if are_killed(pools, by, node).await { route::QUIET } else { route::UNREACHABLE };
            slots.forget_ask_target(node, audits);
        }
    }
    for pool in pools {
        for (node, manager) in pool.all() {
            let is_killable = |connection: &Arc<Connection>| {
                connection.has_ended() && !connection.kill_forbidden.load(Ordering::Acquire)
            };
            for connection in manager.unconfirmed().list.into_iter().filter(is_killable) {
                let Some(killer) = by.known(node) else { break };
                if killer.current().is_ok() {
                    drop(settle::have_killed(&connection, &manager, &killer).await);
                }
            }
        }
        kill_retired(pool, by).await;
    }
}

/// Kills the connections to the target of an `ASK` that has not taken over the slot. Returns whether all are dead.
async fn are_killed(pools: &[Arc<Pool>], by: &Pool, node: Node) -> bool {
    let Some(killer) = by.to(node) else { return true };
    if killer.current().is_err() {
        return false;
    }
    for manager in pools.iter().filter_map(|pool| pool.known(node)) {
        let Unconfirmed { list, forgot } = manager.unconfirmed();
        for connection in list {
            connection.end();
            if settle::have_killed(&connection, &manager, &killer).await != Ok(Settled::Proven) {
                return false;
            }
        }
        if forgot {
            return false;
        }
    }
    true
}

/// Kills connections to abandoned addresses. The process behind such an address may be a node at another address.
async fn kill_retired(pool: &Pool, by: &Pool) {
    let primaries = by.shared.slots.iter().flat_map(Slots::primaries).filter_map(|node| by.known(node));
    let known = primaries.map(|manager| Ok((manager.current()?, manager))).collect::<Result<Vec<_>, LinkError>>();
    let Ok(known) = known else { return };
    for connection in pool.retired().list {
        let killer = known.iter().find(|(current, _)| connection.is_of_process(current) == Some(true));
        match killer {
            Some((_, killer)) if !connection.kill_forbidden.load(Ordering::Acquire) => {
                drop(settle::have_killed(&connection, killer, killer).await);
            }
            Some(_) => {}
            // The process owns no slot, so its writes are not visible.
            None if known.iter().all(|(current, _)| connection.is_of_process(current).is_some()) => {
                connection.confirmed_dead.store(true, Ordering::Release);
            }
            None => {}
        }
    }
}
