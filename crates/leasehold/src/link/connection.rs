//! One connection, from connect to close. It never reconnects: the
//! [`ConnectionManager`](super::pool::ConnectionManager) opens a new connection instead. A connection therefore has *one*
//! socket and *one* id on *one* server process, with these guarantees:
//!
//! 1. A command is encoded once, into the connection's only buffer. Its bytes are written in the order of the buffer,
//!    or never.
//! 2. Once a later command is answered, every command queued before it has been applied, refused, or skipped.
//! 3. Once the server reports the connection's id as dead, it applies no further command of this connection, even from
//!    a proxy's buffer. Unwritten bytes have no other socket.
//!
//! The caller's thread queues a command and usually writes it at once. One thread writes at a time, also for other
//! callers. A *reader* writes the rest when the socket was full.
//!
//! A connection has two readers, because each runtime may block or end. *Home* is a task on the runtime that built the client,
//! where a reply wakes a task without a thread switch. The *stand-in* is a task on the background's runtime. It reads
//! before home begins, after home is gone, and when home has left bytes unread for [`STALL`]. Both may read at the same
//! time: a lock serializes them.
//!
//! Replies that arrive together wake several callers, which often send again. The reader *corks* the connection while
//! these callers run, and then writes their commands together. A caller also corks a busy connection. Consecutive
//! session calls that a reader writes together form a [`Batch`], if their number suffices.

mod reader;

use self::reader::EndOnDrop;
use super::call::{Arrivals, Inbox, Started};
use super::error::{ConnectError, error_text};
use super::handshake::{self, About};
use super::network::{Home, Stream};
use super::shared::LinkSettings;
use super::target::{Endpoint, Server, ServerTarget};
use crate::runtime::process::Process;
use bytes::Bytes;
use leasehold_core::batch::{Batch, MOST};
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::wire::{self, Fate, Malformed, Subscription, Wire};
use parking_lot::{Mutex, MutexGuard};
use std::io::{self, ErrorKind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const READ: usize = 16 * 1024;

/// How long home may leave bytes unread, or commands unwritten, before the stand-in helps.
pub(super) const STALL: Duration = Duration::from_millis(10);

/// A caller writes despite a cork once the collected calls reach 1/`SHARE` of the calls in flight. This keeps the server busy.
/// A reader only corks with more calls than this.
const SHARE: usize = 4;

/// With more calls in flight than this, a caller corks the connection, and the reader at home writes.
const BUSY: usize = 16;

/// Maximum number of collected calls whose memory is reused.
const KEPT: usize = 256;

/// Queued bytes at which a caller writes despite a cork.
const CORKED: usize = 4096;

/// Number of writes by a caller before the reader takes over.
const WRITES: usize = 4;

pub(super) struct Connection {
    /// The address of the server, which Sentinel reveals only during the connect.
    pub(super) server: String,
    pub(super) about: About,
    pub(super) began: Instant,
    /// Whether the connection uses RESP3, and can carry subscriptions beside calls.
    pub(super) resp3: bool,
    shared: Arc<Shared>,
    pub(super) confirmed_dead: AtomicBool,
    pub(super) kill_forbidden: AtomicBool,
    /// Hashes of the scripts that this connection has loaded. The server may have flushed them since.
    pub(super) loaded: Mutex<Vec<&'static str>>,
}

struct Shared {
    stream: Stream,
    /// The buffer of a reader, held while it reads or writes.
    reading: Mutex<Vec<u8>>,
    /// The memory of the last reads' events.
    spare: Mutex<Arrivals>,
    state: Mutex<State>,
    /// Wakes the readers to write.
    handed: Notify,
    /// Wakes the ping loop and the stand-in: an idle connection is used, or home is gone.
    used: Notify,
    inbox: Arc<Inbox>,
    ended: CancellationToken,
    ended_at: OnceLock<Instant>,
    malformed: OnceLock<Malformed>,
    /// The process that connected. A forked child shares the socket.
    process: Process,
}

#[derive(Default)]
struct State {
    wire: Wire<Answer>,
    /// Session calls that are queued behind the commands of the wire, and not encoded.
    collected: Vec<Started>,
    weight: u32,
    batch_from: usize,
    /// Number of calls in flight that share the command of an earlier call.
    batched: usize,
    writer: Writer,
    /// Bytes taken from the wire but not yet accepted by the socket.
    rest: Vec<u8>,
    tls_waits: bool,
    /// Callers leave their commands to the reader, which writes them after the ready tasks have run.
    corked: bool,
    /// The ping loop and the stand-in sleep until the next command.
    idle: bool,
    /// Number of turns of the reader at home. `None` if it has not started, or its runtime is gone.
    home: Option<u64>,
    /// Number of reads that received bytes.
    reads: u64,
    /// The error of a failed write. The reader continues: the server may have sent the cause.
    broken: Option<String>,
    end: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Nobody,
    Thread,
    /// The reader: the socket is full, or a caller has reached its limit.
    Reader,
}

pub(super) enum Answer {
    /// A future, which may have been dropped.
    Future(oneshot::Sender<Result<Reply, LinkError>>),
    Session(Started),
    Batch(&'static Batch, Vec<Started>),
}

impl Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Session(started) => {
                let call = &started.call;
                match started.plain {
                    Some(plain) => plain.encode(call, out),
                    None => wire::script(out, "EVALSHA", call.script().sha1(), call.keys(), call.args()),
                }
            }
            Self::Batch(batch, calls) => batch.encode(out, calls.iter().map(|started| &started.call)),
            Self::Future(_) => {}
        }
    }
}

