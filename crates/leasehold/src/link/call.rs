//! Calls of scripts and their replies.
//!
//! Two replies prove that the server did *not* apply a call: `NOSCRIPT` and a redirection. After `NOSCRIPT` the link
//! sends the script's text; it also follows redirections. It never resends after another reply, or after a settling that began
//! since the decision to send.

use super::connection::{Answer, Connection, word};
use super::pool::{ConnectionManager, Pool};
use super::route::{self, Redirect, Slots};
use crate::telemetry::event;
use bytes::Bytes;
use leasehold_core::batch::{Batch, MOST};
use leasehold_core::call::Call;
use leasehold_core::link::{Arrival, LinkError, LinkEvent, Outcome, Receiver, ServerError};
use leasehold_core::plain::Plain;
use leasehold_core::reply::Reply;
use leasehold_core::scan::{ScanPage, Scanned, ServerId};
use leasehold_core::script::Script;
use leasehold_core::session::CallId;
use leasehold_core::wire::Event;
use parking_lot::RwLock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::runtime::Handle;

/// Maximum number of resends of one call: redirections, and `NOSCRIPT` from each server in between.
pub(super) const FOLLOWED: usize = 6;

/// Sends a call for the session, which receives the outcome. Returns the call if the link is not connected.
pub(super) fn start(pool: &Arc<Pool>, begun: u64, id: CallId, call: Call) -> Result<Option<Outcome>, Call> {
    let slot = slot_of(&call);
    let standing = route::manager_of(pool, slot).and_then(|manager| manager.current());
    let Ok(connection) = standing else { return Err(call) };
    pool.shared.scripts.note(call.script());
    let plain = pool.plain_of(&call, connection.about.delete);
    let batch = if plain.is_none() { pool.batch_of(&call, slot) } else { None };
    let started = Started { pool: Arc::clone(pool), begun, id, call, plain, batch };
    let queued = route::unless_settled(pool.shared.send_barrier(false), begun, || connection.start(started));
    Ok(queued.err().map(Err))
}

/// A call whose outcome goes to the session.
pub(super) struct Started {
    pool: Arc<Pool>,
    begun: u64,
    id: CallId,
    pub(super) call: Call,
    /// The command in place of the script.
    pub(super) plain: Option<Plain>,
    pub(super) batch: Option<Joins>,
}

