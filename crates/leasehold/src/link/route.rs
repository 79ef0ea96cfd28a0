//! Routing: the slot map of a cluster, the connection to a slot's owner, and redirections.
//!
//! Each node has its own connection, so a frozen node does not block calls to other nodes. The link keeps a node that
//! left the map while a call to it may be in flight.

use super::connection::{Connection, word};
use super::error::ConnectError;
use super::pool::{ConnectionManager, Pool};
use super::target;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::reply::Reply;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

pub(super) fn manager_of(pool: &Pool, slot: u16) -> Result<Arc<ConnectionManager>, LinkError> {
    let slots = pool.shared.slots.as_ref();
    let manager = slots.map_or(Some(0), |slots| slots.owner(slot)).and_then(|node| pool.to(node));
    // Reads the map if the owner is unknown, or may have been replaced.
    if let Some(slots) = slots
        && manager.as_ref().is_none_or(|manager| manager.current().is_err())
    {
        slots.doubted.notify_one();
    }
    manager.ok_or_else(|| LinkError::NotSent(format!("no node of the cluster owns slot {slot}")))
}

/// The manager's connection. Waits for the first connection attempt.
pub(super) async fn ready(manager: &ConnectionManager, timeout: Duration) -> Result<Arc<Connection>, LinkError> {
    match tokio::time::timeout(timeout, manager.ready()).await {
        Ok(ready) => ready,
        Err(_) => Err(LinkError::NotSent(format!("not yet connected to {}", manager.label()))),
    }
}

/// The arguments of `EVALSHA` or `EVAL`. Keeps the call for a resend.
pub(super) fn arguments(call: &Call, script: &'static str) -> Vec<Bytes> {
    const COUNTS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let keys = call.keys().len();
    let count = match COUNTS.get(keys) {
        Some(count) => word(count),
        None => keys.to_string().into(),
    };
    let words = call.keys().into_iter().chain(call.args()).map(Bytes::copy_from_slice);
    [word(script), count].into_iter().chain(words).collect()
}

/// Queues a command unless a settling began since `begun`. The send barrier stays locked while the command is queued. A
/// settling therefore either stops the command, or follows it in the queue.
pub(super) fn unless_settled<T>(
    send_barrier: &RwLock<u64>,
    begun: u64,
    queue: impl FnOnce() -> Result<T, LinkError>,
) -> Result<T, LinkError> {
    let send_barrier = send_barrier.read();
    if *send_barrier != begun {
        return Err(LinkError::NotSent("a settling has ruled the call out".to_owned()));
    }
    queue()
}

/// A redirection: another node executes the call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) slot: u16,
    address: String,
    /// `ASK`: only this call goes to the node, because the slot is moving. Otherwise the slot has moved.
    pub(super) asks: bool,
}

impl Redirect {
    pub(super) fn of(error: &ServerError) -> Option<Self> {
        let mut words = error.text().split(' ');
        let asks = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok()?;
        Some(Self { slot, address: words.next()?.to_owned(), asks })
    }

    /// The node. An empty host means the host of the redirecting server.
    fn node(&self, slots: &Slots, from: &ConnectionManager) -> Node {
        match (target::host_and_port(&self.address), from.current()) {
            (Some(("", port)), Ok(connection)) => {
                let host = target::host_and_port(&connection.server).map_or("", |(host, _)| host);
                slots.node(&target::address_of(host, port))
            }
            _ => slots.node(&self.address),
        }
    }

    /// Records the redirection in the slot map, and returns the node and the way to it.
    pub(super) fn follow(
        &self,
        pool: &Pool,
        slots: &Slots,
        from: &ConnectionManager,
    ) -> Result<(Node, Arc<ConnectionManager>), LinkError> {
        let node = self.node(slots, from);
        if self.asks {
            slots.asked(self.slot, node);
        } else if slots.moved(self.slot, node) {
            pool.shared.slot_moved(self.slot);
        }
        let manager = pool.to(node).ok_or_else(|| LinkError::NotSent(format!("no way to {}", self.address)))?;
        Ok((node, manager))
    }
}