pub(super) type Sent = oneshot::Receiver<Result<Reply, LinkError>>;

impl Connection {
    /// Connects once, on the background's runtime: the stand-in runs there.
    pub(super) async fn connect(
        target: &ServerTarget,
        server: Server,
        settings: &LinkSettings,
        inbox: &Arc<Inbox>,
    ) -> Result<Self, ConnectError> {
        let mut resp3 = target.resp3;
        loop {
            let to = handshake::endpoint(target, &server, settings).await?;
            let mut connection = Self::open(target, &to, settings, inbox, resp3).await?;
            if let Some(about) = handshake::greet(&connection, target, settings.attempt(), resp3).await? {
                connection.about = about;
                return Ok(connection);
            }
            // The unknown command exists only in RESP3.
            resp3 = false;
        }
    }

    pub(super) async fn open(
        target: &ServerTarget,
        to: &Endpoint,
        settings: &LinkSettings,
        inbox: &Arc<Inbox>,
        resp3: bool,
    ) -> Result<Self, ConnectError> {
        let server = to.label();
        let stream = Stream::connect(target, to, settings).await?;
        let watched = stream.socket.watch().map_err(|error| ConnectError::of_io(&server, error))?;
        let shared = Arc::new(Shared {
            stream,
            reading: Mutex::new(vec![0; READ]),
            spare: Mutex::default(),
            state: Mutex::new(State { batch_from: settings.batch_from.unwrap_or(usize::MAX), ..State::default() }),
            handed: Notify::new(),
            used: Notify::new(),
            inbox: Arc::clone(inbox),
            ended: CancellationToken::new(),
            ended_at: OnceLock::new(),
            malformed: OnceLock::new(),
            process: Process::current(),
        });
        drop(tokio::spawn(reader::stand_in(EndOnDrop(Arc::clone(&shared)), watched)));
        Ok(Self {
            server,
            about: About::default(),
            began: Instant::now(),
            resp3,
            shared,
            confirmed_dead: AtomicBool::new(false),
            kill_forbidden: AtomicBool::new(false),
            loaded: Mutex::default(),
        })
    }

    pub(super) fn read_at(&self, home: &Home) {
        home.spawn(reader::read_at_home(Arc::downgrade(&self.shared)));
    }

    /// Sends a command once and waits for its reply. The first poll encodes the command. Needs tokio's timers.
    pub(super) async fn send(
        &self,
        command: &'static str,
        args: Vec<Bytes>,
        timeout: Duration,
    ) -> Result<Reply, LinkError> {
        let sent = self.begin(command, &args)?;
        drop(args);
        self.answered(sent, timeout).await
    }

    /// Queues a command, which the connection sends once.
    pub(super) fn begin(&self, command: &'static str, args: &[Bytes]) -> Result<Sent, LinkError> {
        let (answer, sent) = oneshot::channel();
        self.shared.send(&self.server, |state| state.wire().send(command, args, Answer::Future(answer)))?;
        Ok(sent)
    }

    /// Queues a session's call, which the connection sends once. After an error the session receives no outcome.
    pub(super) fn start(&self, started: Started) -> Result<(), LinkError> {
        self.shared.send(&self.server, |state| state.collect(started))
    }

    /// Subscribes or unsubscribes, and waits until the server has confirmed or refused it.
    pub(super) async fn subscription(
        &self,
        what: Subscription,
        channel: &Bytes,
        timeout: Duration,
    ) -> Result<Result<(), ServerError>, LinkError> {
        let (answer, sent) = oneshot::channel();
        let (channel, answer) = (channel.clone(), Answer::Future(answer));
        self.shared.send(&self.server, |state| state.wire().subscription(what, channel, self.resp3, answer))?;
        match self.answered(sent, timeout).await? {
            Reply::Error(refusal) => Ok(Err(refusal)),
            _ => Ok(Ok(())),
        }
    }