/// The batch that a call may join, and on a cluster the hash slot of the batch.
pub(super) type Joins = (&'static Batch, u16);

impl Started {
    pub(super) fn shares(&self, other: Option<Joins>) -> bool {
        matches!((self.batch, other), (Some((own, slot)), Some((batch, of))) if std::ptr::eq(own, batch) && slot == of)
    }

    pub(super) fn weight(&self) -> u32 {
        self.call.script().weight().unwrap_or(MOST)
    }

    /// Returns the outcome. Returns `None` after a refusal, which a task follows up.
    fn outcome(self, reply: Result<Reply, LinkError>) -> Option<Outcome> {
        let refusal = match (self.plain, reply) {
            (_, Err(error)) => return Some(Err(error)),
            (Some(plain), Ok(frame)) => match plain.reply(&self.call, &frame) {
                Some(reply) => return Some(Ok(reply)),
                None => self.refusal_of_plain(plain, frame),
            },
            (None, Ok(frame)) => match frame.into_result() {
                Ok(reply) => return Some(Ok(reply)),
                Err(refusal) => Refusal::OfCall(refusal),
            },
        };
        self.follow_up(refusal);
        None
    }

    fn refusal_of_plain(&self, plain: Plain, reply: Reply) -> Refusal {
        let Reply::Error(refusal) = reply else {
            return Refusal::OfSubstitute(ServerError::new("the plain command changed nothing"));
        };
        if refusal.is_of_a_missing_command() && !refusal.text().contains(" key") {
            let mut refused = self.pool.refused.write();
            if !refused.contains(&plain) {
                refused.push(plain);
            }
        }
        // A proxy may apply the command after another error.
        let did_nothing = refusal.is_of_a_missing_command() || refusal.code() == "WRONGTYPE";
        if did_nothing { Refusal::OfSubstitute(refusal) } else { Refusal::OfCall(refusal) }
    }

    /// The outcome of a call in a batch that the server ran. The link does not resend such a call.
    fn outcome_in_batch(&self, batch: &'static Batch, reply: Reply) -> Outcome {
        reply.into_result().map_err(|refusal| {
            let refusal = refusal.of_script(self.call.script(), batch.script());
            if refusal.proves_no_grant() {
                // Some servers do not name the refused command of a batched script. The error of a call sent alone contains it.
                self.pool.pause_batches();
            }
            self.refused(refusal)
        })
    }

    /// The error of a refusal that the link does not follow up.
    fn refused(&self, refusal: ServerError) -> LinkError {
        match route::manager_of(&self.pool, slot_of(&self.call)) {
            Ok(manager) => route::refused(&manager, refusal),
            Err(_) => LinkError::Refused(refusal),
        }
    }

    /// Follows up the refused call in a task of the runtime that read the refusal: telemetry may block the background.
    fn follow_up(self, refusal: Refusal) {
        let Self { pool, begun, id, call, .. } = self;
        let runtime = Handle::try_current().unwrap_or_else(|_| pool.runtime.clone());
        drop(runtime.spawn(async move {
            let result = match route::manager_of(&pool, slot_of(&call)) {
                Ok(manager) => refused(&pool, manager, begun, call, refusal).await,
                Err(error) => Err(error),
            };
            pool.shared.inbox.deliver(&mut vec![Arrival::Outcome(id, result)]);
        }));
    }
}

/// Pause of batches after a server reported a missing permission for a key or a command.
const PAUSE: Duration = Duration::from_secs(10);

impl Pool {
    /// The command that replaces a call's script. `delete` is the server's compare-and-delete.
    fn plain_of(&self, call: &Call, delete: Option<Plain>) -> Option<Plain> {
        Plain::of(call, delete).filter(|plain| !self.refused.read().contains(plain))
    }

    fn batch_of(&self, call: &Call, slot: u16) -> Option<Joins> {
        let stops = [&self.batches_paused, &self.batches_refused, &self.shared.splits];
        if self.shared.settings.batch_from.is_none() || stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
            return None;
        }
        let batch = Batch::of(call.script())?;
        Some((batch, if self.shared.slots.is_some() { slot } else { 0 }))
    }

    fn pause_batches(self: &Arc<Self>) {
        if !self.batches_paused.swap(true, Ordering::Relaxed) {
            let (pool, closed) = (Arc::downgrade(self), self.shared.closed.clone());
            drop(self.runtime.spawn(closed.run_until_cancelled_owned(async move {
                tokio::time::sleep(PAUSE).await;
                pool.upgrade().inspect(|pool| pool.batches_paused.store(false, Ordering::Relaxed));
            })));
        }
    }

    /// Returns whether to resend the calls of a refused batch alone. The server ran no call of the batch, and the refusal may not apply to each call. Also
    /// loads a missing script, and pauses batches after a missing permission.
    fn goes_on_alone(self: &Arc<Self>, batch: &'static Batch, slot: u16, refusal: &ServerError) -> bool {
        let lacks_a_right = refusal.code() == "NOPERM" && refusal.proves_nothing_done();
        if lacks_a_right {
            self.pause_batches();
        }
        let connection = route::manager_of(self, slot).and_then(|manager| manager.current());
        let is_parted = refusal.is_of_several_slots();
        if let Ok(connection) = connection {
            if is_parted {
                self.shared.note_several_slots(&connection.server);
            }
            if refusal.code() == "NOSCRIPT" {
                self.load(batch, &connection);
            }
        }
        lacks_a_right || is_parted || refusal.is_detour() || refusal.is_of_a_moving_slot()
    }

    /// Loads the script of a batch for later batches. Otherwise the server would refuse every batch.
    fn load(self: &Arc<Self>, batch: &'static Batch, connection: &Connection) {
        self.shared.scripts.note(batch.script());
        let Ok(loading) = connection.begin("SCRIPT", &[word("LOAD"), word(batch.script().source())]) else { return };
        let (pool, closed) = (Arc::downgrade(self), self.shared.closed.clone());
        drop(self.runtime.spawn(closed.run_until_cancelled_owned(async move {
            if let Ok(Ok(Reply::Error(refusal))) = loading.await
                && refusal.is_of_a_missing_command()
                && let Some(pool) = pool.upgrade()
            {
                pool.batches_refused.store(true, Ordering::Relaxed);
            }
        })));
    }
}

