//! The way of a command: to which connection, in which words, and not behind a settling.

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

/// The connection slot that leads to the owner of a hash slot.
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

/// The connection in a slot. One that was never there is waited for.
pub(super) async fn ready(
    connection_slot: &ConnectionSlot,
    timeout: Option<Duration>,
) -> Result<Arc<Connection>, LinkError> {
    let Some(timeout) = timeout else { return connection_slot.ready().await };
    match tokio::time::timeout(timeout, connection_slot.ready()).await {
        Ok(ready) => ready,
        Err(_) => Err(LinkError::NotSent(format!("not yet connected to {}", connection_slot.label()))),
    }
}

/// The arguments of the command that calls a script, by its hash or by its text. The call may have to be sent once more.
pub(super) fn arguments(call: &Call, script: &'static str) -> Vec<Bytes> {
    words(script, call.keys().len(), call.keys().iter().chain(call.args()).cloned())
}

/// The same of a call that is not sent once more.
pub(super) fn into_arguments(call: Call, script: &'static str) -> Vec<Bytes> {
    let (keys, args) = call.into_words();
    words(script, keys.len(), keys.into_iter().chain(args))
}

fn words(script: &'static str, keys: usize, words: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
    const COUNTS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let count = match COUNTS.get(keys) {
        Some(count) => word(count),
        None => keys.to_string().into(),
    };
    let mut arguments = Vec::with_capacity(2 + words.size_hint().0);
    arguments.extend([word(script), count]);
    arguments.extend(words);
    arguments
}

/// Sends only if nothing was settled since `begun`. The send barrier is held while the command is queued, so that a settling either
/// comes before it, and it is not sent, or finds it queued.
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

/// The target of a redirection; the slot map learns of it.
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

/// A redirection without a host means the host of the server that said it.
pub(super) fn named(address: &str, connection_slot: &ConnectionSlot) -> String {
    match (address::host_and_port(address), connection_slot.current()) {
        (Some(("", port)), Ok(connection)) => {
            let host = address::host_and_port(&connection.server).map_or("", |(host, _)| host).to_owned();
            address::address_of(&host, port)
        }
        _ => address.to_owned(),
    }
}

/// The refusal of a server. One that is a replica is left.
pub(super) fn refused(connection_slot: &ConnectionSlot, refusal: ServerError) -> LinkError {
    if refusal.is_of_a_replica() {
        connection_slot.renew();
    }
    LinkError::Refused(refusal)
}

/// Gives the server a script whose call was settled before its text could be sent. It changes no data. Whatever names the script next is
/// queued behind it, and finds it; otherwise a client that settles all the time would never get it there. The answer is not needed.
pub(super) fn give(connection: &Connection, source: &'static str, timeout: Option<Duration>) {
    let words = vec![word("LOAD"), word(source)];
    drop(connection.send("SCRIPT", words, timeout).now_or_never());
}
