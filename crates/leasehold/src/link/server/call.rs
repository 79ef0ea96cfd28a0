//! Sends script calls, and follows up on refusals.

use super::batches::{Answer, LineId, OnAnswer, Refusal, Way};
use super::connection::{self, Connection, Waiting};
use super::connection_slot::ConnectionSlot;
use super::error::Redirect;
use super::pool::Pool;
use super::route;
use super::sender;
use crate::telemetry::event;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Arrival, LinkError, LinkEvent, Outcome, Receiver};
use leasehold_core::reply::Reply;
use leasehold_core::session::CallId;
use leasehold_core::wire::Frame;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Maximum number of resends of one call: redirections, and `NOSCRIPT` from each server in between.
pub(super) const FOLLOWED: usize = 6;

/// Sends a call as [`call`] does, without waiting. The session receives the outcome.
///
/// # Errors
///
/// Returns the call if the link is not connected.
pub(super) fn start(pool: &Arc<Pool>, begun: u64, id: CallId, call: Call) -> Result<Option<Outcome>, Call> {
    let slot = slot_of(&call);
    let on_answer = || -> OnAnswer {
        let pool = Arc::clone(pool);
        OnAnswer::new(move |answer| match answer {
            Answer::Done(result) => pool.shared.inbox.outcome(id, result),
            Answer::Refused(call, refusal) => follow_up_for_session(pool, begun, id, call, refusal),
        })
    };
    let (call, line) = match way(pool, slot, begun, call, on_answer) {
        Way::Direct(call, line) => (call, line),
        Way::Queued(wants_sender) => {
            wants_sender.into_iter().for_each(|line| sender::start(pool, line));
            return Ok(None);
        }
    };
    let standing = route::connection_slot_of(pool, slot).and_then(|connection_slot| connection_slot.current());
    let Ok(connection) = standing else {
        line.into_iter().for_each(|line| pool.batches.come_back(line));
        return Err(call);
    };
    pool.shared.scripts.note(call.script());
    let barrier = pool.shared.send_barrier(false).read();
    let unsent = if *barrier == begun {
        connection.start(Started { pool: Arc::clone(pool), begun, id, call, line }).err()
    } else {
        Some(LinkError::NotSent("it was settled meanwhile".to_owned()))
    };
    drop(barrier);
    Ok(unsent.map(|error| {
        line.into_iter().for_each(|line| pool.batches.come_back(line));
        Err(error)
    }))
}

/// A call whose outcome goes to the session.
pub(super) struct Started {
    pool: Arc<Pool>,
    begun: u64,
    id: CallId,
    call: Call,
    /// The line that counts the call as direct.
    line: Option<LineId>,
}

impl Started {
    pub(super) const fn call(&self) -> &Call {
        &self.call
    }

