//! Calls that wait for replicas.
//!
//! Such a call is one pipeline: the script, a [mark](leasehold_core::command::durable), and `WAIT`, on one connection, which is one
//! connection with one id, and is never sent again. `WAIT` speaks of what *its* connection has written: on another one it is
//! answered at once, with replicas that have nothing of the call.
//!
//! The server blocks a connection that waits, so these calls have connections of their own, and each takes its turn on one of them.
//! Renewals have one for themselves: a lease must not run out in a queue of acquires. All of them live on the background's runtime,
//! and a call is a task there, which keeps its turn to the end even where the caller has gone: the server waits on regardless.

use super::call::FOLLOWED;
use super::connection::{Connection, word};
use super::connection_slot::ConnectionSlot;
use super::error::{self, Redirect};
use super::pool::Pool;
use super::pools::Pools;
use super::route;
use super::settle;
use super::shared::Role;
use super::slots::{Node, Slots};
use crate::telemetry::event;
use leasehold_core::call::{Call, Replicas};
use leasehold_core::command::durable as mark;
use leasehold_core::link::{Epoch, LinkError, Plane, ServerError, Settled};
use leasehold_core::reply::Reply;
use leasehold_core::wire::Frame;
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// How many acquires may wait for replicas of one node at the same time; others stand in line.
const LANES: usize = 4;

/// The connections of calls that wait for replicas.
pub(super) struct Durable {
    renewals: Arc<Pool>,
    acquires: [Arc<Pool>; LANES],
    /// As [`Pool::send_barrier`], for all of them. It stands in front of the line, too.
    pub(super) send_barrier: RwLock<u64>,
}

/// The turn on a connection.
struct Turn {
    pool: Arc<Pool>,
    connection_slot: Arc<ConnectionSlot>,
    _guard: OwnedMutexGuard<()>,
}

/// The result of a pipeline.
struct Answers {
    script: Frame,
    mark: Frame,
    wait: Frame,
}

impl Durable {
    /// No connections yet; they will live on the runtime in whose context this is called.
    pub(super) fn new(pools: &Pools) -> Self {
        let pool = || pools.add(Role::Calls(Plane::Durable));
        Self { renewals: pool(), acquires: std::array::from_fn(|_| pool()), send_barrier: RwLock::default() }
    }

    /// Closes all connections for good, from any thread.
    pub(super) fn close(&self) {
        self.all().for_each(Pool::close);
    }

    /// Settles the calls for the slot of `key`.
    pub(super) async fn settle(&self, background: &Pool, epoch: Epoch, key: &[u8]) -> Result<Settled, LinkError> {
        *self.send_barrier.write() += 1;
        let all: Vec<&Pool> = self.all().collect();
        settle::settle_all(&all, background, epoch, key).await
    }

    fn all(&self) -> impl Iterator<Item = &Pool> {
        std::iter::once(&self.renewals).chain(&self.acquires).map(|pool| &**pool)
    }

    /// Waits for a connection that is free. The first ones are preferred, so that the others are made only when they are needed.
    async fn turn(&self, call: &Call, to: To) -> Result<Turn, LinkError> {
        let lanes = if call.script().is_renewal() { std::slice::from_ref(&self.renewals) } else { &self.acquires[..] };
        let mut busy = Vec::with_capacity(lanes.len());
        for pool in lanes {
            let connection_slot = match to {
                To::Slot(slot) => route::connection_slot_of(pool, slot)?,
                To::Node(node) => pool.to(node).ok_or_else(|| LinkError::NotSent("no way to the node".to_owned()))?,
            };
            match Arc::clone(&connection_slot.turn).try_lock_owned() {
                Ok(guard) => return Ok(Turn { pool: Arc::clone(pool), connection_slot, _guard: guard }),
                Err(_) => busy.push((pool, connection_slot)),
            }
        }
        let turns = busy.into_iter().map(|(pool, connection_slot)| {
            Box::pin(async move {
                let guard = Arc::clone(&connection_slot.turn).lock_owned().await;
                Turn { pool: Arc::clone(pool), connection_slot, _guard: guard }
            })
        });
        Ok(futures_util::future::select_all(turns).await.0)
    }