    pub(super) async fn answered(&self, sent: Sent, timeout: Duration) -> Result<Reply, LinkError> {
        match tokio::time::timeout(timeout, sent).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(LinkError::Unknown(format!("the connection to {} was lost", self.server))),
            Err(_) => Err(LinkError::Unknown(format!("no reply within {timeout:?}"))),
        }
    }

    /// Returns whether the connection is closed or abandoned. No new call uses it.
    pub(super) fn has_ended(&self) -> bool {
        self.ended_at().is_some()
    }

    /// Waits until the server owes this connection a reply or messages.
    pub(super) async fn used(&self) {
        // Created before the check: a command sent after the check then ends the wait.
        let used = self.shared.used.notified();
        let is_idle = {
            let mut state = self.shared.state.lock();
            state.idle = !state.is_owed_a_reply() && !state.wire.is_subscribed();
            state.idle
        };
        if is_idle {
            used.await;
        }
    }

    pub(super) async fn ended(&self) {
        self.shared.ended.cancelled().await;
    }

    /// Abandons the connection: pending calls end with an unknown outcome. May be called from any thread.
    pub(super) fn end(&self) {
        self.shared.end("the connection was abandoned");
    }

    /// The protocol error of the server, if it ended the connection.
    pub(super) fn malformed(&self) -> Option<Malformed> {
        self.shared.malformed.get().cloned()
    }

    /// Returns whether the other side ended the connection without a reply.
    pub(super) fn was_hung_up_on(&self) -> bool {
        let state = self.shared.state.lock();
        state.end.is_some() && state.reads == 0
    }

    /// Returns whether the connection has subscriptions, or had some at its end.
    pub(super) fn is_subscribed(&self) -> bool {
        self.shared.state.lock().wire.is_subscribed()
    }

    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.shared.ended_at.get().copied()
    }

    /// Returns whether both connections belong to one server process, or `None` if a server hides its run id.
    pub(super) fn is_of_process(&self, other: &Self) -> Option<bool> {
        Some(self.about.run_id.as_ref()? == other.about.run_id.as_ref()?)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.end("the connection was dropped");
    }
}

impl Shared {
    /// Queues a command. Writes it unless another thread writes, or the connection is corked and has room.
    fn send(&self, server: &str, queue: impl FnOnce(&mut State)) -> Result<(), LinkError> {
        let mut state = self.state.lock();
        if let Some(why) = &state.end {
            return Err(LinkError::NotSent(format!("the connection to {server} was lost: {why}")));
        }
        if self.is_forked() {
            return Err(LinkError::NotSent(format!("the connection to {server} belongs to another process")));
        }
        queue(&mut state);
        let was_idle = std::mem::take(&mut state.idle);
        let waits = (state.corked || state.may_cork()) && state.has_room();
        let corks = waits && !state.corked;
        state.corked |= waits;
        if state.writer == Writer::Nobody && !waits {
            state.writer = Writer::Thread;
            self.write(state, |bytes| self.stream.socket.write(bytes));
        } else {
            drop(state);
            if corks {
                self.handed.notify_waiters();
            }
        }
        if was_idle {
            self.used.notify_waiters();
        }
        Ok(())
    }

    /// Writes the commands that callers left to the reader.
    fn write_as_reader(&self, write: impl Fn(&[u8]) -> io::Result<usize>) {
        let _reading = self.reading.lock();
        let state = self.state.lock();
        // A failed write leaves a gap in the stream: write nothing after it.
        if state.writer == Writer::Reader && state.broken.is_none() && !self.is_forked() {
            self.write(state, write);
        }
    }