/// Converts a server's refusal. Reconnects if the server is a replica.
pub(super) fn refused(manager: &ConnectionManager, refusal: ServerError) -> LinkError {
    if refusal.is_of_a_replica() {
        manager.renew();
    }
    LinkError::Refused(refusal)
}

const SLOTS: usize = 16_384;
const NOBODY: u16 = u16::MAX;

/// A node, by its index in the list of all nodes ever seen.
pub(super) type Node = u16;

pub(super) struct Slots {
    map: RwLock<Map>,
    /// A redirection has shown that the map is outdated.
    pub(super) doubted: Notify,
}

struct Map {
    addresses: Vec<String>,
    owners: Vec<Node>,
    /// Nodes other than the owner that may have received calls for a slot: earlier owners, and targets of an `ASK`.
    others: BTreeMap<u16, Vec<Carrier>>,
}

struct Carrier {
    node: Node,
    /// For the target of an `ASK`, the number of audits since the last `ASK`. The node may not own a slot yet, but will own
    /// this slot.
    asked: Option<u8>,
}

/// A target without an `ASK` for this many audits is dropped. At least one whole audit interval has then passed.
pub(super) const QUIET: u8 = 2;
/// An unreachable target is dropped after this many audits. Otherwise no settling of its slot would end.
pub(super) const UNREACHABLE: u8 = 6;

impl Default for Slots {
    fn default() -> Self {
        let map = Map { addresses: Vec::new(), owners: vec![NOBODY; SLOTS], others: BTreeMap::new() };
        Self { map: RwLock::new(map), doubted: Notify::new() }
    }
}

impl Slots {
    /// The node at `address`, which is `host:port`. All spellings of an IPv6 address denote one node.
    pub(super) fn node(&self, address: &str) -> Node {
        let address = target::host_and_port(address)
            .map_or_else(|| address.to_owned(), |(host, port)| target::address_of(host, port));
        let known = |map: &Map| map.addresses.iter().position(|known| *known == address);
        if let Some(at) = known(&self.map.read()) {
            return at as Node;
        }
        let mut map = self.map.write();
        let at = known(&map).unwrap_or_else(|| {
            map.addresses.push(address.clone());
            map.addresses.len() - 1
        });
        at as Node
    }

    pub(super) fn address(&self, node: Node) -> Option<String> {
        self.map.read().addresses.get(usize::from(node)).cloned()
    }

