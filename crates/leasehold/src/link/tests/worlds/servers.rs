//! The servers of a world: one or two in-process nodes, which record their actions.

use super::super::memory::{End, Memory};
use super::peer::{self, Peer};
use super::plan::{Disturbance, Plan};
use super::slots::Slots;
use super::tally::{Happened, Tally};
use super::trace::{Event, Trace};
use fastrand::Rng;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// The port of the first node.
pub(super) const FIRST_PORT: u16 = 7_000;

/// A server process.
pub(super) struct Node {
    pub(super) port: u16,
    pub(super) process: u64,
    /// The hashes of loaded scripts.
    pub(super) scripts: HashSet<&'static str>,
    /// Whether the scripts of batches are loaded.
    pub(super) batches: bool,
}

impl Node {
    fn forget_scripts(&mut self) {
        self.scripts.clear();
        self.batches = false;
    }
}

/// The state of all servers.
pub(super) struct State {
    pub(super) trace: Trace,
    pub(super) tally: Tally,
    pub(super) rng: Rng,
    pub(super) nodes: Vec<Node>,
    pub(super) peers: BTreeMap<i64, Peer>,
    pub(super) slots: Option<Slots>,
    pub(super) kill_forbidden: bool,
    pub(super) sharded: bool,
    /// The failure of the next call.
    pub(super) fails: Option<Happened>,
    refuses: bool,
    /// No delays.
    calm: bool,
    connections: i64,
}

impl State {
    /// The delay of the next request or reply: usually none, sometimes a few milliseconds.
    pub(super) fn delay(&mut self) -> Duration {
        if self.calm {
            return Duration::ZERO;
        }
        Duration::from_micros(match self.rng.u8(..10) {
            0..6 => 0,
            6..9 => self.rng.u64(100..3_000),
            _ => self.rng.u64(3_000..20_000),
        })
    }

    /// Kills the connection: it executes nothing more, and its client learns of it in time.
    pub(super) fn kill(&mut self, connection: i64) -> bool {
        let Some(peer) = self.peers.remove(&connection) else { return false };
        peer.cut.cancel();
        self.tally.note(Happened::ConnectionKilled);
        if peer.under_way > 0 {
            self.tally.note(Happened::RequestsKilled);
        }
        self.trace.say(Event::Killed { node: peer.node, connection });
        true
    }

    /// Accepts a client, unless refused.
    fn accept(&mut self, peer: Peer) -> Option<i64> {
        if self.refuses {
            self.tally.note(Happened::ConnectionRefused);
            return None;
        }
        self.connections += 1;
        let id = self.connections;
        self.peers.insert(id, peer);
        Some(id)
    }

    /// A connection that still has its client; often that of the latest call.
    fn any_peer(&mut self) -> Option<&mut Peer> {
        let mut connected: Vec<_> = self.peers.values_mut().filter(|peer| peer.is_of_use()).collect();
        if connected.is_empty() {
            return None;
        }
        if self.rng.bool() {
            return connected.into_iter().max_by_key(|peer| peer.last_call);
        }
        let at = self.rng.usize(..connected.len());
        Some(connected.swap_remove(at))
    }

