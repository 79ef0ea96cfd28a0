//! Reconnects. A manager owns the connection to a server, a pool has a manager for each server, and a link has several
//! pools.

use super::connection::Connection;
use super::error::ConnectError;
use super::network::Network;
use super::route::Node;
use super::shared::{LinkShared, Role};
use super::target;
use super::target::{Endpoint, Server};
use crate::telemetry::event;
use leasehold_core::link::{LinkError, LinkEvent, not_connected};
use leasehold_core::plain::Plain;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Connections that may still deliver a command: the server has not confirmed their death. Newest last.
#[derive(Clone, Default)]
pub(super) struct Unconfirmed {
    pub(super) list: Vec<Arc<Connection>>,
    /// The list overflowed, and the oldest entry was dropped.
    pub(super) forgot: bool,
}

impl Unconfirmed {
    const MOST: usize = 64;

    fn push(&mut self, connection: Arc<Connection>) {
        self.list.push(connection);
        if self.list.len() > Self::MOST {
            self.list.remove(0);
            self.forgot = true;
        }
    }

    /// Drops the connections whose death was confirmed, and returns the rest.
    fn update(&mut self) -> Self {
        self.list.retain(|connection| !connection.confirmed_dead.load(Ordering::Acquire));
        self.clone()
    }
}

/// A connection to one server, for one purpose, with automatic reconnects.
pub(super) struct ConnectionManager {
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

struct State {
    current: Option<Arc<Connection>>,
    ended: Unconfirmed,
    /// The first attempt has finished.
    tried: bool,
    trouble: String,
}

impl ConnectionManager {
    pub(super) fn current(&self) -> Result<Arc<Connection>, LinkError> {
        let state = self.state.lock();
        match &state.current {
            Some(connection) if !connection.has_ended() => Ok(Arc::clone(connection)),
            _ => Err(not_connected(&self.label(), &state.trouble)),
        }
    }

    /// Returns whether the last connection used RESP3; true before the first.
    pub(super) fn is_resp3(&self) -> bool {
        self.state.lock().current.as_ref().is_none_or(|connection| connection.resp3)
    }

    /// The current connection. Waits for the first connection attempt.
    pub(super) async fn ready(&self) -> Result<Arc<Connection>, LinkError> {
        loop {
            let changed = self.changed.notified();
            let tried = self.state.lock().tried;
            if tried || self.closed.is_cancelled() {
                return self.current();
            }
            changed.await;
        }
    }

    /// Waits, without a limit, until the connection is up.
    pub(super) async fn standing(&self) -> Arc<Connection> {
        loop {
            let changed = self.changed.notified();
            if let Ok(connection) = self.current() {
                return connection;
            }
            changed.await;
        }
    }

    /// The connections that have ended, and the current connection.
    pub(super) fn unconfirmed(&self) -> Unconfirmed {
        let mut state = self.state.lock();
        let mut all = state.ended.update();
        all.list.extend(state.current.clone().filter(|connection| !connection.confirmed_dead.load(Ordering::Acquire)));
        all
    }

    /// Ends the current connection and reconnects, unless the connection is newer than the failure.
    pub(super) fn renew(&self) {
        let current = self.state.lock().current.clone();
        if let Some(connection) = current
            && connection.began.elapsed() > Duration::from_millis(500)
        {
            connection.end();
        }
    }

    pub(super) fn had_subscriptions(&self) -> bool {
        self.state.lock().current.as_ref().is_some_and(|connection| connection.is_subscribed())
    }

    pub(super) fn close(&self) {
        self.closed.cancel();
        // Release the lock first: ending the connection delivers outcomes, which may need it.
        let current = {
            let mut state = self.state.lock();
            "its runtime is gone, or it was closed".clone_into(&mut state.trouble);
            state.current.clone()
        };
        if let Some(connection) = current {
            connection.end();
        }
        self.changed.notify_waiters();
    }

