//! Calls of scripts.

use super::connection::Connection;
use super::connection_slot::ConnectionSlot;
use super::error::{self, Redirect};
use super::frame;
use super::pool::Pool;
use super::shared::Role;
use super::slots::{self, Slots};
use fred::interfaces::Resp3Frame;
use fred::types::Value;
use futures_util::FutureExt as _;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, Plane, ServerError};
use leasehold_core::reply::Reply;
use parking_lot::RwLock;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How often one call is sent once more, because the server did not apply it: redirected, and unknown to each server on the way.
pub(super) const FOLLOWED: usize = 6;

/// Sends a call, and follows the two answers by which a server says that it did *not* apply it: `NOSCRIPT`, with the script's
/// text to the same server, and a redirection, to where it leads. Nothing else is ever sent again, and these only where `resend` agrees.
pub(super) async fn call(
    pool: &Pool,
    call: Call,
    resend: &(impl Fn() -> bool + Send + Sync),
) -> Result<Reply, LinkError> {
    let timeout = (pool.role != Role::Calls(Plane::Foreground)).then_some(pool.shared.settings.command_timeout);
    let begun = *pool.send_barrier.read();
    let slot = call.keys().first().map_or(0, |key| fred::util::redis_keyslot(key));
    let connection_slot = connection_slot_of(pool, slot)?;
    pool.shared.scripts.note(call.script());
    // The usual case: one send, and the reply.
    let answer = {
        let connection = ready(&connection_slot, timeout).await?;
        let answer = connection.send("EVALSHA", arguments(&call, call.script().sha1()), timeout).await?;
        frame::reply(answer)
    };
    match answer {
        Ok(reply) => Ok(reply),
        // Boxed, so that what is seldom needed does not make the future of every call three times as large.
        Err(refusal) => {
            let before = refusal.clone();
            let followed = Box::pin(follow_up(pool, connection_slot, begun, call, timeout, refusal, resend)).await;
            followed.map_err(|error| error.of_a_call_refused(&before))
        }
    }
}

/// Sends again what a server says that it did not apply.
async fn follow_up(
    pool: &Pool,
    mut connection_slot: Arc<ConnectionSlot>,
    begun: u64,
    call: Call,
    timeout: Option<Duration>,
    refusal: ServerError,
    resend: &(impl Fn() -> bool + Send + Sync),
) -> Result<Reply, LinkError> {
    let mut answer = Err(refusal);
    let mut asking = false;
    for _ in 0..FOLLOWED {
        let refusal = match answer {
            Ok(reply) => return Ok(reply),
            Err(refusal) => refusal,
        };
        let (command, script) = match (error::redirect(&refusal), &pool.shared.slots) {
            _ if refusal.code() == "NOSCRIPT" => ("EVAL", call.script().source()),
            (Some(redirect), Some(slots)) => {
                asking = matches!(redirect, Redirect::Ask(..));
                connection_slot = follow(pool, slots, &connection_slot, redirect)?;
                ("EVALSHA", call.script().sha1())
            }
            _ => return Err(refused(&connection_slot, refusal)),
        };
        let connection = ready(&connection_slot, timeout).await?;
        if !resend() {
            return Err(LinkError::NotSent("it was given up meanwhile".to_owned()));
        }
        // In a box, because it is rare, and would make every caller's future three times as large.
        let sent = Box::pin(async {
            let sent = connection.send(command, arguments(&call, script), timeout);
            unless_settled(&pool.send_barrier, begun, after_asking(&connection, asking, sent, timeout)).await
        });
        match sent.await {
            Ok(frame) => answer = frame::reply(frame),
            Err(error) => {
                if command == "EVAL" && matches!(error, LinkError::NotSent(_)) {
                    give(&connection, script, timeout);
                }
                return Err(error);
            }
        }
    }
    answer.map_err(|refusal| refused(&connection_slot, refusal))
}

/// Gives the server a script whose call was settled before its text could be sent. It changes no data. Whatever names the script next is
/// queued behind it, and finds it; otherwise a client that settles all the time would never get it there. The answer is not needed.
fn give(connection: &Connection, source: &'static str, timeout: Option<Duration>) {
    let words = vec![Value::from_static_str("LOAD"), Value::from_static_str(source)];
    drop(connection.send("SCRIPT", words, timeout).now_or_never());
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

/// Sends, right behind `ASKING` where the node wants that. The two are queued in one go, in this order. Should another thread's
/// command come between them, ours is redirected once more; `ASKING` does no harm to the other.
async fn after_asking(
    connection: &Connection,
    asking: bool,
    sent: impl Future<Output = Result<Resp3Frame, LinkError>>,
    timeout: Option<Duration>,
) -> Result<Resp3Frame, LinkError> {
    if !asking {
        return sent.await;
    }
    let asking = connection.send("ASKING", Vec::new(), timeout);
    let (_, answer) = futures_util::join!(asking, sent);
    answer
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

pub(super) fn refused(connection_slot: &ConnectionSlot, refusal: ServerError) -> LinkError {
    if refusal.is_of_a_replica() {
        connection_slot.renew();
    }
    LinkError::Refused(refusal)
}

/// A redirection without a host means the host of the server that said it.
pub(super) fn named(address: &str, connection_slot: &ConnectionSlot) -> String {
    match (slots::host_and_port(address), connection_slot.current()) {
        (Some(("", port)), Ok(connection)) => {
            let host = slots::host_and_port(&connection.server).map_or("", |(host, _)| host).to_owned();
            format!("{host}:{port}")
        }
        _ => address.to_owned(),
    }
}

pub(super) fn arguments(call: &Call, script: &'static str) -> Vec<Value> {
    const COUNTS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let keys = call.keys();
    let mut arguments = Vec::with_capacity(2 + keys.len() + call.args().len());
    arguments.push(Value::from_static_str(script));
    arguments.push(match COUNTS.get(keys.len()) {
        Some(count) => Value::from_static_str(count),
        None => Value::from(keys.len().to_string()),
    });
    arguments.extend(keys.iter().chain(call.args()).map(|bytes| Value::Bytes(bytes.clone())));
    arguments
}