fn split(batch: &'static Batch, calls: Vec<Started>, reply: Result<Reply, LinkError>, arrivals: &mut Vec<Arrival>) {
    let error = match reply {
        Ok(Reply::Array(replies)) if replies.len() == calls.len() => {
            let each = calls.iter().zip(replies);
            arrivals.extend(each.map(|(call, reply)| Arrival::Outcome(call.id, call.outcome_in_batch(batch, reply))));
            return;
        }
        Ok(Reply::Error(refusal)) => {
            let Some(first) = calls.first() else { return };
            if first.pool.goes_on_alone(batch, slot_of(&first.call), &refusal) {
                calls.into_iter().for_each(|started| started.follow_up(Refusal::OfSubstitute(refusal.clone())));
                return;
            }
            first.refused(refusal)
        }
        Ok(_) => LinkError::Unknown("the server's reply does not match the calls of the batch".to_owned()),
        Err(error) => error,
    };
    arrivals.extend(calls.into_iter().map(|call| Arrival::Outcome(call.id, Err(error.clone()))));
}

/// The events of one read.
#[derive(Default)]
pub(super) struct Arrivals {
    pub(super) events: Vec<Event<Answer>>,
    session: Vec<Arrival>,
}

impl Arrivals {
    /// Delivers all events. The caller must hold no lock: refusals may end a connection, and the session may send calls.
    pub(super) fn deliver(&mut self, inbox: &Inbox) {
        for event in self.events.drain(..) {
            match event {
                Event::Answered(answer, frame) => answer.complete(Ok(frame), &mut self.session),
                Event::Message { channel, payload } => {
                    self.session.push(Arrival::Event(LinkEvent::of_message(channel, &payload)));
                }
                Event::Unsubscribed { channel } => {
                    event!(debug, channel = ?String::from_utf8_lossy(&channel), "the server ended a subscription");
                }
            }
        }
        inbox.deliver(&mut self.session);
        self.events.shrink_to(KEPT);
        self.session.shrink_to(KEPT);
    }
}

impl Answer {
    pub(super) fn complete(self, reply: Result<Reply, LinkError>, arrivals: &mut Vec<Arrival>) {
        match self {
            // The future may have been dropped.
            Self::Future(answer) => drop(answer.send(reply)),
            Self::Session(started) => {
                let id = started.id;
                arrivals.extend(started.outcome(reply).map(|outcome| Arrival::Outcome(id, outcome)));
            }
            Self::Batch(batch, calls) => split(batch, calls, reply, arrivals),
        }
    }
}

const KEPT: usize = 1024;

#[derive(Default)]
pub(super) struct Inbox {
    pub(super) receiver: OnceLock<Weak<dyn Receiver>>,
}

impl Inbox {
    pub(super) fn deliver(&self, arrivals: &mut Vec<Arrival>) {
        if !arrivals.is_empty()
            && let Some(receiver) = self.receiver.get().and_then(Weak::upgrade)
        {
            receiver.receive(arrivals);
        }
        arrivals.clear();
    }
}

