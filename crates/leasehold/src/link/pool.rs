//! Reconnects: a manager keeps one connection to a server, a pool has a manager for each server, and a link has several
//! pools.

use super::call::Joins;
use super::connection::{Connection, word};
use super::error::ConnectError;
use super::network::Network;
use super::route::{Node, Slots};
use super::shared::{LinkShared, Role};
use super::target::{Endpoint, Server};
use super::{route, target};
use crate::telemetry::event;
use leasehold_core::batch::Batch;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, LinkEvent, ServerError, not_connected};
use leasehold_core::plain::Plain;
use leasehold_core::wire::Frame;
use parking_lot::{Mutex, RwLock};
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of ended connections, and of retired managers, kept until the server confirms their death.
const REMEMBERED: usize = 64;

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

#[derive(Default)]
struct State {
    current: Option<Arc<Connection>>,
    /// Ended connections, newest last, whose death the server has not confirmed.
    ended: Vec<Arc<Connection>>,
    /// The list overflowed, and the oldest connection was dropped.
    forgot: bool,
    attempts: u64,
    trouble: String,
    /// The connection manager's runtime was dropped.
    gone: bool,
}

impl ConnectionManager {
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
        self.state.lock().current.as_ref().is_none_or(|connection| connection.resp3)
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

    /// Closes the connection manager permanently, from any thread.
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
    pub(super) async fn open(self: &Arc<Self>) -> Result<(), ConnectError> {
        let shared = &self.shared;
        let made = Connection::connect(&shared.target, self.server.clone(), &shared.settings, &shared.inbox).await;
        let mut state = self.state.lock();
        state.attempts += 1;
        let opened = made.map(|connection| {
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
        });
        if let Err(error) = &opened {
            state.trouble = error.to_string();
        }
        drop(state);
        self.changed.notify_waiters();
        opened
    }

