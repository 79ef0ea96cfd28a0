//! A connection that is kept: when one ends, another is made.

use super::connection::{Connection, Router};
use super::error::ConnectError;
use super::settings::Backoff;
use super::shared::{LinkShared, Role};
use super::target::{Endpoint, Server};
use crate::telemetry::event;
use leasehold_core::link::{LinkError, LinkEvent, Plane, not_connected};
use parking_lot::Mutex;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of messages that a connection buffers for the event loop. The loop only forwards them, so only a
/// stalled process fills the buffer.
const MESSAGES: usize = 4_096;

/// Ended connections that are remembered until the server says that they are dead.
const REMEMBERED: usize = 64;

/// A connection to one server, for one purpose, that is made again whenever it ends.
pub(super) struct ConnectionSlot {
    pub(super) role: Role,
    server: Server,
    shared: Arc<LinkShared>,
    state: Mutex<State>,
    changed: Notify,
    closed: CancellationToken,
    /// One subscription command at a time, where its reply could be taken for another's; and one call at a time, where the server
    /// blocks the connection.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// How many milliseconds the server may leave the connection blocked, by the last call that had it do so.
    blocked: AtomicU64,
}

#[derive(Default)]
struct State {
    current: Option<Arc<Connection>>,
    /// Connections that ended, newest last, of which the server has not yet said that they are dead.
    ended: Vec<Arc<Connection>>,
    /// One of those had to be forgotten.
    forgot: bool,
    attempts: u64,
    trouble: String,
    /// The runtime that the connection slot lived on is gone.
    gone: bool,
}

