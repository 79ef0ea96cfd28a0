//! Calls of scripts.

use super::batches::{Answer, Refusal, Way};
use super::connection::Connection;
use super::connection_slot::ConnectionSlot;
use super::driver;
use super::error::Redirect;
use super::pool::Pool;
use super::route;
use leasehold_core::call::Call;
use leasehold_core::link::LinkError;
use leasehold_core::reply::Reply;
use leasehold_core::wire::Frame;
use std::sync::Arc;
use std::time::Duration;

/// How often one call is sent once more, because the server did not apply it: redirected, and unknown to each server on the way.
pub(super) const FOLLOWED: usize = 6;

/// Sends a call that was decided on when the send barrier was at `begun`.
///
/// After two replies the server has *not* applied the call: `NOSCRIPT`, which this answers with the text of the script, and
/// a redirection, which this follows. Nothing else is sent again, and these only if `resend` agrees.
pub(super) async fn call(
    pool: &Arc<Pool>,
    begun: u64,
    call: Call,
    resend: &(impl Fn() -> bool + Send + Sync),
) -> Result<Reply, LinkError> {
    let timeout = pool.call_timeout();
    let slot = call.keys().first().map_or(0, |key| leasehold_core::name::slot(key));
    let way = if pool.shared.may_batch() {
        pool.batches.way(pool.line_of(slot), call, || *pool.send_barrier.read() == begun)
    } else {
        Way::Direct(call, None)
    };
    let (call, connection_slot, refusal) = match way {
        // Boxed, so that a call in a batch has no room for it. Both boxes are smaller than a kilobyte, above which allocators are slow.
        Way::Direct(call, _out) => match Box::pin(direct(pool, begun, slot, call, timeout)).await? {
            Ok(reply) => return Ok(reply),
            Err(refused) => refused,
        },
        Way::Queued { answered, wants_driver } => {
            wants_driver.into_iter().for_each(|line| driver::start(pool, line));
            match answered.await {
                Ok(Answer::Done(result)) => return result,
                Ok(Answer::Refused(call, refusal)) => (call, route::connection_slot_of(pool, slot)?, refusal),
                Err(_) => return Err(LinkError::Unknown("the runtime of the connection is gone".to_owned())),
            }
        }
    };
    let before = refusal.clone().into_inner();
    // Boxed, so that what is seldom needed does not make the future of every call three times as large.
    let followed = Box::pin(follow_up(pool, connection_slot, begun, call, timeout, refusal, resend)).await;
    // The refusal of a batch for want of a right says nothing of this call.
    followed.map_err(|error| if before.is_detour() { error.of_a_call_refused(&before) } else { error })
}

/// The usual case: one send, and the reply. A call that was refused is given back.
async fn direct(
    pool: &Pool,
    begun: u64,
    slot: u16,
    call: Call,
    timeout: Option<Duration>,
) -> Result<Result<Reply, (Call, Arc<ConnectionSlot>, Refusal)>, LinkError> {
    let connection_slot = route::connection_slot_of(pool, slot)?;
    pool.shared.scripts.note(call.script());
    let connection = route::ready(&connection_slot, timeout).await?;
    let sent = connection.send("EVALSHA", route::arguments(&call, call.script().sha1()), timeout);
    let answer = route::unless_settled(&pool.send_barrier, begun, sent).await?;
    Ok(answer.into_reply().map_err(|refusal| (call, connection_slot, Refusal::OfCall(refusal))))
}

/// Sends again what a server says that it did not apply.
async fn follow_up(
    pool: &Pool,
    mut connection_slot: Arc<ConnectionSlot>,
    begun: u64,
    call: Call,
    timeout: Option<Duration>,
    refusal: Refusal,
    resend: &(impl Fn() -> bool + Send + Sync),
) -> Result<Reply, LinkError> {
    let mut answer = Err(refusal);
    let mut asking = false;
    for _ in 0..FOLLOWED {
        let refusal = match answer {
            Ok(reply) => return Ok(reply),
            Err(refusal) => refusal,
        };
        let (command, script) = match (refusal.redirect(), &pool.shared.slots) {
            (Some(redirect), Some(slots)) => {
                asking = matches!(redirect, Redirect::Ask(..));
                connection_slot = route::follow(pool, slots, &connection_slot, redirect)?;
                ("EVALSHA", call.script().sha1())
            }
            _ => match refusal {
                // The call itself has not been refused.
                Refusal::OfBatch(_) => ("EVALSHA", call.script().sha1()),
                Refusal::OfCall(refusal) if refusal.code() == "NOSCRIPT" => ("EVAL", call.script().source()),
                Refusal::OfCall(refusal) => {
                    if refusal.is_of_several_slots() {
                        pool.shared.note_several_slots(&connection_slot.label());
                    }
                    return Err(route::refused(&connection_slot, refusal.of_script(call.script(), call.script())));
                }
            },
        };
        let connection = route::ready(&connection_slot, timeout).await?;
        if !resend() {
            return Err(LinkError::NotSent("it was given up meanwhile".to_owned()));
        }
        // In a box, because it is rare, and would make every caller's future three times as large.
        let sent = Box::pin(async {
            let sent = connection.send(command, route::arguments(&call, script), timeout);
            route::unless_settled(&pool.send_barrier, begun, after_asking(&connection, asking, sent, timeout)).await
        });
        match sent.await {
            Ok(frame) => answer = frame.into_reply().map_err(Refusal::OfCall),
            Err(error) => {
                if command == "EVAL" && matches!(error, LinkError::NotSent(_)) {
                    route::give(&connection, script, timeout);
                }
                return Err(error);
            }
        }
    }
    answer.map_err(|refusal| route::refused(&connection_slot, refusal.into_inner()))
}

/// Sends, right behind `ASKING` where the node wants that. The two are queued in one go, in this order. Should another thread's
/// command come between them, ours is redirected once more; `ASKING` does no harm to the other.
async fn after_asking(
    connection: &Connection,
    asking: bool,
    sent: impl Future<Output = Result<Frame, LinkError>>,
    timeout: Option<Duration>,
) -> Result<Frame, LinkError> {
    if !asking {
        return sent.await;
    }
    let asking = connection.send("ASKING", Vec::new(), timeout);
    let (_, answer) = futures_util::join!(asking, sent);
    answer
}
