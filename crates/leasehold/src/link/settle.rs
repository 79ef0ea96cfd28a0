//! Settling: ensuring that the server can no longer apply earlier calls of a slot. The proof:
//!
//! 1. **Where an earlier call can be.** On one [`connection`](super::connection) of a *carrier* of the slot: a node that
//!    owned the slot during the link's life, or the target of an `ASK`. A call without a reply may send one more
//!    command, after `NOSCRIPT`, a redirection, a refused batch, or a plain command that changed nothing. Settling
//!    first raises the send barrier, so this command is queued before the steps below, or never.
//! 2. **A live connection** gets a `PING` behind these commands. The server replies in order. So any reply, even an
//!    error, proves that the server has applied or refused all earlier commands.
//! 3. **A dead connection**, or one without a reply to `PING` within the command timeout, is abandoned, and killed with
//!    `CLIENT KILL ID` over a live connection to the same node. "Killed" and "no such client" both prove that the
//!    server reads nothing more from it. Unwritten bytes are never sent over another connection.
//! 4. **The right server.** Each process counts its own ids, so both connections must have the same run id. Otherwise
//!    the link must have found the other process *after* the old connection ended: then the server was restarted, or
//!    replaced in a failover, and late calls of the old process do not reach visible data.
//! 5. **The right list of ids.** A proxy may count its own ids. So both connections must see the same server address
//!    (`laddr` in `CLIENT INFO`), and a connection opened after the end of the other one must have the greater id.
//! 6. **Durable calls** ([`durable`](super::durable)) have several connections. Their send barrier is in front of the
//!    queue for a connection. A blocked connection replies to `PING` only after the wait for replicas, so its timeout is that much
//!    longer.
//!
//! The target of an `ASK` counts although it may own no slot yet. It is dropped once no recent `ASK` names it and its
//! connections are killed, or once it stays unreachable; otherwise no settling of the slot would end. Any other carrier
//! without slots is skipped: after a failover the new owner's data replaces its late writes, and after a move it
//! redirects. However, its process may own the slot under a new address. The link therefore remembers the connections to abandoned
//! addresses, and the slot's owner must kill those with its own run id.
//!
//! The result is [`Settled::Unproven`] if the id, the process or the list of ids is unknown, or the kill is forbidden.

use super::connection::{Connection, word};
use super::pool::{ConnectionManager, Pool, Unconfirmed};
use crate::telemetry::event;
use leasehold_core::link::{LinkError, Settled};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Settles the calls of `all` for the slot of `key`, whose send barrier is raised. A live connection of `calls` kills
/// all others. Takes at most two command timeouts, for `PING` and kill, plus the replica timeout. Needs tokio's timers.
pub(super) async fn settle(all: &[&Arc<Pool>], calls: &Pool, key: &[u8]) -> Result<Settled, LinkError> {
    let slot = leasehold_core::name::slot(key);
    let shared = &calls.shared;
    // A node without slots cannot change visible data, see above.
    let nodes = shared.slots.as_ref().map_or_else(|| vec![0], |slots| slots.settled_carriers(slot));
    event!(debug, slot, carriers = nodes.len(), "settling");
    let each = nodes
        .into_iter()
        .flat_map(|node| all.iter().filter_map(move |pool| Some((pool.known(node)?, calls.to(node)?))));
    let each = each.map(|(manager, by)| async move { settle_manager(&manager, &by).await });
    let mut settled = futures_util::future::join_all(each).await;
    let owner = shared.slots.as_ref().and_then(|slots| slots.owner(slot)).and_then(|owner| calls.to(owner));
    for pool in all {
        let Unconfirmed { list, forgot } = pool.retired();
        settled.push(Ok(if forgot { Settled::Unproven } else { Settled::Proven }));
        if let Some(owner) = &owner {
            let each = list.iter().map(|connection| settle_retired(connection, owner));
            settled.extend(futures_util::future::join_all(each).await);
        }
    }
    worst(settled)
}

