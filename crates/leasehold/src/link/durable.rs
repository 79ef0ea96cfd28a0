//! Calls that wait for replicas.
//!
//! A durable call is one pipeline on one connection: the script, a [mark](leasehold_core::command::durable), and `WAIT`,
//! or `WAITAOF` with the setting `fsync`. The rest of this file calls both `WAIT`.
//! The link never resends the pipeline. `WAIT` covers the writes of *its* connection only: on another connection, `WAIT` would count
//! replicas that lack the call's write.
//!
//! `WAIT` blocks its connection, so these calls have dedicated connections, one call at a time on each. Renewals have
//! their own connection, because a lease must not expire behind queued acquires. Each call is a task on the
//! background's runtime. It keeps its connection until the reply, even after the caller is gone, because the connection stays blocked on the server.

use super::call::{FOLLOWED, slot_of};
use super::connection::{Connection, Sent, word};
use super::pool::{ConnectionManager, Pool};
use super::route::{self, Node, Redirect};
use super::shared::{LinkShared, Role};
use crate::telemetry::event;
use bytes::Bytes;
use leasehold_core::call::{Call, Replicas};
use leasehold_core::command::durable as mark;
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::reply::Reply;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// Maximum number of concurrent acquires that wait for one node's replicas. Further acquires queue.
const LANES: usize = 4;

/// Part of the refusal of `WAITAOF` by a server without an append-only file.
const NO_FILE: &str = "appendonly is disabled";

pub(super) struct Durable {
    fsync: bool,
    renewals: Arc<Pool>,
    acquires: [Arc<Pool>; LANES],
}

struct Turn {
    pool: Arc<Pool>,
    manager: Arc<ConnectionManager>,
    _guard: OwnedMutexGuard<()>,
}

impl Durable {
    /// Creates pools without connections. The connections will run on the current runtime.
    pub(super) fn new(shared: &Arc<LinkShared>) -> Self {
        let pool = || Pool::new(shared, Role::Durable);
        Self { fsync: shared.settings.fsync, renewals: pool(), acquires: std::array::from_fn(|_| pool()) }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        std::iter::once(&self.renewals).chain(&self.acquires)
    }

    /// Returns the last command of a durable call: `WAIT`, or `WAITAOF` if the disks must acknowledge.
    fn wait(&self, Replicas { at_least, within }: Replicas) -> (&'static str, Vec<Bytes>) {
        let millis = within.as_millis().max(1).to_string().into();
        match self.fsync {
            false => ("WAIT", vec![at_least.to_string().into(), millis]),
            // The required acknowledgements include the primary's.
            true => ("WAITAOF", vec![word("1"), at_least.saturating_sub(1).to_string().into(), millis]),
        }
    }

    /// Decodes the number of acknowledgements. Without the primary's acknowledgement, the number is 0.
    fn acknowledgements(&self, reply: &Reply) -> Option<i64> {
        if !self.fsync {
            return reply.int().ok().map(|replicas| replicas.max(0));
        }
        let [own, replicas] = reply.array().ok()? else { return None };
        Some(if own.int().ok()? > 0 { replicas.int().ok()?.max(0) + 1 } else { 0 })
    }

    /// Waits for a free connection. Prefers the first connections; further connections open only on demand. `node` is the target of a redirection;
    /// otherwise the owner of the slot executes the call.
    async fn turn(&self, call: &Call, node: Option<Node>) -> Result<Turn, LinkError> {
        let lanes = if call.script().is_renewal() { std::slice::from_ref(&self.renewals) } else { &self.acquires[..] };
        let mut busy = Vec::with_capacity(lanes.len());
        for pool in lanes {
            let manager = match node {
                None => route::manager_of(pool, slot_of(call))?,
                Some(node) => pool.to(node).ok_or_else(|| LinkError::NotSent("no way to the node".to_owned()))?,
            };
            match Arc::clone(&manager.turn).try_lock_owned() {
                Ok(guard) => return Ok(Turn { pool: Arc::clone(pool), manager, _guard: guard }),
                Err(_) => busy.push((pool, manager)),
            }
        }
        let turns = busy.into_iter().map(|(pool, manager)| {
            Box::pin(async move {
                let guard = Arc::clone(&manager.turn).lock_owned().await;
                Turn { pool: Arc::clone(pool), manager, _guard: guard }
            })
        });
        Ok(futures_util::future::select_all(turns).await.0)
    }

