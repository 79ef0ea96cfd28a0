//! Keeps a connection to a server, and reconnects after each loss.

use super::connection::{Connection, StandIn};
use super::error::ConnectError;
use super::settings::Backoff;
use super::shared::{LinkShared, Role};
use super::target::{Endpoint, Server};
use crate::telemetry::event;
use leasehold_core::link::{LinkError, LinkEvent, not_connected};
use parking_lot::Mutex;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of ended connections kept until the server confirms their death.
const REMEMBERED: usize = 64;

/// A connection to one server, for one purpose, with automatic reconnects.
pub(super) struct ConnectionSlot {
    pub(super) role: Role,
    server: Server,
    shared: Arc<LinkShared>,
    state: Mutex<State>,
    changed: Notify,
    closed: CancellationToken,
    /// Serialises subscription commands, whose replies could be confused, and calls that block the connection.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// Milliseconds for which the last blocking call may block the connection.
    blocked: AtomicU64,
}

#[derive(Default)]
struct State {
    current: Option<Arc<Connection>>,
    /// Ended connections, newest last, whose death the server has not confirmed.
    ended: Vec<Arc<Connection>>,
    /// The list overflowed, and the oldest connection was dropped.
    forgot: bool,
    attempts: u64,
    trouble: String,
    /// The connection slot's runtime was dropped.
    gone: bool,
}

impl ConnectionSlot {
    /// Creates a slot without a connection. Cancelling `closed` closes it.
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

    /// The current connection, if it is up.
    pub(super) fn current(&self) -> Result<Arc<Connection>, LinkError> {
        let state = self.state.lock();
        match &state.current {
            Some(connection) if !connection.has_ended() => Ok(Arc::clone(connection)),
            _ => Err(not_connected(&self.label(), &state.trouble)),
        }
    }

    /// Whether the last connection used RESP3; true before the first.
    pub(super) fn is_resp3(&self) -> bool {
        self.state.lock().current.as_ref().is_none_or(|connection| connection.is_resp3())
    }

    /// The current connection. Waits for the first connection attempt.
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

    /// Waits, without a limit, until the connection is up.
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

    /// Ended connections whose death the server has not confirmed.
    pub(super) fn ended(&self) -> Vec<Arc<Connection>> {
        let mut state = self.state.lock();
        state.ended.retain(|connection| !connection.is_confirmed_dead());
        state.ended.clone()
    }

    /// All connections that may still deliver a command. The flag reports that the list is incomplete.
    pub(super) fn not_confirmed_dead(&self) -> (Vec<Arc<Connection>>, bool) {
        let mut state = self.state.lock();
        state.ended.retain(|connection| !connection.is_confirmed_dead());
        let current = state.current.iter().filter(|connection| !connection.is_confirmed_dead());
        (state.ended.iter().chain(current).cloned().collect(), state.forgot)
    }

    /// Ends the current connection, to reconnect, unless it is too new to be the cause of the failure.
    pub(super) fn renew(&self) {
        let current = self.state.lock().current.clone();
        if let Some(connection) = current
            && connection.began.elapsed() > Duration::from_millis(500)
        {
            connection.end();
        }
    }

    /// Whether the last connection has ended, and had subscriptions.
    pub(super) fn had_subscriptions(&self) -> bool {
        self.state.lock().current.as_ref().is_some_and(|connection| connection.had_subscriptions())
    }

    /// Closes the connection slot permanently, from any thread.
    pub(super) fn close(&self) {
        self.closed.cancel();
        // Release the lock first: ending the connection delivers outcomes, which may need it.
        let current = self.state.lock().current.clone();
        if let Some(connection) = current {
            connection.end();
        }
        self.changed.notify_waiters();
    }

