//! Key names of each server.
//!
//! A scan addresses a server, not the owner of a slot. It follows no redirection, because a cursor of a server means
//! nothing to another server.

use super::pool::Pool;
use super::route;
use super::slots::Slots;
use leasehold_core::link::LinkError;
use leasehold_core::scan::{ScanPage, Scanned, ServerId};

/// The only server, or the primaries of the cluster.
pub(super) fn servers(pool: &Pool) -> Vec<ServerId> {
    let nodes = pool.shared.slots.as_ref().map_or_else(|| vec![0], Slots::primaries);
    nodes.into_iter().map(ServerId).collect()
}

/// Reads a page from a server. Needs tokio's timers.
pub(super) async fn scan(pool: &Pool, server: ServerId, page: &ScanPage) -> Result<Scanned, LinkError> {
    if !servers(pool).contains(&server) {
        return Err(LinkError::NotSent("the server has no keys of the cluster any more".to_owned()));
    }
    let slot = pool.to(server.0).ok_or_else(|| LinkError::NotSent("the server is not known any more".to_owned()))?;
    let timeout = slot.timeout();
    let connection = route::ready(&slot, timeout).await?;
    let words = page.words().to_vec();
    let answer = connection.send("SCAN", words, Some(timeout)).await?;
    let reply = answer.into_reply().map_err(|refusal| route::refused(&slot, refusal))?;
    let process = connection.about.run_id.clone().unwrap_or_default();
    Scanned::decode(&reply, process).map_err(|error| LinkError::Unknown(error.to_string()))
}
