//! Calls of scripts.

use super::batches::{Answer, LineId, OnAnswer, Refusal, Way};
use super::connection::{self, Connection};
use super::connection_slot::ConnectionSlot;
use super::driver;
use super::error::Redirect;
use super::pool::Pool;
use super::route;
use super::shared::LinkShared;
use leasehold_core::call::Call;
use leasehold_core::link::{self, LinkError, Outcome};
use leasehold_core::reply::Reply;
use leasehold_core::session::CallId;
use leasehold_core::wire::Frame;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::oneshot;

/// How often one call is sent once more, because the server did not apply it: redirected, and unknown to each server on the way.
pub(super) const FOLLOWED: usize = 6;

/// Starts a call that was decided on when the send barrier was at `begun`, as [`call`] does. The session gets the outcome.
///
/// # Errors
///
/// No connection stands: the call comes back.
pub(super) fn start(pool: &Arc<Pool>, begun: u64, id: CallId, call: Call) -> Result<Option<Outcome>, Call> {
    let slot = slot_of(&call);
    let on_answer = || -> OnAnswer {
        let pool = Arc::clone(pool);
        OnAnswer::new(move |answer| match answer {
            Answer::Done(result) => pool.shared.answers.deliver(&mut vec![(id, result)]),
            Answer::Refused(call, refusal) => follow_up_for_session(pool, begun, id, call, refusal),
        })
    };
    let (call, line) = match way(pool, slot, begun, call, on_answer) {
        Way::Direct(call, line) => (call, line),
        Way::Queued(wants_driver) => {
            wants_driver.into_iter().for_each(|line| driver::start(pool, line));
            return Ok(None);
        }
    };
    let standing = route::connection_slot_of(pool, slot).and_then(|connection_slot| connection_slot.current());
    let Ok(connection) = standing else {
        line.into_iter().for_each(|line| pool.batches.come_back(line));
        return Err(call);
    };
    pool.shared.scripts.note(call.script());
    let barrier = pool.send_barrier.read();
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

/// A call whose outcome the session gets.
pub(super) struct Started {
    pool: Arc<Pool>,
    begun: u64,
    id: CallId,
    call: Call,
    /// It is out by itself in this line.
    line: Option<LineId>,
}

impl Started {
    pub(super) const fn call(&self) -> &Call {
        &self.call
    }

    /// The outcome. There is none yet where the server refused the call, and that is followed up.
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

/// Goes on with a call that a server has refused, in a task of the runtime that has read this.
fn follow_up_for_session(pool: Arc<Pool>, begun: u64, id: CallId, call: Call, refusal: Refusal) {
    let runtime = pool.runtime.clone();
    drop(runtime.spawn(async move {
        let result = match route::connection_slot_of(&pool, slot_of(&call)) {
            Ok(connection_slot) => refused(&pool, connection_slot, begun, call, refusal).await,
            Err(error) => Err(error),
        };
        pool.shared.answers.deliver(&mut vec![(id, result)]);
    }));
}

/// The outcomes that came together.
#[derive(Default)]
pub(super) struct Answered {
    outcomes: Vec<(CallId, Outcome)>,
    shared: Option<Arc<LinkShared>>,
}

impl Answered {
    /// Adds the reply to a command, or hands it to the future that waits for it.
    pub(super) fn push(&mut self, answer: connection::Answer, reply: Result<Frame, LinkError>) {
        match answer {
            // A dropped future needs no reply.
            connection::Answer::Future(answer) => drop(answer.send(reply)),
            connection::Answer::Session(started) => {
                let id = started.id;
                if self.shared.is_none() {
                    self.shared = Some(Arc::clone(&started.pool.shared));
                }
                self.outcomes.extend(started.outcome(reply).map(|outcome| (id, outcome)));
            }
        }
    }

    /// Hands them to the session. Hold no lock.
    pub(super) fn deliver(mut self) {
        if let Some(shared) = self.shared.filter(|_| !self.outcomes.is_empty()) {
            shared.answers.deliver(&mut self.outcomes);
        }
    }
}

/// The session.
#[derive(Default)]
pub(super) struct Answers(OnceLock<Weak<dyn link::Answers>>);

impl Answers {
    pub(super) fn set(&self, session: Weak<dyn link::Answers>) {
        let _ = self.0.set(session);
    }

    fn deliver(&self, outcomes: &mut Vec<(CallId, Outcome)>) {
        if let Some(session) = self.0.get().and_then(Weak::upgrade) {
            session.answered(outcomes);
        }
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

/// A call that is out by itself, for as long as this lives.
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

/// Decides the way of a call, and queues it with `answer` where it goes with others.
fn way(pool: &Pool, slot: u16, begun: u64, call: Call, answer: impl FnOnce() -> OnAnswer) -> Way {
    if !pool.shared.may_batch() {
        return Way::Direct(call, None);
    }
    pool.batches.way(pool.line_of(slot), call, answer, || *pool.send_barrier.read() == begun)
}

/// Sends a call that was decided on when the send barrier was at `begun`, and waits for its reply.
///
/// After two replies the server has *not* applied the call: `NOSCRIPT`, which this answers with the text of the script, and
/// a redirection, which this follows. Nothing else is sent again, and these only if nothing was settled since `begun`.
pub(super) async fn call(pool: &Arc<Pool>, begun: u64, call: Call) -> Result<Reply, LinkError> {
    let slot = slot_of(&call);
    let (answer, answered) = oneshot::channel();
    let (call, connection_slot, refusal) =
        match way(pool, slot, begun, call, || OnAnswer::new(move |reply| drop(answer.send(reply)))) {
            Way::Direct(call, out) => {
                let _out = out.map(|line| Out { pool: Arc::clone(pool), line });
                // Boxed, as what is seldom needed below, so that the future of a call is small.
                match Box::pin(direct(pool, begun, slot, call, pool.call_timeout())).await? {
                    Ok(reply) => return Ok(reply),
                    Err(refused) => refused,
                }
            }
            Way::Queued(wants_driver) => {
                wants_driver.into_iter().for_each(|line| driver::start(pool, line));
                match answered.await {
                    Ok(Answer::Done(result)) => return result,
                    Ok(Answer::Refused(call, refusal)) => (call, route::connection_slot_of(pool, slot)?, refusal),
                    Err(_) => return Err(LinkError::Unknown("the runtime of the connection is gone".to_owned())),
                }
            }
        };
    Box::pin(refused(pool, connection_slot, begun, call, refusal)).await
}

/// The outcome of a call that a server has refused and did not apply.
async fn refused(
    pool: &Pool,
    connection_slot: Arc<ConnectionSlot>,
    begun: u64,
    call: Call,
    refusal: Refusal,
) -> Result<Reply, LinkError> {
    let before = refusal.clone().into_inner();
    let followed = follow_up(pool, connection_slot, begun, call, pool.call_timeout(), refusal).await;
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
        let sent = connection.send(command, route::arguments(&call, script), timeout);
        let sent = after_asking(&connection, asking, sent, timeout);
        match route::unless_settled(&pool.send_barrier, begun, sent).await {
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