    /// Reconnects until the manager closes, on the current runtime. `opened` is whether the first connection is open.
    async fn keep(self: Arc<Self>, opened: bool) {
        let mut backoff = Backoff::default();
        let mut first = !opened;
        let mut had_subscriptions = false;
        let mut outage = Outage { lost_at: Instant::now(), reported: Vec::new() };
        if !first {
            self.tell(|server| LinkEvent::Connected { server, again: false });
        }
        loop {
            let Ok(connection) = self.current() else {
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
                        Ok(()) => {
                            event!(debug, server = %self.label(), role = self.role.word(), "connected");
                            outage.reported.clear();
                            let again = !std::mem::take(&mut first);
                            self.tell(|server| LinkEvent::Connected { server, again });
                            if again && self.role == Role::Calls {
                                self.shared.events.event(LinkEvent::CallsReset);
                            }
                            if std::mem::take(&mut had_subscriptions) {
                                self.shared.reset_notices();
                            }
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
            let began = Instant::now();
            tokio::select! {
                biased;
                () = self.closed.cancelled() => {}
                () = connection.ended() => {}
                () = self.watch(&connection) => {}
                () = self.load_scripts(&connection) => {}
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
    async fn load_scripts(&self, connection: &Connection) {
        if self.role == Role::Calls {
            self.shared.scripts.load_missing(connection, self.timeout()).await;
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
    reported: Vec<Discriminant<ConnectError>>,
}

impl Outage {
    /// Whether this kind of error is new. A server that returns and rejects the password is reported again.
    fn is_news(&mut self, error: &ConnectError) -> bool {
        let kind = discriminant(error);
        let is_news = !self.reported.contains(&kind);
        if is_news {
            self.reported.push(kind);
        }
        is_news
    }
}

/// Marks a connection manager as gone when its task ends: the slot closed, or the runtime was dropped.
pub(super) struct Gone(pub(super) Arc<ConnectionManager>);

impl Drop for Gone {
    fn drop(&mut self) {
        let manager = &self.0;
        let current = {
            let mut state = manager.state.lock();
            state.gone = true;
            "its runtime is gone, or it was closed".clone_into(&mut state.trouble);
            state.current.clone()
        };
        if let Some(connection) = current {
            connection.end();
        }
        manager.changed.notify_waiters();
    }
}

/// The connections for one purpose: one to each server, opened on demand.
pub(super) struct Pool {
    pub(super) role: Role,
    pub(super) shared: Arc<LinkShared>,
    /// The background's runtime.
    pub(super) runtime: Handle,
    by_node: RwLock<Vec<Option<Arc<ConnectionManager>>>>,
    retired: Mutex<Retired>,
    /// Cancelled when the pool closes.
    pub(super) closed: CancellationToken,
    /// A permission was missing less than [`PAUSE`] ago.
    batches_paused: AtomicBool,
    /// The user may not load scripts.
    batches_refused: AtomicBool,
    /// The plain commands that the server lacks, or refuses to this user.
    refused: RwLock<Vec<Plain>>,
}

/// Pause of batches after a missing right to a key or a command.
const PAUSE: Duration = Duration::from_secs(10);

/// connection managers to addresses that own no hash slot now. The same process may own one under another address.
#[derive(Default)]
struct Retired {
    pool: Vec<Arc<ConnectionManager>>,
    /// The list overflowed, and the oldest slot was dropped.
    forgot: bool,
}

impl Pool {
    /// Creates an empty pool. Its connections run on the current runtime.
    pub(super) fn new(shared: &Arc<LinkShared>, role: Role) -> Arc<Self> {
        let closed_with = shared.closed.child_token();
        let runtime = Handle::current();
        Arc::new(Self {
            role,
            shared: Arc::clone(shared),
            runtime,
            by_node: RwLock::default(),
            retired: Mutex::default(),
            closed: closed_with,
            batches_paused: AtomicBool::new(false),
            batches_refused: AtomicBool::new(false),
            refused: RwLock::default(),
        })
    }

    /// The command that replaces a call's script. `delete` is the server's compare-and-delete.
    pub(super) fn plain_of(&self, call: &Call, delete: Option<Plain>) -> Option<Plain> {
        Plain::of(call, delete).filter(|plain| !self.refused.read().contains(plain))
    }

    /// Stops using a plain command that the server refused.
    pub(super) fn refuse_plain(&self, plain: Plain) {
        let mut refused = self.refused.write();
        if !refused.contains(&plain) {
            refused.push(plain);
        }
    }

    /// The batch that a call of a hash slot may join.
    pub(super) fn batch_of(&self, call: &Call, slot: u16) -> Option<Joins> {
        let stopped = [&self.batches_paused, &self.batches_refused].iter().any(|stop| stop.load(Ordering::Relaxed));
        let may_batch = self.shared.may_batch() && !stopped;
        let batch = may_batch.then(|| Batch::of(call.script()))??;
        Some((batch, if self.shared.slots.is_some() { slot } else { 0 }))
    }

    /// Sends calls alone for [`PAUSE`].
    pub(super) fn pause_batches(self: &Arc<Self>) {
        if !self.batches_paused.swap(true, Ordering::Relaxed) {
            let (pool, closed) = (Arc::downgrade(self), self.closed.clone());
            drop(self.runtime.spawn(closed.run_until_cancelled_owned(async move {
                tokio::time::sleep(PAUSE).await;
                pool.upgrade().inspect(|pool| pool.batches_paused.store(false, Ordering::Relaxed));
            })));
        }
    }

    /// Whether to resend the calls of a refused batch alone. The server ran none of them, and the refusal may not apply
    /// to each. Also loads a missing script, and pauses batches after a missing right.
    pub(super) fn goes_on_alone(self: &Arc<Self>, batch: &'static Batch, slot: u16, refusal: &ServerError) -> bool {
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

    /// Loads the script of a batch for later batches. Without the right to do so, every batch would be refused.
    fn load(self: &Arc<Self>, batch: &'static Batch, connection: &Connection) {
        self.shared.scripts.note(batch.script());
        let Ok(loading) = connection.begin("SCRIPT", &[word("LOAD"), word(batch.script().source())]) else { return };
        let (pool, closed) = (Arc::downgrade(self), self.closed.clone());
        drop(self.runtime.spawn(closed.run_until_cancelled_owned(async move {
            if let Ok(Ok(Frame::Error(refusal))) = loading.await
                && refusal.is_of_a_missing_command()
                && let Some(pool) = pool.upgrade()
            {
                pool.batches_refused.store(true, Ordering::Relaxed);
            }
        })));
    }

    /// Creates a connection manager to a server. It joins the pool when [adopted](Self::adopt), and closes with the pool.
    pub(super) fn manager(&self, server: Server) -> Arc<ConnectionManager> {
        ConnectionManager::new(&self.shared, self.role, server, self.closed.child_token())
    }

    /// The connection manager to a node of the cluster, or to the only server.
    pub(super) fn to(&self, node: Node) -> Option<Arc<ConnectionManager>> {
        if let Some(manager) = self.known(node) {
            return Some(manager);
        }
        let server = self.server(node)?;
        let mut by_node = self.by_node.write();
        let at = usize::from(node);
        if by_node.len() <= at {
            by_node.resize(at + 1, None);
        }
        let place = by_node.get_mut(at)?;
        let manager = place.get_or_insert_with(|| {
            let manager = self.manager(server);
            self.keep(&manager, false);
            manager
        });
        Some(Arc::clone(manager))
    }

    /// The connection manager to a node, if it exists.
    pub(super) fn known(&self, node: Node) -> Option<Arc<ConnectionManager>> {
        self.by_node.read().get(usize::from(node)).cloned().flatten()
    }

    /// All connection managers, with their nodes.
    pub(super) fn all(&self) -> Vec<(Node, Arc<ConnectionManager>)> {
        let by_node = self.by_node.read();
        let pool = by_node.iter().enumerate();
        pool.filter_map(|(node, manager)| Some((node as Node, Arc::clone(manager.as_ref()?)))).collect()
    }

    /// Closes all connections permanently, from any thread. The tasks that own the sockets close them when they next
    /// run.
    pub(super) fn close(&self) {
        self.closed.cancel();
        self.all().iter().for_each(|(_, manager)| manager.close());
    }

    /// Closes the connections to nodes that own no slot: former primaries, and removed nodes.
    pub(super) fn prune(&self, primaries: &[Node]) {
        for (node, manager) in self.all() {
            if !primaries.contains(&node) {
                if let Some(place) = self.by_node.write().get_mut(usize::from(node)) {
                    *place = None;
                }
                manager.close();
                if manager.had_subscriptions() {
                    self.shared.reset_notices();
                }
                manager.tell(|server| LinkEvent::Retired { server });
                let mut retired = self.retired.lock();
                retired.pool.push(manager);
                if retired.pool.len() > REMEMBERED {
                    retired.pool.remove(0);
                    retired.forgot = true;
                }
            }
        }
    }

    /// Retired connection managers that may still deliver a command. The flag reports that the list is incomplete.
    pub(super) fn retired(&self) -> (Vec<Arc<ConnectionManager>>, bool) {
        let mut retired = self.retired.lock();
        retired
            .pool
            .retain(|manager| !matches!(manager.not_confirmed_dead(), (connections, false) if connections.is_empty()));
        (retired.pool.clone(), retired.forgot)
    }

    /// Removes a retired connection manager whose process owns no hash slot.
    pub(super) fn forget(&self, manager: &Arc<ConnectionManager>) {
        self.retired.lock().pool.retain(|other| !Arc::ptr_eq(other, manager));
    }

    /// Adds a connection manager that is already connected.
    pub(super) fn adopt(&self, node: Node, manager: &Arc<ConnectionManager>) {
        let other = {
            let mut by_node = self.by_node.write();
            let at = usize::from(node);
            if by_node.len() <= at {
                by_node.resize(at + 1, None);
            }
            by_node.get_mut(at).and_then(|place| place.replace(Arc::clone(manager)))
        };
        if let Some(other) = other {
            other.close();
        }
        self.keep(manager, true);
    }

    fn keep(&self, manager: &Arc<ConnectionManager>, opened: bool) {
        // Created outside the task, so that it is dropped even if the runtime rejects the task.
        let gone = Gone(Arc::clone(manager));
        let manager = Arc::clone(manager);
        drop(self.runtime.spawn(async move {
            let _gone = gone;
            manager.keep(opened).await;
        }));
    }

    fn server(&self, node: Node) -> Option<Server> {
        let Some(slots) = &self.shared.slots else { return self.shared.target.seeds().into_iter().next() };
        server_at(&self.shared, slots, node)
    }
}

/// How to connect to a node of a cluster.
pub(super) fn server_at(shared: &LinkShared, slots: &Slots, node: Node) -> Option<Server> {
    let address = slots.address(node)?;
    let (host, port) = target::host_and_port(&address)?;
    Some(shared.target.node(host, port))
}

/// All pools of a link. Dropped pools leave the list.
pub(super) struct Pools {
    pub(super) shared: Arc<LinkShared>,
    all: Mutex<Vec<Weak<Pool>>>,
}

impl Pools {
    pub(super) fn new(shared: Arc<LinkShared>) -> Arc<Self> {
        Arc::new(Self { shared, all: Mutex::default() })
    }

    /// Adds a pool for a purpose, without connections. They will run on the current runtime.
    pub(super) fn add(&self, role: Role) -> Arc<Pool> {
        let pool = Pool::new(&self.shared, role);
        self.all.lock().push(Arc::downgrade(&pool));
        pool
    }

    /// The existing pools.
    pub(super) fn all(&self) -> Vec<Arc<Pool>> {
        self.all.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// The delays between reconnects: none before the first, then 50 ms, doubled after each failure up to 2 s. A random
/// extra of up to a quarter spreads the reconnects of a fleet. A short-lived connection is not a failure, because the
/// server is up and replies, so the delay stays short.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    /// Number of consecutive short-lived connections.
    brief: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LAST: Duration = Duration::from_secs(2);
    /// The delay after the first short-lived connection. Each further one doubles it up to [`Self::LAST_BRIEF`], so
    /// that a server which ends every connection is not overrun.
    const BRIEF: Duration = Duration::from_millis(10);
    const LAST_BRIEF: Duration = Duration::from_millis(40);
    /// A connection with a shorter life is short-lived.
    const STOOD: Duration = Duration::from_secs(1);

    /// The delay before the next attempt.
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

    /// Records a connection that got a reply, and its lifetime.
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
        // From here on it fails, and the delays grow as after any other connection.
        let waits = [(); 3].map(|()| backoff.next(&Network::System));
        assert!(
            waits[0] >= Backoff::FIRST && waits[1] >= Backoff::FIRST * 2 && waits[2] >= Backoff::FIRST * 4,
            "{waits:?}"
        );
    }
}