    /// Connects once, and installs the connection.
    pub(super) async fn open(self: &Arc<Self>) -> Result<StandIn, ConnectError> {
        let shared = &self.shared;
        let made = Connection::connect(&shared.target, self.server.clone(), &shared.settings, &shared.inbox).await;
        let mut state = self.state.lock();
        state.attempts += 1;
        let opened = made.map(|(connection, stand_in)| {
            if let (Role::Calls, Some(home)) = (self.role, &shared.home) {
                connection.read_at(home);
            }
            let old = state.current.replace(Arc::new(connection));
            if let Some(old) = old.filter(|old| !old.is_confirmed_dead()) {
                state.ended.push(old);
                if state.ended.len() > REMEMBERED {
                    state.ended.remove(0);
                    state.forgot = true;
                }
            }
            stand_in
        });
        if let Err(error) = &opened {
            state.trouble = error.to_string();
        }
        drop(state);
        self.changed.notify_waiters();
        opened
    }

    /// Keeps the slot connected until it closes, on the current runtime. `stand_in` belongs to a connection that is
    /// already up.
    pub(super) async fn keep(self: Arc<Self>, mut stand_in: Option<StandIn>) {
        let mut backoff = Backoff::default();
        let mut first = stand_in.is_none();
        let mut had_subscriptions = false;
        let mut outage = Outage { lost_at: Instant::now(), told: Vec::new() };
        if !first {
            self.tell(|server| LinkEvent::Connected { server, again: false });
        }
        loop {
            let Some(mut running) = stand_in.take() else {
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
                            if again && self.role == Role::Calls {
                                self.shared.events.event(LinkEvent::CallsReset);
                            }
                            if std::mem::take(&mut had_subscriptions) {
                                self.shared.reset_notices();
                            }
                            stand_in = Some(opened);
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
            }
            connection.end();
            had_subscriptions |= connection.had_subscriptions();
            outage.lost_at = Instant::now();
            self.state.lock().trouble = "the connection was lost".to_owned();
            event!(debug, server = %self.label(), role = self.role.word(), "the connection ended");
            backoff.stood(began.elapsed());
        }
    }

    /// Time limit for a reply.
    pub(super) fn timeout(&self) -> Duration {
        self.shared.settings.command_timeout
    }

    /// Announces that the next call may block the connection for `pause`.
    pub(super) fn blocks_for(&self, pause: Duration) {
        self.blocked.store(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Time limit for a reply behind a blocking call.
    pub(super) fn patience(&self) -> Duration {
        self.timeout() + Duration::from_millis(self.blocked.load(Ordering::Acquire))
    }

    /// The server's name, for errors and logs.
    pub(super) fn label(&self) -> String {
        self.server.label()
    }

    /// Reports an event to the session's driver. Only connections for calls report: each other role would repeat the
    /// event.
    pub(super) fn tell(&self, event: impl FnOnce(String) -> LinkEvent) {
        if self.role == Role::Calls {
            self.shared.events.event(event(self.label()));
        }
    }

    /// The slots that the server owns; `None` without a cluster.
    fn owned_slots(&self) -> Option<Vec<u16>> {
        let slots = self.shared.slots.as_ref()?;
        let Server::At(Endpoint::Tcp(host)) = &self.server else { return None };
        Some(slots.owned_by(&host.label()))
    }

    /// Loads missing scripts after a reconnect. Never returns.
    async fn give_scripts(&self, connection: &Connection) {
        if self.role == Role::Calls {
            self.shared.scripts.give(connection, self.timeout()).await;
        }
        std::future::pending().await
    }

    /// Pings the connection, and returns when it stops answering. Pings twice per command timeout while the server owes
    /// a reply or messages. Otherwise pings at each audit, because each wake-up costs processor time.
    async fn watch(&self, connection: &Connection) {
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

/// An outage of a connection.
struct Outage {
    lost_at: Instant,
    /// The kinds of reconnect errors already reported.
    told: Vec<Discriminant<ConnectError>>,
}

impl Outage {
    /// Whether this kind of error is new. A server that returns and rejects the password is reported again.
    fn is_news(&mut self, error: &ConnectError) -> bool {
        let kind = discriminant(error);
        let is_news = !self.told.contains(&kind);
        if is_news {
            self.told.push(kind);
        }
        is_news
    }
}

/// Marks a connection slot as gone when its task ends: the slot closed, or the runtime was dropped.
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