    /// Returns the outcome. Returns `None` after a refusal, which a task follows up.
    fn outcome(self, reply: Result<Frame, LinkError>) -> Option<Outcome> {
        let Self { pool, begun, id, call, line } = self;
        line.into_iter().for_each(|line| pool.batches.come_back(line));
        match reply.map(Frame::into_reply) {
            Ok(Ok(reply)) => Some(Ok(reply)),
            Ok(Err(refusal)) => {
                follow_up_for_session(pool, begun, id, call, Refusal::OfCall(refusal));
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// Follows up a refused call in a task. The task runs where the refusal was read, because the background may be blocked in a
/// user's telemetry.
fn follow_up_for_session(pool: Arc<Pool>, begun: u64, id: CallId, call: Call, refusal: Refusal) {
    let runtime = Handle::try_current().unwrap_or_else(|_| pool.runtime.clone());
    drop(runtime.spawn(async move {
        let result = match route::connection_slot_of(&pool, slot_of(&call)) {
            Ok(connection_slot) => refused(&pool, connection_slot, begun, call, refusal).await,
            Err(error) => Err(error),
        };
        pool.shared.inbox.outcome(id, result);
    }));
}

/// The replies and messages of one read. [`Arrivals::deliver`] follows after the reader has released its lock.
pub(super) struct Arrivals<'a> {
    inbox: &'a Inbox,
    session: Vec<Arrival>,
    futures: Vec<(Waiting, Result<Frame, LinkError>)>,
    unsubscribed: Vec<Bytes>,
}

impl<'a> Arrivals<'a> {
    pub(super) const fn new(inbox: &'a Inbox) -> Self {
        Self { inbox, session: Vec::new(), futures: Vec::new(), unsubscribed: Vec::new() }
    }

    /// Adds a reply.
    pub(super) fn answer(&mut self, answer: connection::Answer, reply: Result<Frame, LinkError>) {
        match answer {
            connection::Answer::Future(answer) => self.futures.push((answer, reply)),
            connection::Answer::Session(started) => {
                let id = started.id;
                self.session.extend(started.outcome(reply).map(|outcome| Arrival::Outcome(id, outcome)));
            }
        }
    }

    /// Adds a message.
    pub(super) fn message(&mut self, channel: Bytes, text: &[u8]) {
        self.session.push(Arrival::Event(LinkEvent::of_message(channel, text)));
    }

    /// Adds a channel whose subscription the server ended unasked.
    pub(super) fn unsubscribed(&mut self, channel: Bytes) {
        self.unsubscribed.push(channel);
    }

    /// Delivers all arrivals. The caller must hold no lock.
    pub(super) fn deliver(mut self) {
        for (answer, reply) in self.futures {
            // Sending fails if the future was dropped.
            drop(answer.send(reply));
        }
        if !self.session.is_empty() {
            self.inbox.deliver(&mut self.session);
        }
        for channel in self.unsubscribed {
            event!(debug, channel = ?String::from_utf8_lossy(&channel), "the server ended a subscription");
        }
    }
}

/// Delivers arrivals to the session.
#[derive(Default)]
pub(super) struct Inbox(OnceLock<Weak<dyn Receiver>>);

impl Inbox {
    pub(super) fn set(&self, receiver: Weak<dyn Receiver>) {
        let _ = self.0.set(receiver);
    }

    fn deliver(&self, arrivals: &mut Vec<Arrival>) {
        if let Some(receiver) = self.0.get().and_then(Weak::upgrade) {
            receiver.receive(arrivals);
        }
    }

    fn outcome(&self, id: CallId, outcome: Outcome) {
        self.deliver(&mut vec![Arrival::Outcome(id, outcome)]);
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

/// Counts a direct call in its line until dropped.
struct Out {
    pool: Arc<Pool>,
    line: LineId,
}

impl Drop for Out {
    fn drop(&mut self) {
        self.pool.batches.come_back(self.line);
    }
}

/// The hash slot of a call.
fn slot_of(call: &Call) -> u16 {
    call.keys().first().map_or(0, |key| leasehold_core::name::slot(key))
}

/// Queues a call for a batch, with `answer`, or returns it for direct sending.
fn way(pool: &Pool, slot: u16, begun: u64, call: Call, answer: impl FnOnce() -> OnAnswer) -> Way {
    if !pool.shared.may_batch() {
        return Way::Direct(call, None);
    }
    pool.batches.way(pool.line_of(slot), call, answer, || *pool.shared.send_barrier(false).read() == begun)
}

/// Sends a call and waits for its reply. `begun` is the send barrier at the decision to send.
///
/// Two replies prove that the server did *not* apply the call: `NOSCRIPT` and a redirection. After `NOSCRIPT` the link sends the script's text;
/// it follows a redirection. It resends after no other reply, and never after a settling since `begun`.
pub(super) async fn call(pool: &Arc<Pool>, begun: u64, call: Call) -> Result<Reply, LinkError> {
    let slot = slot_of(&call);
    let (answer, answered) = oneshot::channel();
    let (call, connection_slot, refusal) =
        match way(pool, slot, begun, call, || OnAnswer::new(move |reply| drop(answer.send(reply)))) {
            Way::Direct(call, out) => {
                let _out = out.map(|line| Out { pool: Arc::clone(pool), line });
                // Boxed, as what is seldom needed below, so that the future of a call is small.
                match Box::pin(direct(pool, begun, slot, call, pool.shared.settings.command_timeout)).await? {
                    Ok(reply) => return Ok(reply),
                    Err(refused) => refused,
                }
            }
            Way::Queued(wants_sender) => {
                wants_sender.into_iter().for_each(|line| sender::start(pool, line));
                match answered.await {
                    Ok(Answer::Done(result)) => return result,
                    Ok(Answer::Refused(call, refusal)) => (call, route::connection_slot_of(pool, slot)?, refusal),
                    Err(_) => {
                        return Err(LinkError::Unknown(
                            "the task that sent the call was dropped with its runtime".to_owned(),
                        ));
                    }
                }
            }
        };
    Box::pin(refused(pool, connection_slot, begun, call, refusal)).await
}

/// Follows up a refused call, which the server did not apply.
async fn refused(
    pool: &Pool,
    connection_slot: Arc<ConnectionSlot>,
    begun: u64,
    call: Call,
    refusal: Refusal,
) -> Result<Reply, LinkError> {
    let before = refusal.clone().into_inner();
    let followed = follow_up(pool, connection_slot, begun, call, pool.shared.settings.command_timeout, refusal).await;
    // A batch that failed for a missing right says nothing about this call.
    followed.map_err(|error| if before.is_detour() { error.of_a_call_refused(&before) } else { error })
}

/// Sends the call once, which usually suffices. Returns a refused call.
async fn direct(
    pool: &Pool,
    begun: u64,
    slot: u16,
    call: Call,
    timeout: Duration,
) -> Result<Result<Reply, (Call, Arc<ConnectionSlot>, Refusal)>, LinkError> {
    let connection_slot = route::connection_slot_of(pool, slot)?;
    pool.shared.scripts.note(call.script());
    let connection = route::ready(&connection_slot, timeout).await?;
    let sent = connection.send("EVALSHA", route::arguments(&call, call.script().sha1()), Some(timeout));
    let answer = route::unless_settled(pool.shared.send_barrier(false), begun, sent).await?;
    Ok(answer.into_reply().map_err(|refusal| (call, connection_slot, Refusal::OfCall(refusal))))
}

/// Resends a refused call until a server applies or finally refuses it.
async fn follow_up(
    pool: &Pool,
    mut connection_slot: Arc<ConnectionSlot>,
    begun: u64,
    call: Call,
    timeout: Duration,
    refusal: Refusal,
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
                // The server refused the batch, not this call.
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
        let sent = connection.send(command, route::arguments(&call, script), Some(timeout));
        let sent = after_asking(&connection, asking, sent, timeout);
        match route::unless_settled(pool.shared.send_barrier(false), begun, sent).await {
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

/// Sends the call, directly behind `ASKING` if `asking` is set. If another thread's command slips in between, the node redirects the call
/// again. `ASKING` does not harm the other command.
async fn after_asking(
    connection: &Connection,
    asking: bool,
    sent: impl Future<Output = Result<Frame, LinkError>>,
    timeout: Duration,
) -> Result<Frame, LinkError> {
    if !asking {
        return sent.await;
    }
    let asking = connection.send("ASKING", Vec::new(), Some(timeout));
    let (_, answer) = futures_util::join!(asking, sent);
    answer
}