pub(super) fn slot_of(call: &Call) -> u16 {
    call.keys().first().map_or(0, leasehold_core::name::slot)
}

/// A server's refusal of a command that changed nothing.
#[derive(Clone, Debug)]
enum Refusal {
    OfCall(ServerError),
    /// The batch or the plain command sent in place of the call did not apply it.
    OfSubstitute(ServerError),
}

impl Refusal {
    fn error(&self) -> &ServerError {
        let (Self::OfCall(refusal) | Self::OfSubstitute(refusal)) = self;
        refusal
    }
}

/// Sends a call and waits for its reply. `begun` is the send barrier at the decision to send.
pub(super) async fn call(pool: &Arc<Pool>, begun: u64, call: Call) -> Result<Reply, LinkError> {
    let timeout = pool.shared.settings.command_timeout;
    let manager = route::manager_of(pool, slot_of(&call))?;
    pool.shared.scripts.note(call.script());
    let connection = route::ready(&manager, timeout).await?;
    let sent = route::unless_settled(pool.shared.send_barrier(false), begun, || {
        connection.begin("EVALSHA", &route::arguments(&call, call.script().sha1()))
    });
    match connection.answered(sent?, timeout).await?.into_result() {
        Ok(reply) => Ok(reply),
        Err(refusal) => refused(pool, manager, begun, call, Refusal::OfCall(refusal)).await,
    }
}

/// Follows up a refused call, which the server did not apply.
async fn refused(
    pool: &Pool,
    manager: Arc<ConnectionManager>,
    begun: u64,
    call: Call,
    refusal: Refusal,
) -> Result<Reply, LinkError> {
    let before = refusal.error().clone();
    let followed = follow_up(pool, manager, begun, call, refusal).await;
    // The refusal of a batch or plain command does not concern this call.
    let came = before.is_detour() || before.is_of_a_moving_slot();
    followed.map_err(|error| if came { error.of_a_call_refused(&before) } else { error })
}

/// Resends a refused call until a server applies or finally refuses it.
async fn follow_up(
    pool: &Pool,
    mut manager: Arc<ConnectionManager>,
    begun: u64,
    call: Call,
    refusal: Refusal,
) -> Result<Reply, LinkError> {
    let timeout = pool.shared.settings.command_timeout;
    let mut answer = Err(refusal);
    let mut asking = false;
    for _ in 0..FOLLOWED {
        let refusal = match answer {
            Ok(reply) => return Ok(reply),
            Err(refusal) => refusal,
        };
        let (command, script) = match (Redirect::of(refusal.error()), &pool.shared.slots) {
            (Some(redirect), Some(slots)) => {
                asking = redirect.asks;
                (_, manager) = redirect.follow(pool, slots, &manager)?;
                ("EVALSHA", call.script().sha1())
            }
            _ => match refusal {
                Refusal::OfSubstitute(_) => ("EVALSHA", call.script().sha1()),
                Refusal::OfCall(refusal) if refusal.code() == "NOSCRIPT" => ("EVAL", call.script().source()),
                Refusal::OfCall(refusal) => {
                    if refusal.is_of_several_slots() {
                        pool.shared.note_several_slots(&manager.label());
                    }
                    return Err(route::refused(&manager, refusal.of_script(call.script(), call.script())));
                }
            },
        };
        let connection = route::ready(&manager, timeout).await?;
        let sent = route::unless_settled(pool.shared.send_barrier(false), begun, || {
            if asking {
                // If another command slips in between, the node redirects the call again. `ASKING` does not affect that other
                // command.
                drop(connection.begin("ASKING", &[])?);
            }
            connection.begin(command, &route::arguments(&call, script))
        });
        if command == "EVAL" && matches!(sent, Err(LinkError::NotSent(_))) {
            // Later calls on the connection then find the script. Otherwise a client that settles constantly
            // would never load it. The reply is ignored.
            drop(connection.begin("SCRIPT", &[word("LOAD"), word(script)]));
        }
        answer = connection.answered(sent?, timeout).await?.into_result().map_err(Refusal::OfCall);
    }
    answer.map_err(|refusal| route::refused(&manager, refusal.error().clone()))
}

