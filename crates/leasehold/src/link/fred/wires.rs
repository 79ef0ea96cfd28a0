//! The wires for one purpose: one to each server.

use super::shared::{Role, Shared};
use super::slots::{self, Node, Slots};
use super::wire::{Gone, Wire};
use fred::types::config::{Server, ServerConfig};
use leasehold_core::link::LinkEvent;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The connections of a plane, or those for notices: one to each server, made when it is first needed.
pub(super) struct Wires {
    pub(super) role: Role,
    pub(super) shared: Arc<Shared>,
    /// The runtime of the connections.
    pub(super) runtime: Handle,
    by_node: RwLock<Vec<Option<Arc<Wire>>>>,
    retired: Mutex<Retired>,
    /// The runtime is gone.
    pub(super) gone: Arc<AtomicBool>,
    /// Cancelled when the connections are closed for good.
    pub(super) closed: CancellationToken,
    /// Raised by every settling. A call that was begun at a lower fence sends nothing any more.
    pub(super) fence: RwLock<u64>,
}

/// Closed wires that are remembered until it is certain that nothing is on its way on them.
const REMEMBERED: usize = 64;

/// The wires to addresses at which no owner of a slot is any more. The process may still be one, under another address.
#[derive(Default)]
struct Retired {
    wires: Vec<Arc<Wire>>,
    /// One of them had to be forgotten.
    forgot: bool,
}

impl Wires {
    /// No connections yet; they will live on the runtime in whose context this is called.
    pub(super) fn new(shared: &Arc<Shared>, role: Role) -> Arc<Self> {
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
            fence: RwLock::default(),
        })
    }

    /// A wire to a server, which is not among these until it is [adopted](Self::adopt). It is closed together with them.
    pub(super) fn wire(&self, server: ServerConfig) -> Arc<Wire> {
        Wire::new(&self.shared, self.role, server, self.closed.child_token())
    }

    /// The wire to a node of the cluster, or to the one server.
    pub(super) fn to(&self, node: Node) -> Option<Arc<Wire>> {
        if let Some(wire) = self.known(node) {
            return Some(wire);
        }
        let server = self.server(node)?;
        let mut by_node = self.by_node.write();
        let at = usize::from(node);
        if by_node.len() <= at {
            by_node.resize(at + 1, None);
        }
        let place = by_node.get_mut(at)?;
        let wire = place.get_or_insert_with(|| {
            let wire = self.wire(server);
            self.keep(&wire, None);
            wire
        });
        Some(Arc::clone(wire))
    }

    /// The wire to a node, if there is one.
    pub(super) fn known(&self, node: Node) -> Option<Arc<Wire>> {
        self.by_node.read().get(usize::from(node)).cloned().flatten()
    }

    /// All wires there are, with their nodes.
    pub(super) fn all(&self) -> Vec<(Node, Arc<Wire>)> {
        let by_node = self.by_node.read();
        let wires = by_node.iter().enumerate();
        wires.filter_map(|(node, wire)| Some((node as Node, Arc::clone(wire.as_ref()?)))).collect()
    }

    /// Whether the code that runs now is run by the runtime on which the connections live: then that runtime runs.
    pub(super) fn are_driven_here(&self) -> bool {
        let here = Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id());
        here && !self.gone.load(Ordering::Acquire)
    }

    /// Whether any connection stands.
    pub(super) fn stand(&self) -> bool {
        self.by_node.read().iter().flatten().any(|wire| wire.stands())
    }

    /// Closes all connections for good. It may be called from any thread; sockets are closed by the tasks that own them, as
    /// soon as these are run.
    pub(super) fn close(&self) {
        self.closed.cancel();
        self.all().iter().for_each(|(_, wire)| wire.close());
    }

    /// Closes the connections to nodes that own no slot any more: replicas that were primaries, and nodes that are gone.
    pub(super) fn prune(&self, primaries: &[Node]) {
        for (node, wire) in self.all() {
            if !primaries.contains(&node) {
                if let Some(place) = self.by_node.write().get_mut(usize::from(node)) {
                    *place = None;
                }
                wire.close();
                wire.tell(|server| LinkEvent::Retired { server });
                let mut retired = self.retired.lock();
                retired.wires.push(wire);
                if retired.wires.len() > REMEMBERED {
                    retired.wires.remove(0);
                    retired.forgot = true;
                }
            }
        }
    }

    /// Closed wires to addresses that own nothing any more, on which something may still be on its way, and whether one is missing.
    pub(super) fn retired(&self) -> (Vec<Arc<Wire>>, bool) {
        let mut retired = self.retired.lock();
        retired.wires.retain(|wire| !matches!(wire.unburied(), (generations, false) if generations.is_empty()));
        (retired.wires.clone(), retired.forgot)
    }

    /// A retired wire leads to no process that owns a slot.
    pub(super) fn forget(&self, wire: &Arc<Wire>) {
        self.retired.lock().wires.retain(|other| !Arc::ptr_eq(other, wire));
    }

    /// Takes over a wire whose connection stands.
    pub(super) fn adopt(&self, node: Node, wire: &Arc<Wire>, router: super::generation::Router) {
        let mut by_node = self.by_node.write();
        let at = usize::from(node);
        if by_node.len() <= at {
            by_node.resize(at + 1, None);
        }
        if let Some(place) = by_node.get_mut(at) {
            if let Some(other) = place.replace(Arc::clone(wire)) {
                other.close();
            }
            self.keep(wire, Some(router));
        }
    }

    fn keep(&self, wire: &Arc<Wire>, router: Option<super::generation::Router>) {
        // Made here and not in the task: it must be dropped even when the runtime refuses the task.
        let gone = Gone(Arc::clone(wire));
        let wire = Arc::clone(wire);
        drop(self.runtime.spawn(async move {
            let _gone = gone;
            wire.keep(router).await;
        }));
    }

    fn server(&self, node: Node) -> Option<ServerConfig> {
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
pub(super) fn server_at(shared: &Shared, slots: &Slots, node: Node) -> Option<ServerConfig> {
    let address = slots.address(node)?;
    let (host, port) = slots::host_and_port(&address)?;
    let is_number = host.parse::<std::net::IpAddr>().is_ok();
    let name = if is_number { shared.target.certificate_name() } else { None };
    Some(ServerConfig::Centralized { server: Server::new_with_tls(host.to_owned(), port, name) })
}