    /// Writes, as the only writer, until the queue is empty or the socket is full. The reader then writes the rest.
    fn write<'a>(&'a self, mut state: MutexGuard<'a, State>, write: impl Fn(&[u8]) -> io::Result<usize>) {
        let writer = state.writer;
        for round in 0.. {
            if state.rest.is_empty() && !state.wants_to_write() {
                state.writer = Writer::Nobody;
                return;
            }
            if writer == Writer::Thread && (round == WRITES || !state.rest.is_empty()) {
                state.writer = Writer::Reader;
                drop(state);
                self.handed.notify_waiters();
                return;
            }
            let rest = std::mem::take(&mut state.rest);
            let plain = if rest.is_empty() { Some(state.take()) } else { None };
            drop(state);
            let written = plain.map_or(Ok(rest), |plain| self.secured(plain)).and_then(|mut bytes| {
                let written = unless_full(write(&bytes))?;
                bytes.drain(..written);
                Ok(bytes)
            });
            state = self.state.lock();
            match written {
                Ok(rest) if rest.is_empty() => state.wire.give_back(rest),
                Ok(rest) => {
                    state.rest = rest;
                    if writer == Writer::Reader {
                        return;
                    }
                }
                // A reader ends the connection.
                Err(error) => {
                    state.broken = Some(lost(&error));
                    state.writer = Writer::Reader;
                    drop(state);
                    self.handed.notify_waiters();
                    return;
                }
            }
        }
    }

    /// Ends a cork. The reader writes the queued commands.
    fn uncork(&self) {
        let mut state = self.state.lock();
        state.corked = false;
        if state.writer == Writer::Nobody && state.wants_to_write() {
            state.writer = Writer::Reader;
        }
    }

    fn secured(&self, plain: Vec<u8>) -> io::Result<Vec<u8>> {
        match &self.stream.tls {
            Some(tls) => tls.encrypt(&plain),
            None => Ok(plain),
        }
    }

    fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    /// Ends the connection. The outcome of each call without a reply includes whether it was sent.
    fn end(&self, why: &str) {
        let calls: Vec<_> = {
            let mut state = self.state.lock();
            if state.end.is_some() {
                return;
            }
            state.end = Some(why.to_owned());
            let unsent = std::mem::take(&mut state.collected);
            let unsent = unsent.into_iter().map(|started| (Answer::Session(started), Fate::NotSent));
            state.wire.close().chain(unsent).collect()
        };
        self.ended_at.get_or_init(Instant::now);
        // In a forked child this would end the parent's connection.
        if !self.is_forked() {
            self.stream.socket.shut_down();
        }
        self.ended.cancel();
        let mut arrivals = Vec::new();
        for (answer, fate) in calls {
            let error = match fate {
                Fate::NotSent => LinkError::NotSent(format!("the connection was lost: {why}")),
                Fate::Unknown => LinkError::Unknown(format!("the connection was lost before the reply: {why}")),
            };
            answer.complete(Err(error), &mut arrivals);
        }
        self.inbox.deliver(&mut arrivals);
    }
}

impl State {
    fn collect(&mut self, started: Started) {
        self.weight += started.weight();
        self.collected.push(started);
    }

    /// The wire, with the collected calls in it.
    fn wire(&mut self) -> &mut Wire<Answer> {
        if !self.collected.is_empty() {
            self.weight = 0;
            let mut calls = self.collected.drain(..).peekable();
            while let Some(first) = calls.next() {
                let (batch, mut weight) = (first.batch, first.weight());
                let mut joins = |next: &Started| {
                    weight += next.weight();
                    weight <= MOST && next.shares(batch)
                };
                let second = calls.next_if(&mut joins);
                if second.is_none() && self.batch_from > 1 {
                    // The usual case needs no list.
                    self.wire.send_encoded(Answer::Session(first), Answer::encode);
                    continue;
                }
                let mut group = vec![first];
                group.extend(second);
                group.extend(std::iter::from_fn(|| calls.next_if(&mut joins)));
                match batch {
                    Some((batch, _)) if group.len() >= self.batch_from => {
                        self.batched += group.len() - 1;
                        self.wire.send_encoded(Answer::Batch(batch, group), Answer::encode);
                    }
                    _ => group.into_iter().for_each(|started| {
                        self.wire.send_encoded(Answer::Session(started), Answer::encode);
                    }),
                }
            }
            drop(calls);
            // A full socket may have filled it.
            self.collected.shrink_to(KEPT);
        }
        &mut self.wire
    }

    fn wants_to_write(&self) -> bool {
        self.wire.unwritten() > 0 || !self.collected.is_empty() || self.tls_waits
    }

    /// Returns whether a caller may cork the connection, to let the reader at home write for several callers.
    fn may_cork(&self) -> bool {
        self.writer == Writer::Nobody && self.home.is_some() && self.in_flight() > BUSY
    }

    /// Returns whether the queue is short enough for a caller to leave its command to the reader.
    fn has_room(&self) -> bool {
        self.collected.len() * SHARE < self.in_flight() && self.weight < MOST && self.wire.unwritten() < CORKED
    }

    /// Number of commands in flight, including each call of a batch.
    fn in_flight(&self) -> usize {
        self.wire.in_flight() + self.batched
    }

    fn is_owed_a_reply(&self) -> bool {
        self.wire.in_flight() > 0 || !self.collected.is_empty()
    }

    fn take(&mut self) -> Vec<u8> {
        self.tls_waits = false;
        self.wire().take_out()
    }
}

fn lost(error: &io::Error) -> String {
    error_text(&format!("{error:?}"))
}

fn unless_full(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}

pub(super) const fn word(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}