    fn restart(&mut self, node: usize) {
        let of_node: Vec<_> = self.peers.iter().filter(|(_, peer)| peer.node == node).map(|(id, _)| *id).collect();
        for id in of_node {
            if let Some(peer) = self.peers.remove(&id) {
                peer.cut.cancel();
            }
        }
        if let Some(node) = self.nodes.get_mut(node) {
            node.process += 1;
            node.forget_scripts();
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        let until = |millis| Instant::now() + Duration::from_millis(millis);
        let what = match disturbance {
            Disturbance::HoldRequests(millis) => {
                let Some(peer) = self.any_peer() else { return };
                peer.requests_from = until(millis);
                peer.changed.notify_waiters();
                Some(Happened::RequestHeld)
            }
            Disturbance::HoldReplies(millis) => {
                let Some(peer) = self.any_peer() else { return };
                peer.replies_from = until(millis);
                peer.changed.notify_waiters();
                Some(Happened::ReplyHeld)
            }
            Disturbance::Cut { after, held } => {
                let Some(peer) = self.any_peer() else { return };
                peer.requests_from = until(after + held);
                peer.changed.notify_waiters();
                let cut = peer.cut.clone();
                drop(tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    cut.cancel();
                }));
                Some(Happened::ConnectionCut)
            }
            Disturbance::Refuse(refuses) => {
                self.refuses = refuses;
                None
            }
            Disturbance::Restart(node) => {
                self.restart(node % self.nodes.len());
                Some(Happened::ServerRestarted)
            }
            Disturbance::FlushScripts => {
                self.nodes.iter_mut().for_each(Node::forget_scripts);
                None
            }
            Disturbance::MoveSlot(lock) => {
                let dropped = self.slots.as_mut().map(|slots| slots.step(lock));
                if let Some(Some((slot, from))) = dropped {
                    self.drop_sharded(slot, from);
                }
                None
            }
            Disturbance::FailNext(midway) => {
                self.fails = Some(if midway { Happened::ScriptFailed } else { Happened::OutOfMemory });
                None
            }
            Disturbance::Block(_) | Disturbance::HomeSleeps(_) | Disturbance::HomeEnds => None,
        };
        what.into_iter().for_each(|what| self.tally.note(what));
    }
}

/// The nodes, on the network of a world.
pub(super) struct Servers {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) network: Arc<Memory>,
}

impl Servers {
    /// Starts the nodes on the current runtime, without disturbances.
    pub(super) fn start(plan: &Plan, trace: &Trace) -> Self {
        let ports = if plan.cluster { FIRST_PORT..=FIRST_PORT + 1 } else { FIRST_PORT..=FIRST_PORT };
        let node = |port: u16| Node { port, process: 1, scripts: HashSet::new(), batches: false };
        let state = Arc::new(Mutex::new(State {
            trace: trace.clone(),
            tally: Tally::default(),
            rng: Rng::with_seed(plan.seed),
            nodes: ports.map(node).collect(),
            peers: BTreeMap::new(),
            // With sharded notices a slot moves once. If it returned before the link checks, its node would drop and
            // accept the subscription. The link would see no difference, and could not report the missed messages.
            slots: plan.cluster.then(|| Slots::new(!plan.sharded)),
            kill_forbidden: plan.kill_forbidden,
            sharded: plan.sharded,
            fails: None,
            refuses: false,
            calm: true,
            connections: 0,
        }));
        let network = Memory::new(plan.seed);
        for (at, node) in state.lock().nodes.iter().enumerate() {
            let accepted = network.listen(SocketAddr::from(([127, 0, 0, 1], node.port)));
            drop(tokio::spawn(listen(Arc::clone(&state), at, accepted)));
        }
        Self { state, network }
    }

    pub(super) fn disturb(&self, disturbance: Disturbance) {
        let mut state = self.state.lock();
        state.trace.say(Event::Disturbed(format!("{disturbance:?}")));
        state.disturb(disturbance);
    }

    /// Starts the delays, or ends them and accepts every connection.
    pub(super) fn set_calm(&self, calm: bool) {
        let mut state = self.state.lock();
        state.calm = calm;
        state.refuses = false;
        state.fails = None;
        let now = Instant::now();
        for peer in state.peers.values_mut() {
            peer.requests_from = peer.requests_from.min(now);
            peer.replies_from = peer.replies_from.min(now);
            peer.changed.notify_waiters();
        }
    }
}

async fn listen(state: Arc<Mutex<State>>, node: usize, mut accepted: UnboundedReceiver<End>) {
    while let Some(end) = accepted.recv().await {
        let (peer, replies) = Peer::new(node);
        let cut = peer.cut.clone();
        let accepted = state.lock().accept(peer);
        if let Some(connection) = accepted {
            peer::serve(&state, connection, end, cut, replies);
        }
    }
}