/// Settles a connection to an abandoned address. Its calls matter only if they reached the current owner's process.
async fn settle_retired(connection: &Connection, owner: &ConnectionManager) -> Result<Settled, LinkError> {
    let Ok(killer) = tokio::time::timeout(owner.timeout(), owner.standing()).await else {
        return Err(LinkError::Unknown(format!("{} does not answer", owner.label())));
    };
    match connection.is_of_process(&killer) {
        Some(true) => have_killed(connection, owner, owner).await,
        Some(false) => Ok(Settled::Proven),
        // Without INFO the run id is unknown: any process may be the owner.
        None => Ok(Settled::Unproven),
    }
}

async fn settle_manager(manager: &ConnectionManager, by: &ConnectionManager) -> Result<Settled, LinkError> {
    let Unconfirmed { list, forgot } = manager.unconfirmed();
    let settled = list.iter().map(|connection| async move {
        if !connection.has_ended() && connection.send("PING", Vec::new(), manager.reply_timeout()).await.is_ok() {
            return Ok(Settled::Proven);
        }
        // Fails the waiting callers, and skips the `PING` next time.
        connection.end();
        have_killed(connection, manager, by).await
    });
    let settled = worst(futures_util::future::join_all(settled).await)?;
    Ok(if forgot { Settled::Unproven } else { settled })
}

/// Asks the server to kill an ended connection of `manager`, within the command timeout.
pub(super) async fn have_killed(
    connection: &Connection,
    manager: &ConnectionManager,
    by: &ConnectionManager,
) -> Result<Settled, LinkError> {
    match tokio::time::timeout(by.timeout(), kill(connection, manager, by)).await {
        Ok(settled) => settled,
        Err(_) => Err(LinkError::Unknown(format!("{} does not answer", by.label()))),
    }
}

async fn kill(
    connection: &Connection,
    manager: &ConnectionManager,
    by: &ConnectionManager,
) -> Result<Settled, LinkError> {
    let Some(id) = connection.about.id else { return Ok(Settled::Unproven) };
    let killer = by.standing().await;
    match (&connection.about.run_id, &killer.about.run_id) {
        (Some(then), Some(now)) if then != now => {
            let found_later = |other: &Connection| {
                let is_later = connection.ended_at().is_some_and(|ended| other.began > ended);
                is_later && other.about.run_id.as_ref() == Some(now)
            };
            if found_later(&killer) || manager.current().is_ok_and(|current| found_later(&current)) {
                connection.confirmed_dead.store(true, Ordering::Release);
                return Ok(Settled::Proven);
            }
            return Ok(Settled::Unproven);
        }
        (Some(_), Some(_)) => {}
        // INFO is forbidden, so the address decides.
        _ if connection.server == killer.server => {}
        _ => return Ok(Settled::Unproven),
    }
    if !share_ids(connection, &killer) {
        event!(debug, server = %by.label(), "connections may have been counted by different proxies");
        return Ok(Settled::Unproven);
    }
    let args = vec![word("KILL"), word("ID"), id.to_string().into()];
    let answer = killer.send("CLIENT", args, by.timeout()).await?;
    if answer.int().is_ok() {
        connection.confirmed_dead.store(true, Ordering::Release);
        return Ok(Settled::Proven);
    }
    connection.kill_forbidden.store(true, Ordering::Release);
    event!(debug, server = %by.label(), refusal = ?answer.error(), "CLIENT KILL was refused");
    Ok(Settled::Unproven)
}

/// Returns whether both connection ids come from one counter. A proxy may have its own counter.
fn share_ids(ended: &Connection, killer: &Connection) -> bool {
    let at_one_address = ended.about.address.is_some() && ended.about.address == killer.about.address;
    let is_later = ended.ended_at().is_some_and(|at| killer.began > at);
    at_one_address && (!is_later || killer.about.id > ended.about.id)
}

fn worst(each: Vec<Result<Settled, LinkError>>) -> Result<Settled, LinkError> {
    let proven = each.into_iter().try_fold(true, |all, one| Ok(one? == Settled::Proven && all))?;
    Ok(if proven { Settled::Proven } else { Settled::Unproven })
}