    /// The slots of the node at `address`, in order.
    pub(super) fn owned_by(&self, address: &str) -> Vec<u16> {
        let map = self.map.read();
        let owners = (0_u16..).zip(&map.owners);
        let here = |node: &Node| map.addresses.get(usize::from(*node)).is_some_and(|known| known == address);
        owners.filter(|(_, node)| here(node)).map(|(slot, _)| slot).collect()
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Node> {
        self.map.read().owners.get(usize::from(slot)).copied().filter(|node| *node != NOBODY)
    }

    /// The carriers of this slot that own any slot or take this slot over. Their late calls can change visible data.
    /// Other nodes without slots are not waited for, even while their connections exist.
    pub(super) fn settled_carriers(&self, slot: u16) -> Vec<Node> {
        let primaries = self.primaries();
        let map = self.map.read();
        let others = map.others.get(&slot).into_iter().flatten();
        let others = others.filter(|other| other.asked.is_some() || primaries.contains(&other.node));
        let owner = map.owners.get(usize::from(slot)).copied().filter(|node| *node != NOBODY);
        others.map(|other| other.node).chain(owner).collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub(super) fn primaries(&self) -> Vec<Node> {
        let map = self.map.read();
        let runs = map.owners.chunk_by(PartialEq::eq).filter_map(|run| run.first().copied());
        runs.filter(|node| *node != NOBODY).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Records a `MOVED`. Returns whether the owner is new.
    pub(super) fn moved(&self, slot: u16, node: Node) -> bool {
        let news = self.map.write().assign(slot, node);
        self.doubted.notify_one();
        news
    }

    /// Records that the node also receives calls for the slot.
    pub(super) fn asked(&self, slot: u16, node: Node) {
        let mut map = self.map.write();
        let others = map.others.entry(slot).or_default();
        others.retain(|other| other.node != node);
        others.push(Carrier { node, asked: Some(0) });
    }

    /// Every node that owns a slot or is the target of an `ASK`: its connections stay open.
    pub(super) fn in_use(&self) -> Vec<Node> {
        let mut all: BTreeSet<_> = self.primaries().into_iter().collect();
        let map = self.map.read();
        all.extend(map.others.values().flatten().filter(|other| other.asked.is_some()).map(|other| other.node));
        all.into_iter().collect()
    }

    /// Counts an audit, and returns the targets without a recent `ASK`. Targets that own a slot by now count as owners.
    pub(super) fn idle_ask_targets(&self) -> Vec<Node> {
        let primaries = self.primaries();
        let mut map = self.map.write();
        let mut quiet = BTreeMap::new();
        for other in map.others.values_mut().flatten() {
            let audits = other.asked.map(|audits| audits.saturating_add(1));
            other.asked = audits.filter(|audits| *audits < QUIET || !primaries.contains(&other.node));
            if let Some(audits) = other.asked {
                *quiet.entry(other.node).or_insert(true) &= audits >= QUIET;
            }
        }
        quiet.into_iter().filter_map(|(node, is_quiet)| is_quiet.then_some(node)).collect()
    }

    /// Drops a target without a recent `ASK`.
    pub(super) fn forget_ask_target(&self, node: Node, audits: u8) {
        for other in self.map.write().others.values_mut().flatten().filter(|other| other.node == node) {
            other.asked = other.asked.filter(|asked| *asked < audits);
        }
    }

    /// Forgets every node without a slot that is not taking over a slot. A later node at its address gets a new index.
    pub(super) fn prune_unowned(&self) {
        let mut map = self.map.write();
        let Map { addresses, owners, others } = &mut *map;
        let targets = others.values().flatten().filter(|other| other.asked.is_some()).map(|other| other.node);
        let owning: BTreeSet<_> = owners.iter().copied().chain(targets).collect();
        for (node, address) in addresses.iter_mut().enumerate() {
            if !owning.contains(&(node as Node)) {
                *address = String::new();
            }
        }
        others.retain(|_, nodes| {
            nodes.retain(|other| owning.contains(&other.node));
            !nodes.is_empty()
        });
    }

    /// Reads the slot map of a node, and returns the slots whose owner changed.
    pub(super) async fn read(&self, node: &Connection, timeout: Duration) -> Result<Vec<u16>, ConnectError> {
        let server = &node.server;
        let answer = node.send("CLUSTER", vec![word("SLOTS")], timeout).await;
        let answer = answer.map_err(|error| ConnectError::of_loss(server, error))?;
        if let Some(refusal) = answer.error() {
            return Err(ConnectError::of_refusal(server, refusal));
        }
        let host = target::host_and_port(server).map_or("", |(host, _)| host);
        let malformed = |reason| ConnectError::Protocol { server: server.clone(), reason, source: None };
        self.learn(&answer, host).map_err(malformed)
    }

    /// Applies a reply to `CLUSTER SLOTS`, and returns the slots with a new owner. `asked` is the host of the replying
    /// node. It replaces an empty host: a node may not know its own address.
    fn learn(&self, answer: &Reply, asked: &str) -> Result<Vec<u16>, String> {
        let parse = |range: &Reply| {
            let [first, last, primary, ..] = range.array().ok()? else { return None };
            let [host, port, ..] = primary.array().ok()? else { return None };
            let slots = u16::try_from(first.int().ok()?).ok()?..=u16::try_from(last.int().ok()?).ok()?;
            let port = u16::try_from(port.int().ok()?).ok().filter(|port| *port != 0)?;
            let host = host.text().ok().filter(|host| !host.is_empty() && *host != "?").unwrap_or(asked);
            (!slots.is_empty() && target::is_announced_host(host)).then(|| (slots, format!("{host}:{port}")))
        };
        let mut free = vec![true; SLOTS];
        let mut read = Vec::new();
        for range in answer.array().map_err(|_| "CLUSTER SLOTS did not return an array")? {
            let (slots, address) = parse(range).ok_or("CLUSTER SLOTS answered with a range that cannot be read")?;
            let own = free.get_mut(usize::from(*slots.start())..=usize::from(*slots.end()));
            let own = own.ok_or("CLUSTER SLOTS answered with numbers out of range")?;
            if own.contains(&false) {
                return Err("CLUSTER SLOTS returned two owners of one slot".to_owned());
            }
            own.fill(false);
            read.push((slots, address));
        }
        if read.is_empty() {
            return Err("no node owns any slot".to_owned());
        }
        let read: Vec<_> = read.into_iter().map(|(slots, address)| (slots, self.node(&address))).collect();
        let mut map = self.map.write();
        let mut changed = Vec::new();
        for (slots, node) in read {
            changed.extend(slots.filter(|slot| map.assign(*slot, node)));
        }
        Ok(changed)
    }
}

impl Map {
    fn assign(&mut self, slot: u16, node: Node) -> bool {
        let Some(owner) = self.owners.get_mut(usize::from(slot)) else { return false };
        let before = std::mem::replace(owner, node);
        if before == node {
            return false;
        }
        if before != NOBODY {
            let others = self.others.entry(slot).or_default();
            if others.iter().all(|other| other.node != before) {
                others.push(Carrier { node: before, asked: None });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: &'static str, port: i64) -> Reply {
        let host = Reply::Bulk(host.into());
        Reply::Array(vec![Reply::Int(first), Reply::Int(last), Reply::Array(vec![host, Reply::Int(port)])])
    }

    #[test]
    fn redirections_are_read() {
        let redirect = |text: &str| Redirect::of(&ServerError::new(text));
        let (moved, ask) = ("127.0.0.1:6381".to_owned(), ":7000".to_owned());
        assert_eq!(redirect("MOVED 3999 127.0.0.1:6381"), Some(Redirect { slot: 3999, address: moved, asks: false }));
        assert_eq!(redirect("ASK 12 :7000"), Some(Redirect { slot: 12, address: ask, asks: true }));
        assert_eq!(redirect("MOVED x y"), None);
    }

    #[test]
    fn earlier_owners_stay_carriers() {
        let slots = Slots::default();
        let answer = Reply::Array(vec![range(0, 99, "a", 1), range(100, 16_383, "", 2)]);
        assert_eq!(slots.learn(&answer, "seed").map(|changed| changed.len()), Ok(SLOTS));
        let (a, b) = (slots.node("a:1"), slots.node("seed:2"));
        assert_eq!((slots.owner(99), slots.owner(100)), (Some(a), Some(b)));
        assert!(slots.moved(99, b));
        assert!(!slots.moved(99, b));
        assert_eq!((slots.settled_carriers(99), slots.settled_carriers(98)), (vec![a, b], vec![a]));
        let c = slots.node("c:3");
        slots.asked(98, c);
        assert_eq!((slots.settled_carriers(98), slots.owner(98)), (vec![a, c], Some(a)));
        assert_eq!(slots.learn(&answer, "seed"), Ok(vec![99]));
        assert_eq!(slots.primaries(), [a, b]);
    }

    #[test]
    fn goal_counts_as_carrier_until_quiet_for_two_audits() {
        let slots = Slots::default();
        slots.learn(&Reply::Array(vec![range(0, 16_383, "a", 1)]), "seed").expect("a map");
        let (a, goal) = (slots.node("a:1"), slots.node("goal:1"));
        let told = || (slots.settled_carriers(7), slots.in_use());
        slots.asked(7, goal);
        slots.prune_unowned();
        assert_eq!(told(), (vec![a, goal], vec![a, goal]));
        assert_eq!(slots.settled_carriers(8), [a]);
        assert!(slots.idle_ask_targets().is_empty());
        assert_eq!(slots.idle_ask_targets(), [goal]);
        // An `ASK` named it while its connections were killed.
        slots.asked(7, goal);
        slots.forget_ask_target(goal, QUIET);
        assert_eq!(told(), (vec![a, goal], vec![a, goal]));
        (0..QUIET).for_each(|_| drop(slots.idle_ask_targets()));
        slots.forget_ask_target(goal, UNREACHABLE);
        assert_eq!(told(), (vec![a, goal], vec![a, goal]), "it cannot be reached, and is waited for");
        slots.forget_ask_target(goal, QUIET);
        assert_eq!(told(), (vec![a], vec![a]));
        // A target that took the slot over is an ordinary owner.
        slots.asked(7, goal);
        slots.moved(7, goal);
        (0..QUIET).for_each(|_| assert!(slots.idle_ask_targets().is_empty()));
        assert_eq!(told(), (vec![a, goal], vec![a, goal]));
    }

    #[test]
    fn nodes_that_own_nothing_are_forgotten_with_their_addresses() {
        let slots = Slots::default();
        slots.learn(&Reply::Array(vec![range(0, 16_383, "a", 1)]), "seed").expect("a map");
        slots.learn(&Reply::Array(vec![range(0, 16_383, "b", 1)]), "seed").expect("a map");
        let (a, b) = (slots.node("a:1"), slots.node("b:1"));
        assert_eq!((slots.map.read().others.len(), slots.settled_carriers(7)), (SLOTS, vec![b]));
        slots.prune_unowned();
        assert_eq!((slots.map.read().others.len(), slots.address(a).as_deref()), (0, Some("")));
        assert_ne!(slots.node("a:1"), a);
    }

    #[test]
    fn nonsense_is_an_error() {
        let slots = Slots::default();
        assert!(slots.learn(&Reply::Int(1), "x").is_err());
        assert!(slots.learn(&Reply::Array(vec![]), "x").is_err());
        for (first, last, port) in [(0, 16_384, 1), (-1, 5, 1), (7, 6, 1), (0, 5, 0), (0, 5, -1), (0, 5, 65_536)] {
            let answer = Reply::Array(vec![range(0, 0, "a", 1), range(first, last, "b", port)]);
            assert!(slots.learn(&answer, "x").is_err(), "{first} to {last} at {port}");
        }
        assert_eq!(slots.primaries(), [0; 0]);
    }

    #[test]
    fn slot_with_two_owners_is_an_error_and_no_node_is_kept() {
        let slots = Slots::default();
        let answer = Reply::Array((1..=300).map(|port| range(0, 16_383, "a", port)).collect());
        assert!(slots.learn(&answer, "x").is_err());
        assert_eq!((slots.primaries(), slots.address(0)), (vec![], None));
    }

    #[test]
    fn text_that_is_no_host_is_an_error() {
        static LONG: [u8; 300] = [b'a'; 300];
        let slots = Slots::default();
        for host in [std::str::from_utf8(&LONG).expect("letters"), "a b", "a\r\nb", "\u{1b}[2J"] {
            assert!(slots.learn(&Reply::Array(vec![range(0, 16_383, host, 1)]), "x").is_err(), "{host:?}");
        }
    }

    #[test]
    fn ipv6_node_is_one_however_its_address_is_written() {
        let slots = Slots::default();
        slots.learn(&Reply::Array(vec![range(0, 16_383, "::1", 7000)]), "seed").expect("a map");
        let node = slots.node("::1:7000");
        assert_eq!((slots.node("[::1]:7000"), slots.primaries()), (node, vec![node]));
        assert_eq!(slots.address(node).as_deref(), Some("[::1]:7000"));
        assert_eq!(slots.owned_by(&target::address_of("::1", 7000)).len(), 16_384);
    }
}
