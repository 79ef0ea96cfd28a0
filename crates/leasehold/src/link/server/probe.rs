//! Probing: whether what was sent has been answered, although no caller has seen the reply.
//!
//! A `PING` behind everything else on a connection is answered after all of that. A probe takes nothing from a call: it raises no send barrier
//! and gives no connection up. So an answer to it does not say that nothing follows. The server may have refused a call with `NOSCRIPT`
//! or a redirection, and its future, once it is polled, sends it once more. The session asks for a [settlement](super::settle) before
//! it does anything in place of such a call.
//!
//! A call that waits for its [batch](super::batches) is on no connection yet. The probe stands in line behind it, and waits for a batch under way.

use super::pool::Pool;
use super::settle;
use super::slots::Slots;
use crate::telemetry::event;
use leasehold_core::link::{Epoch, LinkError};

/// Whether the calls for the slot of `key` have been answered. Those on a connection that ended are: their outcome is unknown. It takes at
/// most one command timeout, and one more where calls are queued, and what replicas are given. It must be polled where tokio's timers are at hand.
pub(super) async fn probe(all: &[&Pool], epoch: Epoch, key: &[u8]) -> Result<(), LinkError> {
    let slot = leasehold_core::name::slot(key);
    let Some(first) = all.first() else { return Ok(()) };
    let nodes = first.shared.slots.as_ref().map_or_else(|| vec![0], |slots: &Slots| slots.carriers(slot));
    event!(debug, ?epoch, slot, carriers = nodes.len(), "probing");
    let patience = first.shared.settings.command_timeout;
    let pool = nodes.into_iter().flat_map(|node| all.iter().filter_map(move |pool| Some((*pool, pool.known(node)?))));
    let each = pool.map(|(pool, connection_slot)| async move {
        let Ok(connection) = connection_slot.current() else { return true };
        let passed = tokio::time::timeout(patience, pool.batches.passed(pool.line_of(slot))).await;
        passed.is_ok() && settle::answers(&connection, connection_slot.patience()).await
    });
    if futures_util::future::join_all(each).await.into_iter().all(|answered| answered) {
        Ok(())
    } else {
        Err(LinkError::Unknown("calls on the connection are not answered".to_owned()))
    }
}
