//! Calls of scripts.

use super::error::{self, Redirect};
use super::frame;
use super::generation::Generation;
use super::shared::Role;
use super::slots::{self, Slots};
use super::wire::Wire;
use super::wires::Wires;
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
    wires: &Wires,
    call: Call,
    resend: &(impl Fn() -> bool + Send + Sync),
) -> Result<Reply, LinkError> {
    let timeout = (wires.role != Role::Calls(Plane::Foreground)).then_some(wires.shared.settings.command_timeout);
    let begun = *wires.fence.read();
    let slot = call.keys().first().map_or(0, |key| fred::util::redis_keyslot(key));
    let wire = wire_of(wires, slot)?;
    wires.shared.scripts.note(call.script());
    // The usual case: one send, and the reply.
    let answer = {
        let generation = ready(&wire, timeout).await?;
        let answer = generation.send("EVALSHA", arguments(&call, call.script().sha1()), timeout).await?;
        frame::reply(answer)
    };
    match answer {
        Ok(reply) => Ok(reply),
        // Boxed, so that what is seldom needed does not make the future of every call three times as large.
        Err(refusal) => {
            let before = refusal.clone();
            let followed = Box::pin(follow_up(wires, wire, begun, call, timeout, refusal, resend)).await;
            followed.map_err(|error| error.of_a_call_refused(&before))
        }
    }
}

/// Sends again what a server says that it did not apply.
async fn follow_up(
    wires: &Wires,
    mut wire: Arc<Wire>,
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
        let (command, script) = match (error::redirect(&refusal), &wires.shared.slots) {
            _ if refusal.code() == "NOSCRIPT" => ("EVAL", call.script().source()),
            (Some(redirect), Some(slots)) => {
                asking = matches!(redirect, Redirect::Ask(..));
                wire = follow(wires, slots, &wire, redirect)?;
                ("EVALSHA", call.script().sha1())
            }
            _ => return Err(refused(&wire, refusal)),
        };
        let generation = ready(&wire, timeout).await?;
        if !resend() {
            return Err(LinkError::NotSent("it was given up meanwhile".to_owned()));
        }
        // In a box, because it is rare, and would make every caller's future three times as large.
        let sent = Box::pin(async {
            let sent = generation.send(command, arguments(&call, script), timeout);
            fenced(&wires.fence, begun, after_asking(&generation, asking, sent, timeout)).await
        });
        match sent.await {
            Ok(frame) => answer = frame::reply(frame),
            Err(error) => {
                if command == "EVAL" && matches!(error, LinkError::NotSent(_)) {
                    give(&generation, script, timeout);
                }
                return Err(error);
            }
        }
    }
    answer.map_err(|refusal| refused(&wire, refusal))
}

/// Gives the server a script whose call was settled before its text could be sent. It changes no data. Whatever names the script next is
/// queued behind it, and finds it; otherwise a client that settles all the time would never get it there. The answer is not needed.
fn give(generation: &Generation, source: &'static str, timeout: Option<Duration>) {
    let words = vec![Value::from_static_str("LOAD"), Value::from_static_str(source)];
    drop(generation.send("SCRIPT", words, timeout).now_or_never());
}

/// The connection of a wire. One that was never there is waited for.
pub(super) async fn ready(wire: &Wire, timeout: Option<Duration>) -> Result<Arc<Generation>, LinkError> {
    let Some(timeout) = timeout else { return wire.ready().await };
    match tokio::time::timeout(timeout, wire.ready()).await {
        Ok(ready) => ready,
        Err(_) => Err(LinkError::NotSent(format!("not yet connected to {}", wire.label()))),
    }
}

/// The wire that leads to the owner of a slot.
pub(super) fn wire_of(wires: &Wires, slot: u16) -> Result<Arc<Wire>, LinkError> {
    let node = match &wires.shared.slots {
        None => Some(0),
        Some(slots) => {
            let owner = slots.owner(slot);
            if owner.is_none() {
                slots.doubted.notify_one();
            }
            owner
        }
    };
    let wire = node.and_then(|node| wires.to(node));
    let wire = wire.ok_or_else(|| LinkError::NotSent(format!("no node of the cluster owns slot {slot}")))?;
    if wire.current().is_err()
        && let Some(slots) = &wires.shared.slots
    {
        // The owner may have been replaced.
        slots.doubted.notify_one();
    }
    Ok(wire)
}

/// The target of a redirection; the slot map learns of it.
pub(super) fn follow(wires: &Wires, slots: &Slots, from: &Wire, redirect: Redirect) -> Result<Arc<Wire>, LinkError> {
    let (Redirect::Moved(slot, address) | Redirect::Ask(slot, address)) = &redirect;
    let node = slots.node(&named(address, from));
    match redirect {
        Redirect::Ask(..) => slots.asked(*slot, node),
        Redirect::Moved(..) => {
            if slots.moved(*slot, node) {
                wires.shared.slot_moved(*slot);
            }
        }
    }
    wires.to(node).ok_or_else(|| LinkError::NotSent(format!("no way to {address}")))
}

/// Sends, right behind `ASKING` where the node wants that. The two are queued in one go, in this order. Should another thread's
/// command come between them, ours is redirected once more; `ASKING` does no harm to the other.
async fn after_asking(
    generation: &Generation,
    asking: bool,
    sent: impl Future<Output = Result<Resp3Frame, LinkError>>,
    timeout: Option<Duration>,
) -> Result<Resp3Frame, LinkError> {
    if !asking {
        return sent.await;
    }
    let asking = generation.send("ASKING", Vec::new(), timeout);
    let (_, answer) = futures_util::join!(asking, sent);
    answer
}

/// Sends only if nothing was settled since `begun`. The fence is held while the command is queued, so that a settling either
/// comes before it, and it is not sent, or finds it queued.
pub(super) async fn fenced<T>(
    fence: &RwLock<u64>,
    begun: u64,
    sent: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let mut sent = pin!(sent);
    let mut queued = false;
    std::future::poll_fn(|cx| {
        if queued {
            return sent.as_mut().poll(cx);
        }
        let fence = fence.read();
        if *fence != begun {
            return Poll::Ready(Err(LinkError::NotSent("it was settled meanwhile".to_owned())));
        }
        queued = true;
        sent.as_mut().poll(cx)
    })
    .await
}

pub(super) fn refused(wire: &Wire, refusal: ServerError) -> LinkError {
    if refusal.is_of_a_replica() {
        wire.renew();
    }
    LinkError::Refused(refusal)
}

/// A redirection without a host means the host of the server that said it.
pub(super) fn named(address: &str, wire: &Wire) -> String {
    match (slots::host_and_port(address), wire.current()) {
        (Some(("", port)), Ok(generation)) => {
            let host = slots::host_and_port(&generation.server).map_or("", |(host, _)| host).to_owned();
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