    /// Sends a call, and follows `NOSCRIPT` and redirections, by which a server says that it did not apply it.
    async fn call(&self, begun: u64, call: &Call, replicas: Replicas) -> Result<Reply, LinkError> {
        let slot = call.keys().first().map_or(0, |key| leasehold_core::name::slot(key));
        let mut to = To::Slot(slot);
        let (mut command, mut script, mut asking) = ("EVALSHA", call.script().sha1(), false);
        let mut refused = None;
        for _ in 0..=FOLLOWED {
            let unsent = |error: LinkError| match &refused {
                Some(before) => error.of_a_call_refused(before),
                None => error,
            };
            let prepared = self.prepare(call, to);
            let timeout = self.renewals.shared.settings.command_timeout;
            let prepared = tokio::time::timeout(timeout / 2, prepared).await;
            let late = "no connection for calls that wait for replicas became free in time";
            let prepared = prepared.unwrap_or_else(|_| Err(LinkError::NotSent(late.to_owned())));
            let (turn, connection) = prepared.map_err(unsent)?;
            turn.connection_slot.blocks_for(replicas.within);
            let sent = pipeline(&connection, call, command, script, replicas, asking, turn.connection_slot.patience());
            let answers = Box::pin(route::unless_settled(&self.send_barrier, begun, sent)).await.map_err(unsent)?;
            let refusal = match answers.script.into_reply() {
                Ok(reply) => {
                    let acknowledged = acknowledged(&turn.connection_slot, answers.mark, &answers.wait)?;
                    return Ok(Reply::Array(vec![reply, Reply::Int(acknowledged)]));
                }
                Err(refusal) => refusal,
            };
            match (error::redirect(&refusal), &turn.pool.shared.slots) {
                _ if refusal.code() == "NOSCRIPT" => (command, script) = ("EVAL", call.script().source()),
                (Some(redirect), Some(slots)) => {
                    asking = matches!(redirect, Redirect::Ask(..));
                    to = To::Node(redirected(&turn, slots, redirect)?);
                    (command, script) = ("EVALSHA", call.script().sha1());
                }
                _ => {
                    return Err(route::refused(&turn.connection_slot, refusal.of_script(call.script(), call.script())));
                }
            }
            refused = Some(refusal);
        }
        let refused = refused.unwrap_or_else(|| ServerError::new("ERR redirected without end"));
        Err(LinkError::Refused(refused))
    }

    /// A free connection that stands, on a server that knows the script and lets us wait. Nothing of the call has been sent so far.
    async fn prepare(&self, call: &Call, to: To) -> Result<(Turn, Arc<Connection>), LinkError> {
        let turn = self.turn(call, to).await?;
        let connection = turn.connection_slot.ready().await?;
        let sha1 = call.script().sha1();
        if connection.has_given(sha1) {
            return Ok((turn, connection));
        }
        let unsent = |error: LinkError| LinkError::NotSent(error.to_string());
        let timeout = Some(turn.connection_slot.timeout());
        if !connection.has_given_any() {
            // It is answered at once. If it is refused, the script must not be sent.
            let args = vec![word("0"), word("1")];
            let answer = connection.send("WAIT", args, timeout).await.map_err(unsent)?;
            match answer.error().cloned() {
                Some(refusal) if refusal.is_of_a_missing_command() => return Err(LinkError::Refused(refusal)),
                Some(refusal) => {
                    // A replica, which was the primary until just now.
                    turn.connection_slot.renew();
                    return Err(LinkError::NotSent(refusal.text().to_owned()));
                }
                None => {}
            }
        }
        // A first call that met NOSCRIPT would wait for replicas in vain. If this is forbidden, it does.
        let args = vec![word("LOAD"), word(call.script().source())];
        connection.send("SCRIPT", args, timeout).await.map_err(unsent)?;
        connection.note_given(sha1);
        Ok((turn, connection))
    }
}

