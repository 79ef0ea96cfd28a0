//! A pool: the connection slots for one purpose, one to each server.

use super::address;
use super::batches::{Batches, LineId};
use super::connection_slot::{ConnectionSlot, Gone};
use super::shared::{LinkShared, Role};
use super::slots::{Node, Slots};
use super::target::Server;
use leasehold_core::link::{LinkEvent, Plane};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The connections of a plane, or those for notices: one to each server, made when it is first needed.
pub(super) struct Pool {
    pub(super) role: Role,
    pub(super) shared: Arc<LinkShared>,
    /// The runtime of the connections.
    pub(super) runtime: Handle,
    by_node: RwLock<Vec<Option<Arc<ConnectionSlot>>>>,
    retired: Mutex<Retired>,
    /// The runtime is gone.
    pub(super) gone: Arc<AtomicBool>,
    /// Cancelled when the connections are closed for good.
    pub(super) closed: CancellationToken,
    /// Raised by every settling. A call that was begun before sends nothing any more.
    pub(super) send_barrier: RwLock<u64>,
    /// The calls that are sent as one.
    pub(super) batches: Batches,
}

/// Closed connection slots that are remembered until it is certain that nothing is on its way on them.
const REMEMBERED: usize = 64;

/// The connection slots to addresses at which no owner of a hash slot is any more. The process may still be one, under another address.
#[derive(Default)]
struct Retired {
    pool: Vec<Arc<ConnectionSlot>>,
    /// One of them had to be forgotten.
    forgot: bool,
}

impl Pool {
    /// No connections yet; they will live on the runtime in whose context this is called.
    pub(super) fn new(shared: &Arc<LinkShared>, role: Role) -> Arc<Self> {
        let closed_with = shared.closed.child_token();
        let runtime = Handle::current();
        let gone = Arc::new(AtomicBool::new(false));
        let guard = SetOnDrop(Arc::clone(&gone));
        let closed = closed_with.clone();
        // A task ends with its runtime, and what it owns is dropped then.
        drop(runtime.spawn(async move {
            let _guard = guard;
            closed.cancelled().await;
        }));
        Arc::new(Self {
            role,
            shared: Arc::clone(shared),
            runtime,
            by_node: RwLock::default(),
            retired: Mutex::default(),
            gone,
            closed: closed_with,
            send_barrier: RwLock::default(),
            batches: Batches::new(shared.settings.batching, role),
        })
    }

    /// How long a call may take. On the foreground the link does not bound it: the session gives it up.
    pub(super) fn call_timeout(&self) -> Option<Duration> {
        (self.role != Role::Calls(Plane::Foreground)).then_some(self.shared.settings.command_timeout)
    }

    /// Nothing that was begun for this hash slot is sent from now on, unless it is on a connection already.
    pub(super) fn raise_send_barrier(&self, slot: u16) {
        self.batches.settle(self.line_of(slot), || *self.send_barrier.write() += 1);
    }

    /// The line of the calls for this hash slot.
    pub(super) fn line_of(&self, slot: u16) -> LineId {
        if self.shared.slots.is_some() { slot } else { 0 }
    }

    /// A connection slot to a server. It is in the pool from when it is [adopted](Self::adopt), and is closed together with the pool.
    pub(super) fn connection_slot(&self, server: Server) -> Arc<ConnectionSlot> {
        ConnectionSlot::new(&self.shared, self.role, server, self.closed.child_token())
    }

    /// The connection slot to a node of the cluster, or to the one server.
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

    /// The connection slot to a node, if there is one.
    pub(super) fn known(&self, node: Node) -> Option<Arc<ConnectionSlot>> {
        self.by_node.read().get(usize::from(node)).cloned().flatten()
    }

    /// All connection slots, with their nodes.
    pub(super) fn all(&self) -> Vec<(Node, Arc<ConnectionSlot>)> {
        let by_node = self.by_node.read();
        let pool = by_node.iter().enumerate();
        pool.filter_map(|(node, connection_slot)| Some((node as Node, Arc::clone(connection_slot.as_ref()?)))).collect()
    }

    /// Whether the code that runs now is run by the runtime on which the connections live: then that runtime runs.
    pub(super) fn are_driven_here(&self) -> bool {
        let here = Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id());
        here && !self.gone.load(Ordering::Acquire)
    }

    /// Whether any connection stands.
    pub(super) fn stand(&self) -> bool {
        self.by_node.read().iter().flatten().any(|connection_slot| connection_slot.stands())
    }

    /// Closes all connections for good. It may be called from any thread; sockets are closed by the tasks that own them, as
    /// soon as these are run.
    pub(super) fn close(&self) {
        self.closed.cancel();
        self.all().iter().for_each(|(_, connection_slot)| connection_slot.close());
    }

    /// Closes the connections to nodes that own no slot any more: replicas that were primaries, and nodes that are gone.
    pub(super) fn prune(&self, primaries: &[Node]) {
        for (node, connection_slot) in self.all() {
            if !primaries.contains(&node) {
                if let Some(place) = self.by_node.write().get_mut(usize::from(node)) {
                    *place = None;
                }
                connection_slot.close();
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

    /// Closed connection slots to addresses that own nothing any more, on which something may still be on its way, and whether one is missing.
    pub(super) fn retired(&self) -> (Vec<Arc<ConnectionSlot>>, bool) {
        let mut retired = self.retired.lock();
        retired.pool.retain(|connection_slot| !matches!(connection_slot.not_confirmed_dead(), (connections, false) if connections.is_empty()));
        (retired.pool.clone(), retired.forgot)
    }

    /// A retired connection slot leads to no process that owns a hash slot.
    pub(super) fn forget(&self, connection_slot: &Arc<ConnectionSlot>) {
        self.retired.lock().pool.retain(|other| !Arc::ptr_eq(other, connection_slot));
    }

    /// Takes over a connection slot whose connection stands.
    pub(super) fn adopt(&self, node: Node, connection_slot: &Arc<ConnectionSlot>, router: super::connection::Router) {
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
        self.keep(connection_slot, Some(router));
    }

    fn keep(&self, connection_slot: &Arc<ConnectionSlot>, router: Option<super::connection::Router>) {
        // Made here and not in the task: it must be dropped even when the runtime refuses the task.
        let gone = Gone(Arc::clone(connection_slot));
        let connection_slot = Arc::clone(connection_slot);
        drop(self.runtime.spawn(async move {
            let _gone = gone;
            connection_slot.keep(router).await;
        }));
    }

    fn server(&self, node: Node) -> Option<Server> {
        let Some(slots) = &self.shared.slots else { return self.shared.target.seeds().into_iter().next() };
        server_at(&self.shared, slots, node)
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// How to connect to a node of a cluster.
pub(super) fn server_at(shared: &LinkShared, slots: &Slots, node: Node) -> Option<Server> {
    let address = slots.address(node)?;
    let (host, port) = address::host_and_port(&address)?;
    Some(shared.target.node(host, port))
}
