//! A pool: the connection slots for one purpose, one to each server.

use super::address;
use super::call::Joins;
use super::connection::{Connection, word};
use super::connection_slot::{ConnectionSlot, Gone};
use super::route;
use super::shared::{LinkShared, Role};
use super::slots::{Node, Slots};
use super::target::Server;
use leasehold_core::batch::Batch;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkEvent, ServerError};
use leasehold_core::plain::Plain;
use leasehold_core::wire::Frame;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The connections for one purpose: one to each server, opened on demand.
pub(super) struct Pool {
    pub(super) role: Role,
    pub(super) shared: Arc<LinkShared>,
    /// The background's runtime.
    pub(super) runtime: Handle,
    by_node: RwLock<Vec<Option<Arc<ConnectionSlot>>>>,
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

/// Maximum number of closed connection slots kept for settling.
const REMEMBERED: usize = 64;

/// Connection slots to addresses that own no hash slot now. The same process may own one under another address.
#[derive(Default)]
struct Retired {
    pool: Vec<Arc<ConnectionSlot>>,
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
        let connection = route::connection_slot_of(self, slot).and_then(|connection_slot| connection_slot.current());
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

    /// Creates a connection slot to a server. It joins the pool when [adopted](Self::adopt), and closes with the pool.
    pub(super) fn connection_slot(&self, server: Server) -> Arc<ConnectionSlot> {
        ConnectionSlot::new(&self.shared, self.role, server, self.closed.child_token())
    }

    /// The connection slot to a node of the cluster, or to the only server.
    pub(super) fn to(&self, node: Node) -> Option<Arc<ConnectionSlot>> {
        if let Some(connection_slot) = self.known(node) {
            return Some(connection_slot);
        }
        let server = self.server(node)?;
        let mut by_node = self.by_node.write();
        let at = usize::from(node);
        if by_node.len() <= at {
            by_node.resize(at + 1, None);
        }
        let place = by_node.get_mut(at)?;
        let connection_slot = place.get_or_insert_with(|| {
            let connection_slot = self.connection_slot(server);
            self.keep(&connection_slot, None);
            connection_slot
        });
        Some(Arc::clone(connection_slot))
    }

    /// The connection slot to a node, if it exists.
    pub(super) fn known(&self, node: Node) -> Option<Arc<ConnectionSlot>> {
        self.by_node.read().get(usize::from(node)).cloned().flatten()
    }

    /// All connection slots, with their nodes.
    pub(super) fn all(&self) -> Vec<(Node, Arc<ConnectionSlot>)> {
        let by_node = self.by_node.read();
        let pool = by_node.iter().enumerate();
        pool.filter_map(|(node, connection_slot)| Some((node as Node, Arc::clone(connection_slot.as_ref()?)))).collect()
    }

    /// Closes all connections permanently, from any thread. The tasks that own the sockets close them when they next
    /// run.
    pub(super) fn close(&self) {
        self.closed.cancel();
        self.all().iter().for_each(|(_, connection_slot)| connection_slot.close());
    }

    /// Closes the connections to nodes that own no slot: former primaries, and removed nodes.
    pub(super) fn prune(&self, primaries: &[Node]) {
        for (node, connection_slot) in self.all() {
            if !primaries.contains(&node) {
                if let Some(place) = self.by_node.write().get_mut(usize::from(node)) {
                    *place = None;
                }
                connection_slot.close();
                if connection_slot.had_subscriptions() {
                    self.shared.reset_notices();
                }
                connection_slot.tell(|server| LinkEvent::Retired { server });
                let mut retired = self.retired.lock();
                retired.pool.push(connection_slot);
                if retired.pool.len() > REMEMBERED {
                    retired.pool.remove(0);
                    retired.forgot = true;
                }
            }
        }
    }

    /// Retired connection slots that may still deliver a command. The flag reports that the list is incomplete.
    pub(super) fn retired(&self) -> (Vec<Arc<ConnectionSlot>>, bool) {
        let mut retired = self.retired.lock();
        retired.pool.retain(|connection_slot| !matches!(connection_slot.not_confirmed_dead(), (connections, false) if connections.is_empty()));
        (retired.pool.clone(), retired.forgot)
    }

    /// Removes a retired connection slot whose process owns no hash slot.
    pub(super) fn forget(&self, connection_slot: &Arc<ConnectionSlot>) {
        self.retired.lock().pool.retain(|other| !Arc::ptr_eq(other, connection_slot));
    }

    /// Adds a connection slot that is already connected.
    pub(super) fn adopt(
        &self,
        node: Node,
        connection_slot: &Arc<ConnectionSlot>,
        stand_in: super::connection::StandIn,
    ) {
        let other = {
            let mut by_node = self.by_node.write();
            let at = usize::from(node);
            if by_node.len() <= at {
                by_node.resize(at + 1, None);
            }
            by_node.get_mut(at).and_then(|place| place.replace(Arc::clone(connection_slot)))
        };
        if let Some(other) = other {
            other.close();
        }
        self.keep(connection_slot, Some(stand_in));
    }

    fn keep(&self, connection_slot: &Arc<ConnectionSlot>, stand_in: Option<super::connection::StandIn>) {
        // Created outside the task, so that it is dropped even if the runtime rejects the task.
        let gone = Gone(Arc::clone(connection_slot));
        let connection_slot = Arc::clone(connection_slot);
        drop(self.runtime.spawn(async move {
            let _gone = gone;
            connection_slot.keep(stand_in).await;
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
    let (host, port) = address::host_and_port(&address)?;
    Some(shared.target.node(host, port))
}