    pub(super) async fn open(&self) -> Result<(), ConnectError> {
        let shared = &self.shared;
        let made = Connection::connect(&shared.target, self.server.clone(), &shared.settings, &shared.inbox).await;
        let mut state = self.state.lock();
        state.tried = true;
        let opened = made.map(|connection| {
            if let (Role::Calls, Some(home)) = (self.role, &shared.home) {
                connection.read_at(home);
            }
            let old = state.current.replace(Arc::new(connection));
            if let Some(old) = old.filter(|old| !old.confirmed_dead.load(Ordering::Acquire)) {
                state.ended.push(old);
            }
        });
        if let Err(error) = &opened {
            state.trouble = error.to_string();
        }
        drop(state);
        self.changed.notify_waiters();
        opened
    }

    /// Reconnects, on the current runtime. `opened` is whether the first connection is open.
    async fn keep(&self, opened: bool) {
        let mut backoff = Backoff::default();
        let mut first = !opened;
        let mut lost_at = Instant::now();
        // The kinds of errors in this outage: a server that returns and rejects the password is reported again.
        let mut reported = Vec::new();
        if !first {
            self.tell(|server| LinkEvent::Connected { server, again: false });
        }
        loop {
            if let Ok(connection) = self.current() {
                let began = Instant::now();
                tokio::select! {
                    biased;
                    () = connection.ended() => {}
                    () = self.watch(&connection) => {}
                    () = self.load_scripts(&connection) => {}
                }
                connection.end();
                lost_at = Instant::now();
                self.state.lock().trouble = "the connection was lost".to_owned();
                event!(debug, server = %self.label(), role = self.role.word(), "the connection ended");
                backoff.stood(began.elapsed());
            }
            tokio::time::sleep(backoff.next(&self.shared.settings.network)).await;
            let had_subscriptions = self.had_subscriptions();
            match self.open().await {
                Ok(()) => {
                    event!(debug, server = %self.label(), role = self.role.word(), "connected");
                    reported.clear();
                    let again = !std::mem::take(&mut first);
                    self.tell(|server| LinkEvent::Connected { server, again });
                    if again && self.role == Role::Calls {
                        self.shared.events.event(LinkEvent::CallsReset);
                    }
                    if had_subscriptions {
                        self.shared.reset_notices();
                    }
                }
                Err(error) => {
                    event!(debug, server = %self.label(), role = self.role.word(), %error, "not connected");
                    let kind = discriminant(&error);
                    if !reported.contains(&kind) {
                        reported.push(kind);
                        self.tell(|server| LinkEvent::OutOfReach {
                            server,
                            why: error.to_string(),
                            lost_for: lost_at.elapsed(),
                            slots: self.owned_slots(),
                        });
                    }
                }
            }
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.shared.settings.command_timeout
    }

    /// Announces that the next call may block the connection for `pause`.
    pub(super) fn blocks_for(&self, pause: Duration) {
        self.blocked.store(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Time limit for a reply behind a blocking call.
    pub(super) fn reply_timeout(&self) -> Duration {
        self.timeout() + Duration::from_millis(self.blocked.load(Ordering::Acquire))
    }

    pub(super) fn label(&self) -> String {
        self.server.label()
    }

    /// Reports an event to the session's driver. Only connections for calls report: the other connections would repeat the event.
    pub(super) fn tell(&self, event: impl FnOnce(String) -> LinkEvent) {
        if self.role == Role::Calls {
            self.shared.events.event(event(self.label()));
        }
    }

    fn owned_slots(&self) -> Option<Vec<u16>> {
        let slots = self.shared.slots.as_ref()?;
        let Server::At(Endpoint::Tcp(host)) = &self.server else { return None };
        Some(slots.owned_by(&host.label()))
    }

    /// Loads missing scripts after a reconnect. Never returns.
    async fn load_scripts(&self, connection: &Connection) {
        if self.role == Role::Calls {
            self.shared.scripts.load_missing(connection, self.timeout()).await;
        }
        std::future::pending().await
    }

    /// Pings the connection, and returns when a reply is missing. Pings twice per command timeout while the server owes
    /// a reply or messages. Otherwise pings at each audit, because each wake-up costs processor time.
    async fn watch(&self, connection: &Connection) {
        let timeout = self.shared.settings.command_timeout;
        loop {
            if tokio::time::timeout_at(self.shared.next_audit(), connection.used()).await.is_ok() {
                tokio::time::sleep(timeout / 2).await;
            }
            if connection.send("PING", Vec::new(), self.reply_timeout()).await.is_err() {
                return;
            }
        }
    }
}

/// Closes a manager whose runtime drops its task.
struct CloseOnDrop(Arc<ConnectionManager>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The connections for one purpose: one to each server, opened on demand.
pub(super) struct Pool {
    pub(super) role: Role,
    pub(super) shared: Arc<LinkShared>,
    /// The background's runtime.
    pub(super) runtime: Handle,
    by_node: RwLock<BTreeMap<Node, Arc<ConnectionManager>>>,
    /// Connections to addresses that own no hash slot now. The process may own a slot under another address.
    retired: Mutex<Unconfirmed>,
    /// The server recently reported a missing permission.
    pub(super) batches_paused: AtomicBool,
    /// The user may not load scripts.
    pub(super) batches_refused: AtomicBool,
    /// The plain commands that the server lacks, or refuses to this user.
    pub(super) refused: RwLock<Vec<Plain>>,
}

impl Pool {
    /// Creates an empty pool. Its connections run on the current runtime.
    pub(super) fn new(shared: &Arc<LinkShared>, role: Role) -> Arc<Self> {
        Arc::new(Self {
            role,
            shared: Arc::clone(shared),
            runtime: Handle::current(),
            by_node: RwLock::default(),
            retired: Mutex::default(),
            batches_paused: AtomicBool::new(false),
            batches_refused: AtomicBool::new(false),
            refused: RwLock::default(),
        })
    }

    /// Creates a manager to a server. It joins the pool when [adopted](Self::adopt), and closes with the link.
    pub(super) fn manager(&self, server: Server) -> Arc<ConnectionManager> {
        let state = State { current: None, ended: Unconfirmed::default(), tried: false, trouble: String::new() };
        Arc::new(ConnectionManager {
            role: self.role,
            server,
            shared: Arc::clone(&self.shared),
            state: Mutex::new(state),
            changed: Notify::new(),
            closed: self.shared.closed.child_token(),
            turn: Arc::default(),
            blocked: AtomicU64::new(0),
        })
    }

    /// Returns the manager for a node of the cluster, or for the only server.
    pub(super) fn to(&self, node: Node) -> Option<Arc<ConnectionManager>> {
        if let Some(manager) = self.known(node) {
            return Some(manager);
        }
        let server = match &self.shared.slots {
            None => self.shared.target.servers.first()?.clone(),
            Some(slots) => {
                let address = slots.address(node)?;
                let (host, port) = target::host_and_port(&address)?;
                self.shared.target.node(host, port)
            }
        };
        let mut by_node = self.by_node.write();
        let manager = by_node.entry(node).or_insert_with(|| {
            let manager = self.manager(server);
            self.keep(&manager, false);
            manager
        });
        Some(Arc::clone(manager))
    }

    pub(super) fn known(&self, node: Node) -> Option<Arc<ConnectionManager>> {
        self.by_node.read().get(&node).cloned()
    }

    pub(super) fn all(&self) -> Vec<(Node, Arc<ConnectionManager>)> {
        self.by_node.read().iter().map(|(node, manager)| (*node, Arc::clone(manager))).collect()
    }

    /// Closes the connections to nodes that own no slot: former primaries, and removed nodes.
    pub(super) fn prune(&self, primaries: &[Node]) {
        for (node, manager) in self.all() {
            if !primaries.contains(&node) {
                self.by_node.write().remove(&node);
                manager.close();
                if manager.had_subscriptions() {
                    self.shared.reset_notices();
                }
                manager.tell(|server| LinkEvent::Retired { server });
                let Unconfirmed { list, forgot } = manager.unconfirmed();
                let mut retired = self.retired.lock();
                retired.forgot |= forgot;
                list.into_iter().for_each(|connection| retired.push(connection));
            }
        }
    }

    pub(super) fn retired(&self) -> Unconfirmed {
        self.retired.lock().update()
    }

    /// Adds a manager that is already connected.
    pub(super) fn adopt(&self, node: Node, manager: &Arc<ConnectionManager>) {
        let other = self.by_node.write().insert(node, Arc::clone(manager));
        if let Some(other) = other {
            other.close();
        }
        self.keep(manager, true);
    }

    fn keep(&self, manager: &Arc<ConnectionManager>, opened: bool) {
        let closed = manager.closed.clone();
        // Created outside the task: its drop also runs if the runtime rejects the task.
        let kept = CloseOnDrop(Arc::clone(manager));
        drop(self.runtime.spawn(closed.run_until_cancelled_owned(async move { kept.0.keep(opened).await })));
    }
}

/// The delays between reconnects: none, then 50 ms, doubled after each failure up to 2 s. A random extra of up to a
/// quarter spreads the reconnects of a fleet. A short-lived connection is no failure: the server is up and replies.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    brief: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LAST: Duration = Duration::from_secs(2);
    /// The delay after the first short-lived connection. Each further short-lived connection doubles it, up to [`Self::LAST_BRIEF`].
    const BRIEF: Duration = Duration::from_millis(10);
    const LAST_BRIEF: Duration = Duration::from_millis(40);
    const STOOD: Duration = Duration::from_secs(1);

    pub(super) fn next(&mut self, network: &Network) -> Duration {
        let wait = match self.attempts {
            0 => match self.brief {
                0 => Duration::ZERO,
                n => Self::BRIEF.saturating_mul(1 << (n - 1).min(8)).min(Self::LAST_BRIEF),
            },
            n => Self::FIRST.saturating_mul(1 << (n - 1).min(8)).min(Self::LAST),
        };
        self.attempts = self.attempts.saturating_add(1);
        wait + wait / 4 * u32::from(network.jitter()) / 256
    }

    /// The delay after a failed attempt without demand.
    pub(super) fn after_failure(&mut self, network: &Network) -> Duration {
        self.attempts = self.attempts.max(1);
        self.next(network)
    }

    pub(super) fn stood(&mut self, time: Duration) {
        self.attempts = 0;
        self.brief = if time < Self::STOOD { self.brief.saturating_add(1) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_nothing_to_two_seconds_and_a_quarter() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(&Network::System), Duration::ZERO);
        let mut floor = Duration::from_millis(50);
        for _ in 0..20 {
            let wait = backoff.next(&Network::System);
            assert!(wait >= floor && wait <= floor + floor / 4, "{wait:?} for {floor:?}");
            floor = (floor * 2).min(Duration::from_secs(2));
        }
        backoff.stood(Duration::from_secs(1));
        assert_eq!(backoff.next(&Network::System), Duration::ZERO);
    }

    #[test]
    fn connections_that_are_lost_soon_are_no_failures() {
        let mut backoff = Backoff::default();
        backoff.next(&Network::System);
        for floor in [10, 20, 40, 40, 40].map(Duration::from_millis) {
            backoff.stood(Duration::ZERO);
            let wait = backoff.next(&Network::System);
            assert!(wait >= floor && wait <= floor + floor / 4, "{wait:?} for {floor:?}");
        }
        // From now on attempts fail, and the delays grow as after any other connection.
        let waits = [(); 3].map(|()| backoff.next(&Network::System));
        assert!(
            waits[0] >= Backoff::FIRST && waits[1] >= Backoff::FIRST * 2 && waits[2] >= Backoff::FIRST * 4,
            "{waits:?}"
        );
    }
}