/// The scripts in use. After a reconnect the link loads the missing scripts: a restarted server has no scripts, and a
/// primary does not replicate them. Calls do not wait for the load.
#[derive(Default)]
pub(super) struct Scripts {
    used: RwLock<Vec<&'static Script>>,
}

impl Scripts {
    pub(super) fn note(&self, script: &'static Script) {
        let is_same = |other: &&'static Script| std::ptr::eq(*other, script);
        if self.used.read().iter().any(is_same) {
            return;
        }
        let mut used = self.used.write();
        if !used.iter().any(is_same) {
            used.push(script);
        }
    }

    /// Loads the missing scripts. Without permission, each script only costs a later round trip.
    pub(super) async fn load_missing(&self, connection: &Connection, timeout: Duration) {
        let used = self.used.read().clone();
        if used.is_empty() {
            return;
        }
        let hashes = used.iter().map(|script| word(script.sha1()));
        let asked = std::iter::once(word("EXISTS")).chain(hashes).collect();
        let Ok(answer) = connection.send("SCRIPT", asked, timeout).await else { return };
        let Ok(known) = answer.array() else { return };
        let lacking = used.iter().zip(known).filter(|(_, known)| known.int() == Ok(0));
        // Sequentially: a renewal then waits for one script at most.
        for (script, _) in lacking {
            let given = vec![word("LOAD"), word(script.source())];
            match connection.send("SCRIPT", given, timeout).await {
                Ok(answer) if answer.error().is_none() => {}
                _ => return,
            }
            event!(debug, server = %connection.server, script = script.name(), "the script was loaded");
        }
    }
}

/// The only server, or the primaries of the cluster.
pub(super) fn servers(pool: &Pool) -> Vec<ServerId> {
    let nodes = pool.shared.slots.as_ref().map_or_else(|| vec![0], Slots::primaries);
    nodes.into_iter().map(ServerId).collect()
}

/// Sends a `PING`. A user without permission for `PING` may still call scripts.
pub(super) async fn ping(pool: &Pool, server: ServerId) -> Result<(), LinkError> {
    match send_to(pool, server, "PING", Vec::new()).await {
        Err(LinkError::Refused(refusal)) if refusal.code() == "NOPERM" => Ok(()),
        answer => answer.map(drop),
    }
}

/// Reads a page of keys. Follows no redirection: a cursor is valid on one server only.
pub(super) async fn scan(pool: &Pool, server: ServerId, page: &ScanPage) -> Result<Scanned, LinkError> {
    if !servers(pool).contains(&server) {
        return Err(LinkError::NotSent("the server no longer has keys of the cluster".to_owned()));
    }
    let (reply, connection) = send_to(pool, server, "SCAN", page.words().to_vec()).await?;
    let process = connection.about.run_id.clone().unwrap_or_default();
    Scanned::decode(&reply, process).map_err(|error| LinkError::Unknown(error.to_string()))
}

/// Sends a command to one server. Returns the reply and its connection.
async fn send_to(
    pool: &Pool,
    server: ServerId,
    command: &'static str,
    args: Vec<Bytes>,
) -> Result<(Reply, Arc<Connection>), LinkError> {
    let slot = pool.to(server.0).ok_or_else(|| LinkError::NotSent("the server is no longer known".to_owned()))?;
    let timeout = slot.timeout();
    let connection = route::ready(&slot, timeout).await?;
    let answer = connection.send(command, args, timeout).await?;
    let reply = answer.into_result().map_err(|refusal| route::refused(&slot, refusal))?;
    Ok((reply, connection))
}
