//! Routes a command: picks the connection, builds the arguments, and checks the send barrier.

use super::address;
use super::connection::{Connection, word};
use super::connection_slot::ConnectionSlot;
use super::error::Redirect;
use super::pool::Pool;
use super::slots::Slots;
use bytes::Bytes;
use futures_util::FutureExt as _;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, ServerError};
use parking_lot::RwLock;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The connection slot to the owner of a hash slot.
pub(super) fn connection_slot_of(pool: &Pool, slot: u16) -> Result<Arc<ConnectionSlot>, LinkError> {
    let node = match &pool.shared.slots {
        None => Some(0),
        Some(slots) => {
            let owner = slots.owner(slot);
            if owner.is_none() {
                slots.doubted.notify_one();
            }
            owner
        }
    };
    let connection_slot = node.and_then(|node| pool.to(node));
    let connection_slot =
        connection_slot.ok_or_else(|| LinkError::NotSent(format!("no node of the cluster owns slot {slot}")))?;
    if connection_slot.current().is_err()
        && let Some(slots) = &pool.shared.slots
    {
        // The owner may have been replaced.
        slots.doubted.notify_one();
    }
    Ok(connection_slot)
}

/// The connection in a slot. Waits for the first connection attempt.
pub(super) async fn ready(connection_slot: &ConnectionSlot, timeout: Duration) -> Result<Arc<Connection>, LinkError> {
    match tokio::time::timeout(timeout, connection_slot.ready()).await {
        Ok(ready) => ready,
        Err(_) => Err(LinkError::NotSent(format!("not yet connected to {}", connection_slot.label()))),
    }
}

/// The arguments of `EVALSHA` or `EVAL`. Keeps the call for a resend.
pub(super) fn arguments(call: &Call, script: &'static str) -> Vec<Bytes> {
    const COUNTS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let keys = call.keys().len();
    let count = match COUNTS.get(keys) {
        Some(count) => word(count),
        None => keys.to_string().into(),
    };
    let words = call.keys().into_iter().chain(call.args()).map(Bytes::copy_from_slice);
    [word(script), count].into_iter().chain(words).collect()
}

/// Sends unless a settling began since `begun`. The send barrier stays locked while the command is queued. So a
/// settling either comes first and stops the command, or comes behind it in the queue.
pub(super) async fn unless_settled<T>(
    send_barrier: &RwLock<u64>,
    begun: u64,
    sent: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let mut sent = pin!(sent);
    let mut queued = false;
    std::future::poll_fn(|cx| {
        if queued {
            return sent.as_mut().poll(cx);
        }
        let send_barrier = send_barrier.read();
        if *send_barrier != begun {
            return Poll::Ready(Err(LinkError::NotSent("it was settled meanwhile".to_owned())));
        }
        queued = true;
        sent.as_mut().poll(cx)
    })
    .await
}

/// The target of a redirection. Updates the slot map.
pub(super) fn follow(
    pool: &Pool,
    slots: &Slots,
    from: &ConnectionSlot,
    redirect: Redirect,
) -> Result<Arc<ConnectionSlot>, LinkError> {
    let (Redirect::Moved(slot, address) | Redirect::Ask(slot, address)) = &redirect;
    let node = slots.node(&named(address, from));
    match redirect {
        Redirect::Ask(..) => slots.asked(*slot, node),
        Redirect::Moved(..) => {
            if slots.moved(*slot, node) {
                pool.shared.slot_moved(*slot);
            }
        }
    }
    pool.to(node).ok_or_else(|| LinkError::NotSent(format!("no way to {address}")))
}

/// A redirection without a host means the host of the redirecting server.
pub(super) fn named(address: &str, connection_slot: &ConnectionSlot) -> String {
    match (address::host_and_port(address), connection_slot.current()) {
        (Some(("", port)), Ok(connection)) => {
            let host = address::host_and_port(&connection.server).map_or("", |(host, _)| host).to_owned();
            address::address_of(&host, port)
        }
        _ => address.to_owned(),
    }
}

/// Converts a server's refusal. Reconnects if the server is a replica.
pub(super) fn refused(connection_slot: &ConnectionSlot, refusal: ServerError) -> LinkError {
    if refusal.is_of_a_replica() {
        connection_slot.renew();
    }
    LinkError::Refused(refusal)
}

/// Loads a script whose call was settled before its text could leave. Later calls on the connection then find the
/// script. Otherwise a client that settles constantly would never load it. The reply is ignored.
pub(super) fn give(connection: &Connection, source: &'static str, timeout: Duration) {
    let words = vec![word("LOAD"), word(source)];
    drop(connection.send("SCRIPT", words, Some(timeout)).now_or_never());
}
