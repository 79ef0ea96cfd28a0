//! The sender of a line: sends the queued calls and delivers the replies.

use super::batches::{LineId, Queued, Refusal};
use super::connection::STALL;
use super::connection_slot::ConnectionSlot;
use super::network::Home;
use super::pool::Pool;
use super::route;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::script::Script;
use leasehold_core::wire::Frame;
use std::pin::pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Empties the line if the sender is dropped before it ended.
struct Sender {
    pool: Arc<Pool>,
    line: LineId,
    /// It runs in place of a stalled sender.
    is_replacement: bool,
    /// The line has counted this sender's end.
    ended: bool,
}

/// Starts a sender. It runs at home if this thread runs home: ready tasks then queue their calls before the sender takes them. Otherwise it
/// runs on the background's runtime. The caller has counted the sender in the line.
pub(super) fn start(pool: &Arc<Pool>, line: LineId) {
    let home = pool.shared.home.as_ref().and_then(Home::here);
    spawn(home.unwrap_or(&pool.runtime), pool, line, false);
    if home.is_some() {
        pool.batches.watch();
    }
}

fn spawn(runtime: &Handle, pool: &Arc<Pool>, line: LineId, is_replacement: bool) {
    // A stopped runtime drops the task at once.
    drop(runtime.spawn(run(Sender { pool: Arc::clone(pool), line, is_replacement, ended: false })));
}

/// Starts a sender on the background's runtime where one at home has not begun for [`STALL`]: the task that queued the calls may block its
/// thread, or the runtime. Ends with the pool.
pub(super) fn watch(pool: &Arc<Pool>) {
    let (begins, closed, watched) = (pool.batches.watch_begins(), pool.closed.clone(), Arc::downgrade(pool));
    drop(pool.runtime.spawn(closed.run_until_cancelled_owned(async move {
        loop {
            begins.notified().await;
            loop {
                tokio::time::sleep(STALL).await;
                let Some(pool) = watched.upgrade() else { return };
                let Some(stalled) = pool.batches.stalled() else { break };
                for line in stalled {
                    spawn(&pool.runtime, &pool, line, true);
                }
            }
        }
    })));
}

/// Sends batch after batch, until nothing is queued.
async fn run(mut sender: Sender) {
    let pool = Arc::clone(&sender.pool);
    // Let other ready tasks queue their calls first.
    tokio::task::yield_now().await;
    // Under one lock: a settling either removes the calls from the line, or raises the barrier before they leave.
    while let Some((begun, taken)) =
        pool.batches.take(sender.line, sender.is_replacement, || *pool.shared.send_barrier(false).read())
    {
        let (written, calls) = (Instant::now(), taken.len());
        let mut sent = pin!(send(&pool, sender.line, begun, taken));
        let first = futures_util::poll!(sent.as_mut());
        // The first poll queued the command, if the link is connected.
        if pool.batches.wrote(sender.line) {
            start(&pool, sender.line);
        }
        if first.is_pending() {
            sent.await;
        }
        pool.batches.landed(sender.line, calls);
        pool.batches.answered_after(written.elapsed());
    }
    sender.ended = true;
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.ended {
            self.pool.batches.abandon(self.line);
        }
    }
}

/// Sends the calls as one command, and delivers each outcome.
async fn send(pool: &Arc<Pool>, line: LineId, begun: u64, calls: Vec<Queued>) {
    let call = match &calls[..] {
        [queued] => queued.call.clone(),
        _ => pool.batches.call_for(&calls),
    };
    match attempt(pool, line, begun, call, calls.len()).await {
        Ok((connection_slot, script, answer)) => answer_each(pool, &connection_slot, script, calls, answer),
        Err(error) => calls.into_iter().for_each(|queued| queued.fail(error.clone())),
    }
}

/// Sends the command for `calls` calls. Returns the server's reply, and the script that it ran.
async fn attempt(
    pool: &Arc<Pool>,
    line: LineId,
    begun: u64,
    call: Call,
    calls: usize,
) -> Result<(Arc<ConnectionSlot>, &'static Script, Frame), LinkError> {
    let timeout = pool.shared.settings.command_timeout;
    let connection_slot = route::connection_slot_of(pool, line)?;
    let connection = route::ready(&connection_slot, timeout).await?;
    let script = call.script();
    pool.shared.scripts.note(script);
    let sent = connection.send("EVALSHA", route::into_arguments(call, script.sha1()), Some(timeout));
    let answer = route::unless_settled(pool.shared.send_barrier(false), begun, sent).await?;
    if calls > 1 && answer.error().is_some_and(|refusal| refusal.code() == "NOSCRIPT") {
        route::give(&connection, script.source(), timeout);
    }
    Ok((connection_slot, script, answer))
}

/// Splits the reply to a command among its calls.
fn answer_each(pool: &Pool, connection_slot: &ConnectionSlot, ran: &Script, mut calls: Vec<Queued>, answer: Frame) {
    if calls.len() == 1 {
        if let Some(queued) = calls.pop() {
            match answer.into_reply() {
                Ok(reply) => queued.done(Ok(reply)),
                Err(refusal) => queued.refuse(Refusal::OfCall(refusal)),
            }
        }
        return;
    }
    if let Some(refusal) = answer.error().cloned() {
        let lacks_a_right = refusal.code() == "NOPERM" && refusal.proves_nothing_done();
        if lacks_a_right {
            pool.batches.pause();
        }
        let is_parted = refusal.is_of_several_slots();
        if is_parted {
            pool.shared.note_several_slots(&connection_slot.label());
        }
        for queued in calls {
            if lacks_a_right || is_parted || refusal.is_detour() {
                queued.refuse(Refusal::OfBatch(refusal.clone()));
            } else {
                queued.fail(route::refused(connection_slot, refusal.clone()));
            }
        }
        return;
    }
    match answer {
        Frame::Array(replies) if replies.len() == calls.len() => {
            for (queued, reply) in calls.into_iter().zip(replies) {
                let script = queued.call.script();
                let refused = |refusal: ServerError| {
                    let refusal = refusal.of_script(script, ran);
                    if refusal.proves_no_grant() {
                        // Outside a batch, every server names the refused command of a call.
                        pool.batches.pause();
                    }
                    route::refused(connection_slot, refusal)
                };
                queued.done(reply.into_reply().map_err(refused));
            }
        }
        _ => {
            let error = LinkError::Unknown("the reply to a batch does not fit its calls".to_owned());
            calls.into_iter().for_each(|queued| queued.fail(error.clone()));
        }
    }
}