/// The target of a call.
#[derive(Clone, Copy)]
enum To {
    /// To the owner of the slot.
    Slot(u16),
    /// The node that a redirection named.
    Node(Node),
}

/// Sends a call, in a task of the background's runtime.
pub(super) async fn call(
    durable: &Arc<Durable>,
    begun: u64,
    call: Call,
    replicas: Replicas,
) -> Result<Reply, LinkError> {
    durable.renewals.shared.scripts.note(call.script());
    let runtime = durable.renewals.runtime.clone();
    let durable = Arc::clone(durable);
    let task = runtime.spawn(async move { durable.call(begun, &call, replicas).await });
    let gone = |_| Err(LinkError::Unknown("the runtime of the connection is gone".to_owned()));
    task.await.unwrap_or_else(gone)
}

/// Queues script, mark and `WAIT` in one go, and waits for all three answers. A missing one leaves the outcome unknown.
async fn pipeline(
    connection: &Connection,
    call: &Call,
    command: &'static str,
    script: &'static str,
    replicas: Replicas,
    asking: bool,
    timeout: Duration,
) -> Result<Answers, LinkError> {
    let timeout = Some(timeout);
    let lock = call.keys().first().cloned().unwrap_or_default();
    let mark = mark::mark(lock);
    let millis = replicas.within.as_millis().max(1);
    let wait = vec![replicas.at_least.to_string().into(), millis.to_string().into()];
    // An importing node wants it before each command with a key. The server answers "OK", which is of no use.
    let ask = || async move {
        if asking {
            let _ = connection.send("ASKING", Vec::new(), timeout).await;
        }
    };
    let (_, script, _, mark, wait) = futures_util::join!(
        ask(),
        connection.send(command, route::arguments(call, script), timeout),
        ask(),
        // By its text, because a script that the server has forgotten would mark nothing.
        connection.send("EVAL", route::arguments(&mark, mark.script().source()), timeout),
        connection.send("WAIT", wait, timeout),
    );
    let script = script?;
    let unknown = |error: LinkError| LinkError::Unknown(error.to_string());
    Ok(Answers { script, mark: mark.map_err(unknown)?, wait: wait.map_err(unknown)? })
}

/// How many replicas have what the script wrote.
fn acknowledged(connection_slot: &ConnectionSlot, mark: Frame, wait: &Frame) -> Result<i64, LinkError> {
    let marked = mark.into_reply().map(|reply| mark::marked(&reply));
    let refusals = [("EVAL", marked.as_ref().err()), ("WAIT", wait.error())];
    for (command, refusal) in refusals {
        if let Some(refusal) = refusal.filter(|refusal| refusal.is_of_a_missing_command()) {
            return Err(refused_after(command, refusal));
        }
    }
    match (marked, wait.int()) {
        (Ok(Ok(true)), Some(count)) => Ok(count.max(0)),
        (Ok(Err(error)), _) => Err(LinkError::Unknown(error.to_string())),
        // No single one is known. `WAIT` is refused by a primary that became a replica meanwhile, for one.
        (marked, _) => {
            let mark = marked.err();
            event!(debug, server = %connection_slot.label(), ?mark, wait = ?wait.error(), "the replicas cannot be asked");
            Ok(0)
        }
    }
}

/// The server lacks a command after the script, or refuses it to this user. The script has been executed.
fn refused_after(command: &str, refusal: &ServerError) -> LinkError {
    LinkError::Refused(ServerError::new(format!("ERR {command} was refused after the script: {refusal}")))
}

/// The node to which a redirection leads; the slot map learns of it.
fn redirected(turn: &Turn, slots: &Slots, redirect: Redirect) -> Result<Node, LinkError> {
    let (Redirect::Moved(_, address) | Redirect::Ask(_, address)) = &redirect;
    let node = slots.node(&route::named(address, &turn.connection_slot));
    route::follow(&turn.pool, slots, &turn.connection_slot, redirect)?;
    Ok(node)
}