    /// Sends a call. Resends it after `NOSCRIPT` and redirections, which prove that the server did not apply it.
    async fn call(&self, begun: u64, call: &Call, replicas: Replicas) -> Result<Reply, LinkError> {
        let mut node = None;
        let (mut command, mut script, mut asking) = ("EVALSHA", call.script().sha1(), false);
        let mut refused = None;
        for _ in 0..=FOLLOWED {
            let unsent = |error: LinkError| match &refused {
                Some(before) => error.of_a_call_refused(before),
                None => error,
            };
            let prepared = self.prepare(call, node);
            let timeout = self.renewals.shared.settings.command_timeout;
            let prepared = tokio::time::timeout(timeout / 2, prepared).await;
            let late = "no connection for durable calls became free in time";
            let prepared = prepared.unwrap_or_else(|_| Err(LinkError::NotSent(late.to_owned())));
            let (turn, connection) = prepared.map_err(unsent)?;
            turn.manager.blocks_for(replicas.within);
            let (waiting, args) = self.wait(replicas);
            let sent = route::unless_settled(turn.pool.shared.send_barrier(true), begun, || {
                pipeline(&connection, call, command, script, (waiting, &args), asking)
            });
            let [answer, mark, wait] = sent.map_err(unsent)?;
            let answered = |sent| connection.answered(sent, turn.manager.reply_timeout());
            let (answer, mark, wait) = futures_util::join!(answered(answer), answered(mark), answered(wait));
            let (answer, mark, wait) = (answer?, mark.map_err(unknown)?, wait.map_err(unknown)?);
            let refusal = match answer.into_result() {
                Ok(reply) => {
                    let acknowledged = self.acknowledged(&turn.manager, mark, waiting, &wait)?;
                    return Ok(Reply::Array(vec![reply, Reply::Int(acknowledged)]));
                }
                Err(refusal) => refusal,
            };
            match (Redirect::of(&refusal), &turn.pool.shared.slots) {
                _ if refusal.code() == "NOSCRIPT" => (command, script) = ("EVAL", call.script().source()),
                (Some(redirect), Some(slots)) => {
                    asking = redirect.asks;
                    node = Some(redirect.follow(&turn.pool, slots, &turn.manager)?.0);
                    (command, script) = ("EVALSHA", call.script().sha1());
                }
                _ => return Err(route::refused(&turn.manager, refusal.of_script(call.script(), call.script()))),
            }
            refused = Some(refusal);
        }
        let refused = refused.unwrap_or_else(|| ServerError::new("ERR redirected without end"));
        Err(LinkError::Refused(refused))
    }

    fn acknowledged(
        &self,
        manager: &ConnectionManager,
        mark: Reply,
        waiting: &str,
        wait: &Reply,
    ) -> Result<i64, LinkError> {
        let marked = mark.into_result().map(|reply| mark::marked(&reply));
        let refusals = [("EVAL", marked.as_ref().err()), (waiting, wait.error())];
        for (command, refusal) in refusals {
            if let Some(refusal) = refusal.filter(|refusal| refusal.is_of_a_missing_command()) {
                // The server has executed the script.
                let text = format!("ERR {command} was refused after the script: {refusal}");
                return Err(LinkError::Refused(ServerError::new(text)));
            }
        }
        match (marked, self.acknowledgements(wait)) {
            (Ok(Ok(true)), Some(count)) => Ok(count),
            (Ok(Err(error)), _) => Err(LinkError::Unknown(error.to_string())),
            // The number is unknown, so return 0. For example, a primary that became a replica refuses `WAIT`.
            (marked, _) => {
                let mark = marked.err();
                event!(debug, server = %manager.label(), ?mark, wait = ?wait.error(), "cannot wait for the acknowledgements");
                Ok(0)
            }
        }
    }

    /// Finds a free, live connection to a server that has the script and permits `WAIT`. Sends no part of the call.
    async fn prepare(&self, call: &Call, node: Option<Node>) -> Result<(Turn, Arc<Connection>), LinkError> {
        let turn = self.turn(call, node).await?;
        let connection = turn.manager.ready().await?;
        let sha1 = call.script().sha1();
        if connection.loaded.lock().contains(&sha1) {
            return Ok((turn, connection));
        }
        let unsent = |error: LinkError| LinkError::NotSent(error.to_string());
        let timeout = turn.manager.timeout();
        if connection.loaded.lock().is_empty() {
            // The server replies at once. After a refusal, do not send the script.
            let (command, args) = self.wait(Replicas { at_least: 0, within: Duration::ZERO });
            let answer = connection.send(command, args, timeout).await.map_err(unsent)?;
            match answer.error().cloned() {
                Some(refusal) if refusal.is_of_a_missing_command() || refusal.text().contains(NO_FILE) => {
                    return Err(LinkError::Refused(refusal));
                }
                Some(refusal) => {
                    // The server has become a replica.
                    turn.manager.renew();
                    return Err(LinkError::NotSent(refusal.text().to_owned()));
                }
                None => {}
            }
        }
        // Otherwise a call with a NOSCRIPT reply waits for replicas in vain, as on servers that forbid SCRIPT.
        let args = vec![word("LOAD"), word(call.script().source())];
        connection.send("SCRIPT", args, timeout).await.map_err(unsent)?;
        connection.loaded.lock().push(sha1);
        Ok((turn, connection))
    }
}

/// Sends a call in a task on the background's runtime.
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
    task.await.unwrap_or_else(|_| Err(LinkError::Unknown("the client's thread has ended".to_owned())))
}

/// Queues script, mark and `WAIT` together.
fn pipeline(
    connection: &Connection,
    call: &Call,
    command: &'static str,
    script: &'static str,
    (waiting, wait): (&'static str, &[Bytes]),
    asking: bool,
) -> Result<[Sent; 3], LinkError> {
    let mark = mark::mark(call.keys().first().unwrap_or_default());
    // An importing node requires it before each command with a key. Its `OK` carries no information.
    let ask = || if asking { connection.begin("ASKING", &[]).map(drop) } else { Ok(()) };
    ask()?;
    let script = connection.begin(command, &route::arguments(call, script))?;
    ask().map_err(unknown)?;
    // Sent by its source, because an unknown hash would mark nothing.
    let mark = connection.begin("EVAL", &route::arguments(&mark, mark.script().source())).map_err(unknown)?;
    Ok([script, mark, connection.begin(waiting, wait).map_err(unknown)?])
}

/// The error of a command behind the script, which the server may have run.
fn unknown(error: LinkError) -> LinkError {
    LinkError::Unknown(error.to_string())
}