impl ConnectionSlot {
    /// Not connected yet. It is closed when `closed` is cancelled.
    pub(super) fn new(shared: &Arc<LinkShared>, role: Role, server: Server, closed: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            role,
            server,
            shared: Arc::clone(shared),
            state: Mutex::default(),
            changed: Notify::new(),
            closed,
            turn: Arc::default(),
            blocked: AtomicU64::new(0),
        })
    }

    /// The connection, if it stands.
    pub(super) fn current(&self) -> Result<Arc<Connection>, LinkError> {
        let state = self.state.lock();
        match &state.current {
            Some(connection) if !connection.has_ended() => Ok(Arc::clone(connection)),
            _ => Err(not_connected(&self.label(), &state.trouble)),
        }
    }

    /// Whether the connection stands.
    pub(super) fn stands(&self) -> bool {
        self.state.lock().current.as_ref().is_some_and(|connection| !connection.has_ended())
    }

    /// The connection, once the first attempt to make one is over.
    pub(super) async fn ready(&self) -> Result<Arc<Connection>, LinkError> {
        loop {
            let changed = self.changed.notified();
            let (attempts, gone) = {
                let state = self.state.lock();
                (state.attempts, state.gone)
            };
            if attempts > 0 || gone || self.closed.is_cancelled() {
                return self.current();
            }
            changed.await;
        }
    }

    /// Waits until the connection stands, for as long as the caller polls.
    pub(super) async fn standing(&self) -> Arc<Connection> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Ok(connection) = self.current() {
                return connection;
            }
            changed.await;
        }
    }

    /// Connections that ended, and that the server may not know to be dead.
    pub(super) fn ended(&self) -> Vec<Arc<Connection>> {
        let mut state = self.state.lock();
        state.ended.retain(|connection| !connection.is_confirmed_dead());
        state.ended.clone()
    }

    /// Every connection on which something sent may still be on its way, and whether one is missing from the list.
    pub(super) fn not_confirmed_dead(&self) -> (Vec<Arc<Connection>>, bool) {
        let mut state = self.state.lock();
        state.ended.retain(|connection| !connection.is_confirmed_dead());
        let current = state.current.iter().filter(|connection| !connection.is_confirmed_dead());
        (state.ended.iter().chain(current).cloned().collect(), state.forgot)
    }

    /// Gives the present connection up, so that another is made, unless it is too young to be the cause of the trouble.
    pub(super) fn renew(&self) {
        let current = self.state.lock().current.clone();
        if let Some(connection) = current
            && connection.began.elapsed() > Duration::from_millis(500)
        {
            connection.end();
        }
    }

    /// Ends the connection slot for good. It may be called from any thread.
    pub(super) fn close(&self) {
        self.closed.cancel();
        // The end answers calls, which must not find the lock taken.
        let current = self.state.lock().current.clone();
        if let Some(connection) = current {
            connection.end();
        }
        self.changed.notify_waiters();
    }

    /// Connects once, and installs the connection.
    pub(super) async fn open(self: &Arc<Self>) -> Result<Router, ConnectError> {
        let capacity = if self.role == Role::Notices { MESSAGES } else { 16 };
        let shared = &self.shared;
        let made = Connection::connect(&shared.target, self.server.clone(), &shared.settings, capacity).await;
        let mut state = self.state.lock();
        state.attempts += 1;
        let opened = made.map(|(connection, router)| {
            // The first connection begins no new epoch: nothing was sent before it.
            if let Some(old) = state.current.replace(Arc::new(connection)) {
                shared.epochs[self.role.index()].fetch_add(1, Ordering::AcqRel);
                if !old.is_confirmed_dead() {
                    state.ended.push(old);
                    if state.ended.len() > REMEMBERED {
                        state.ended.remove(0);
                        state.forgot = true;
                    }
                }
            }
            router
        });
        if let Err(error) = &opened {
            state.trouble = error.to_string();
        }
        drop(state);
        self.changed.notify_waiters();
        opened
    }

    /// Keeps the connection until the slot is closed, on the runtime in whose context this is polled. `router` is that of a
    /// connection that stands already.
    pub(super) async fn keep(self: Arc<Self>, mut router: Option<Router>) {
        let mut backoff = Backoff::default();
        let mut first = router.is_none();
        let mut outage = Outage { lost_at: Instant::now(), told: Vec::new() };
        if !first {
            self.tell(|server| LinkEvent::Connected { server, again: false });
        }
        loop {
            let Some(mut running) = router.take() else {
                if self.closed.is_cancelled() {
                    return;
                }
                tokio::select! {
                    biased;
                    () = self.closed.cancelled() => return,
                    () = tokio::time::sleep(backoff.next(&self.shared.settings.network)) => {}
                }
                tokio::select! {
                    biased;
                    () = self.closed.cancelled() => return,
                    opened = self.open() => match opened {
                        Ok(opened) => {
                            event!(debug, server = %self.label(), role = self.role.word(), "connected");
                            outage.told.clear();
                            let again = !std::mem::take(&mut first);
                            self.tell(|server| LinkEvent::Connected { server, again });
                            if again {
                                match self.role {
                                    Role::Calls(plane) => self.shared.events.event(LinkEvent::PlaneReset(plane)),
                                    Role::Notices => self.shared.reset_notices(),
                                }
                            }
                            router = Some(opened);
                        }
                        Err(error) => {
                            event!(debug, server = %self.label(), role = self.role.word(), %error, "not connected");
                            if outage.is_news(&error) {
                                self.tell(|server| LinkEvent::OutOfReach {
                                    server,
                                    why: error.to_string(),
                                    lost_for: outage.lost_at.elapsed(),
                                    slots: self.owned_slots(),
                                });
                            }
                        }
                    },
                }
                continue;
            };
            let Ok(connection) = self.current() else { continue };
            let began = Instant::now();
            tokio::select! {
                biased;
                () = self.closed.cancelled() => {}
                () = connection.ended() => {}
                _ = &mut running => {}
                () = self.watch(&connection) => {}
                () = self.give_scripts(&connection) => {}
                () = self.shared.events.take_from(&connection), if self.role == Role::Notices => {}
            }
            connection.end();
            outage.lost_at = Instant::now();
            self.state.lock().trouble = "the connection was lost".to_owned();
            event!(debug, server = %self.label(), role = self.role.word(), "the connection ended");
            backoff.stood(began.elapsed());
        }
    }

    /// How long a reply is waited for.
    pub(super) fn timeout(&self) -> Duration {
        self.shared.settings.command_timeout
    }

    /// The server may leave the connection blocked for so long before it answers. Said before the call is sent.
    pub(super) fn blocks_for(&self, pause: Duration) {
        self.blocked.store(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// How long a reply is waited for that comes behind whatever is under way.
    pub(super) fn patience(&self) -> Duration {
        self.timeout() + Duration::from_millis(self.blocked.load(Ordering::Acquire))
    }

    /// The server's name, for errors and logs.
    pub(super) fn label(&self) -> String {
        self.server.label()
    }

    /// Tells the driver of this server, where it is to know: the background's connection stands for all of them.
    pub(super) fn tell(&self, event: impl FnOnce(String) -> LinkEvent) {
        if self.role == Role::Calls(Plane::Background) {
            self.shared.events.event(event(self.label()));
        }
    }

    /// The slots that the server owns; `None` where it is no node of a cluster.
    fn owned_slots(&self) -> Option<Vec<u16>> {
        let slots = self.shared.slots.as_ref()?;
        let Server::At(Endpoint::Tcp(host)) = &self.server else { return None };
        Some(slots.owned_by(&host.label()))
    }

    /// Gives a server that was just connected to the scripts that it lacks, and never returns.
    async fn give_scripts(&self, connection: &Connection) {
        if self.role == Role::Calls(Plane::Background) {
            self.shared.scripts.give(connection, self.timeout()).await;
        }
        std::future::pending().await
    }

    /// Pings the connection, and returns when it stops answering: twice per command timeout while the server owes a
    /// reply or messages, and at each audit otherwise, because each wake-up costs processor time.
    ///
    /// Not on the foreground: while its executor is busy a ping is late though the connection is well. There the session
    /// gives up a call without a reply, and settles it.
    async fn watch(&self, connection: &Connection) {
        if self.role == Role::Calls(Plane::Foreground) {
            return std::future::pending().await;
        }
        let timeout = self.shared.settings.command_timeout;
        loop {
            if tokio::time::timeout_at(self.shared.next_audit(), connection.used()).await.is_ok() {
                tokio::time::sleep(timeout / 2).await;
            }
            let ping = connection.send("PING", Vec::new(), None);
            if !matches!(tokio::time::timeout(self.patience(), ping).await, Ok(Ok(_))) {
                return;
            }
        }
    }
}

/// That a connection does not stand.
struct Outage {
    lost_at: Instant,
    /// The kinds of errors by which attempts to make it anew have failed, and that were told.
    told: Vec<Discriminant<ConnectError>>,
}

impl Outage {
    /// Whether an attempt has failed in a way that was not told yet. A server that comes back and refuses the password is news.
    fn is_news(&mut self, error: &ConnectError) -> bool {
        let kind = discriminant(error);
        let is_news = !self.told.contains(&kind);
        if is_news {
            self.told.push(kind);
        }
        is_news
    }
}

/// Notes that the task which keeps a connection slot is gone: the slot was closed, or its runtime was dropped.
pub(super) struct Gone(pub(super) Arc<ConnectionSlot>);

impl Drop for Gone {
    fn drop(&mut self) {
        let connection_slot = &self.0;
        let current = {
            let mut state = connection_slot.state.lock();
            state.gone = true;
            "its runtime is gone, or it was closed".clone_into(&mut state.trouble);
            state.current.clone()
        };
        if let Some(connection) = current {
            connection.end();
        }
        connection_slot.changed.notify_waiters();
    }
}
