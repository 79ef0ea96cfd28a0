//! A private cluster.

use std::time::{Duration, Instant};

use crate::{Binary, Resp, Server, ServerBuilder, until};

/// A cluster on loopback: primaries that share the slots evenly, with or without replicas. Every node is a [`Server`] that can
/// be stopped, killed and restarted.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    primaries: usize,
    password: Option<String>,
}

/// The settings of a [`Cluster`].
#[derive(Debug)]
#[must_use = "a builder does nothing itself, use .start()"]
pub struct ClusterBuilder {
    node: ServerBuilder,
    primaries: usize,
    replicas: usize,
    password: Option<String>,
}

impl Cluster {
    /// Three primaries without replicas.
    ///
    /// # Panics
    ///
    /// When there is no server program, or the nodes do not become a cluster.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A node that serves all slots by TLS, and the URL of this cluster. It is found by a name, which its certificate is for, and says the IP
    /// address of its node.
    ///
    /// # Panics
    ///
    /// When there is no server program with TLS, or it does not serve all slots.
    #[must_use]
    #[track_caller]
    pub fn of_a_name() -> (Server, String) {
        let builder = Server::builder().arg("cluster-enabled", "yes").arg("cluster-announce-ip", "127.0.0.1");
        let node = builder.tls_with(|ca| ca.issue(&["localhost"])).start();
        let port = node.tls_addr().expect("an address for TLS").port();
        node.command(&["CONFIG", "SET", "cluster-announce-port", &port.to_string()]);
        node.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        until("the node serves all slots", || {
            let state = node.command(&["CLUSTER", "INFO"]);
            state.as_str().is_some_and(|state| state.contains("cluster_state:ok"))
        });
        (node, format!("rediss-cluster://localhost:{port}"))
    }

    /// A cluster with settings.
    pub fn builder() -> ClusterBuilder {
        // A node that is silent for this long has failed. It is the shortest that a busy machine bears.
        let node = Server::builder().arg("cluster-enabled", "yes").arg("cluster-node-timeout", "1500");
        let node = node.arg("repl-diskless-sync-delay", "0");
        ClusterBuilder { node, primaries: 3, replicas: 0, password: None }
    }

    /// The URL at which a client reaches it, with all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let credentials = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        let others: Vec<_> = self.nodes[1..].iter().map(|node| format!("node={}", node.addr())).collect();
        let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        format!("redis-cluster://{credentials}{}{query}", self.nodes[0].addr())
    }

    /// All nodes: first those that began as primaries, then those that began as replicas, in the order of their primaries.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a key.
    #[must_use]
    pub fn slot_of(&self, key: &str) -> u16 {
        let slot = self.witness().command(&["CLUSTER", "KEYSLOT", key]).as_int();
        slot.and_then(|slot| slot.try_into().ok()).expect("the slot of a key")
    }

    /// The node that serves a key, as the first node that is up sees it.
    ///
    /// # Panics
    ///
    /// When no node is known to serve it.
    #[must_use]
    #[track_caller]
    pub fn node_of(&self, key: &str) -> &Server {
        self.owner_of(self.slot_of(key)).expect("a node that serves the key")
    }

    /// The node that serves a slot, as the first node that is up sees it.
    #[must_use]
    pub fn owner_of(&self, slot: u16) -> Option<&Server> {
        let slot = i64::from(slot);
        let ranges = self.witness().command(&["CLUSTER", "SLOTS"]);
        let range = ranges.elements().iter().find(|range| {
            let bound = |at: usize| range.elements()[at].as_int().unwrap_or(-1);
            (bound(0)..=bound(1)).contains(&slot)
        })?;
        let port = range.elements()[2].elements()[1].as_int()?;
        self.nodes.iter().find(|node| i64::from(node.port()) == port)
    }

    /// The replica that the cluster was started with for a primary.
    #[must_use]
    pub fn replica_of(&self, primary: &Server) -> Option<&Server> {
        let at = self.nodes[..self.primaries].iter().position(|node| node.port() == primary.port())?;
        self.nodes.get(self.primaries + at)
    }

    /// Moves a slot with its keys to another node, in the proper steps; at the end all nodes know.
    ///
    /// # Panics
    ///
    /// When a node refuses a step.
    #[track_caller]
    pub fn migrate_slot(&self, slot: u16, to: &Server) {
        let from = self.owner_of(slot).expect("a node that serves the slot");
        if from.port() == to.port() {
            return;
        }
        self.begin_migration(slot, to);
        self.move_keys(slot, to);
        self.finish_migration(slot, to);
    }

    /// The first step of [`Cluster::migrate_slot`]. Keys that are not at the old node are asked for at the other one (ASK).
    #[track_caller]
    pub fn begin_migration(&self, slot: u16, to: &Server) {
        let from = self.owner_of(slot).expect("a node that serves the slot");
        let slot = slot.to_string();
        accepted(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id_of(from)]);
        accepted(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id_of(to)]);
    }

    /// The second step of [`Cluster::migrate_slot`]: moves the keys that are there.
    #[track_caller]
    pub fn move_keys(&self, slot: u16, to: &Server) {
        let from = self.owner_of(slot).expect("a node that serves the slot");
        loop {
            let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"]);
            let keys: Vec<_> = keys.elements().iter().filter_map(Resp::as_bytes).collect();
            if keys.is_empty() {
                return;
            }
            let port = to.port().to_string();
            let mut argv: Vec<&[u8]> = vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000"];
            if let Some(password) = &self.password {
                argv.extend([b"AUTH", password.as_bytes()]);
            }
            argv.push(b"KEYS");
            argv.extend(keys);
            accepted(from, &argv);
        }
    }

    /// The last step of [`Cluster::migrate_slot`]: tells all nodes, the one that takes over first.
    #[track_caller]
    pub fn finish_migration(&self, slot: u16, to: &Server) {
        let from = self.owner_of(slot).map(Server::port);
        let primaries = || self.nodes.iter().filter(|node| node.is_up() && role_of(node).as_deref() == Some("master"));
        let source = primaries().filter(|node| Some(node.port()) == from);
        let others = primaries().filter(|node| Some(node.port()) != from && node.port() != to.port());
        for node in [to].into_iter().chain(source).chain(others) {
            accepted(node, &["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &id_of(to)]);
        }
    }

    /// Promotes a replica in agreement with its primary, and waits until it serves the slots.
    #[track_caller]
    pub fn promote(&self, replica: &Server) {
        until("the replica is in step", || replica.info("master_link_status").as_deref() == Some("up"));
        // The other primaries do not vote twice within a short time, and the replica then gives up in silence.
        let mut asked: Option<Instant> = None;
        until("the replica is a primary", || {
            let promoted = role_of(replica).as_deref() == Some("master");
            if !promoted && asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(6)) {
                accepted(replica, &["CLUSTER", "FAILOVER"]);
                asked = Some(Instant::now());
            }
            promoted
        });
        self.wait_until_agreed();
    }

    /// Waits until all nodes that are up call the cluster sound and agree on who serves which slot.
    #[track_caller]
    pub fn wait_until_agreed(&self) {
        until("all nodes of the cluster agree", || self.agrees());
    }

    /// Whether all nodes that are up call the cluster sound and agree on who serves which slot.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let up = || self.nodes.iter().filter(|node| node.is_up());
        let sound = |node: &Server| cluster_info(node, "cluster_state").as_deref() == Some("ok");
        let mut maps = up().map(slot_map);
        let first = maps.next();
        up().all(sound) && maps.all(|map| Some(map) == first)
    }

    /// A number that grows with every change of who serves what: failovers, attempts at them, and migrations.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        cluster_info(self.witness(), "cluster_current_epoch")?.parse().ok()
    }

    /// A node to ask.
    #[track_caller]
    fn witness(&self) -> &Server {
        self.nodes.iter().find(|node| node.is_up()).expect("a node of the cluster that is up")
    }
}

impl ClusterBuilder {
    /// The program to run. Default: [`Binary::any`].
    pub fn binary(mut self, binary: &Binary) -> Self {
        self.node = self.node.binary(binary);
        self
    }

    /// One line of the configuration file of every node.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.node = self.node.arg(name, value);
        self
    }

    /// The password of the default user.
    pub fn password(mut self, password: &str) -> Self {
        self.node = self.node.password(password).arg("masterauth", password);
        self.password = Some(password.to_owned());
        self
    }

    /// How many primaries. Default: 3, which is also the least for failovers without an operator.
    pub fn primaries(mut self, primaries: usize) -> Self {
        self.primaries = primaries;
        self
    }

    /// Gives every primary a replica.
    pub fn replicas(mut self) -> Self {
        self.replicas = self.primaries;
        self
    }

    /// Starts the nodes and waits until they are a cluster.
    ///
    /// # Panics
    ///
    /// When there is no server program, or the nodes do not become a cluster.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> Cluster {
        let replicas = if self.replicas > 0 { self.primaries } else { 0 };
        let nodes: Vec<_> = (0..self.primaries + replicas).map(|_| self.node.clone().start()).collect();
        let cluster = Cluster { nodes, primaries: self.primaries, password: self.password };
        cluster.join();
        cluster
    }
}

impl Cluster {
    #[track_caller]
    fn join(&self) {
        let (primaries, replicas) = self.nodes.split_at(self.primaries);
        let first = &primaries[0];
        for (at, node) in primaries.iter().enumerate() {
            accepted(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            let bound = |at: usize| at * SLOTS / self.primaries;
            let slots = (bound(at)..bound(at + 1)).map(|slot| slot.to_string());
            accepted(node, &["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots).collect::<Vec<_>>());
        }
        for node in &self.nodes[1..] {
            accepted(node, &["CLUSTER", "MEET", "127.0.0.1", &first.port().to_string()]);
        }
        let all = self.nodes.len().to_string();
        until("all nodes know each other", || {
            self.nodes.iter().all(|node| cluster_info(node, "cluster_known_nodes").as_ref() == Some(&all))
        });
        for (replica, primary) in replicas.iter().zip(primaries) {
            let id = id_of(primary);
            // It is refused until the replica has heard from the primary itself.
            until("the replica knows its primary", || !replica.command(&["CLUSTER", "REPLICATE", &id]).is_error());
        }
        for (replica, primary) in replicas.iter().zip(primaries) {
            until("the replica is in step", || replica.info("master_link_status").as_deref() == Some("up"));
            until("the primary has its replica", || primary.info("connected_slaves").as_deref() == Some("1"));
        }
        self.wait_until_agreed();
    }
}

const SLOTS: usize = 16_384;

fn id_of(node: &Server) -> String {
    node.command(&["CLUSTER", "MYID"]).as_str().expect("the id of a node").to_owned()
}

fn role_of(node: &Server) -> Option<String> {
    node.command(&["ROLE"]).elements().first()?.as_str().map(str::to_owned)
}

fn cluster_info(node: &Server, field: &str) -> Option<String> {
    let info = node.command(&["CLUSTER", "INFO"]);
    let found = info.as_str()?.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| *name == field);
    found.map(|(_, value)| value.to_owned())
}

/// The slots and their servers, in the words of one node: first slot, last slot, port of the primary.
fn slot_map(node: &Server) -> Vec<[Option<i64>; 3]> {
    let slots = node.command(&["CLUSTER", "SLOTS"]);
    let port = |range: &Resp| range.elements().get(2)?.elements().get(1)?.as_int();
    let range = |range: &Resp| [range.elements()[0].as_int(), range.elements()[1].as_int(), port(range)];
    let mut map: Vec<_> = slots.elements().iter().map(range).collect();
    map.sort_unstable();
    map
}

#[track_caller]
fn accepted<A: AsRef<[u8]>>(node: &Server, argv: &[A]) {
    let reply = node.command(argv);
    assert!(!reply.is_error(), "{node:?} refused {}: {reply:?}", String::from_utf8_lossy(argv[1].as_ref()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually;

    #[test]
    fn every_engine_makes_a_cluster() {
        for binary in Binary::all().expect("a server program") {
            let cluster = Cluster::builder().binary(&binary).start();
            assert_eq!(cluster.nodes().len(), 3);
            let keys = ["a", "b", "c", "d", "e", "f"];
            for key in keys {
                assert_eq!(cluster.node_of(key).command(&["SET", key, "1"]), Resp::Simple("OK".into()));
            }
            let ports: Vec<_> = cluster.nodes().iter().map(Server::port).collect();
            let head = format!("redis-cluster://127.0.0.1:{}?node=127.0.0.1:{}&", ports[0], ports[1]);
            assert!(cluster.url().starts_with(&head), "{}", cluster.url());
        }
    }

    #[test]
    fn a_slot_moves_with_its_keys() {
        let cluster = Cluster::builder().password("secret").start();
        let keys: Vec<_> = (0..150).map(|n| format!("{{tag}}:{n}")).collect();
        let from = cluster.node_of(&keys[0]);
        for key in &keys {
            from.command(&["SET", key, key]);
        }
        let to = cluster.nodes().iter().find(|node| node.port() != from.port()).expect("another node");
        let slot = cluster.slot_of(&keys[0]);
        cluster.begin_migration(slot, to);
        let reply = from.command(&["GET", "{tag}:absent"]);
        assert!(reply.as_str().is_some_and(|text| text.starts_with("ASK ")), "{reply:?}");
        cluster.move_keys(slot, to);
        cluster.finish_migration(slot, to);
        cluster.wait_until_agreed();
        assert_eq!(cluster.node_of(&keys[0]).port(), to.port());
        assert_eq!(to.command(&["GET", &keys[149]]), Resp::Bulk(keys[149].clone().into_bytes()));
        let reply = from.command(&["GET", &keys[0]]);
        assert!(reply.as_str().is_some_and(|text| text.starts_with("MOVED ")), "{reply:?}");
        cluster.migrate_slot(slot, from);
        assert_eq!(from.command(&["GET", &keys[0]]), Resp::Bulk(keys[0].clone().into_bytes()));
    }

    #[test]
    fn a_frozen_primary_is_replaced_by_its_replica() {
        let cluster = Cluster::builder().replicas().start();
        let primary = cluster.node_of("a");
        let replica = cluster.replica_of(primary).expect("its replica");
        assert_eq!(primary.command(&["SET", "a", "1"]), Resp::Simple("OK".into()));
        assert_eq!(primary.command(&["WAIT", "1", "5000"]), Resp::Int(1));
        primary.stop();
        eventually("the replica serves the key", || {
            (cluster.node_of("a").port() == replica.port() && role_of(replica)? == "master").then_some(())
        });
        cluster.wait_until_agreed();
        assert_eq!(replica.command(&["GET", "a"]), Resp::Bulk(b"1".to_vec()));
        primary.resume();
        until("the old primary has stepped back", || role_of(primary).as_deref() == Some("slave"));
        cluster.wait_until_agreed();
        cluster.promote(primary);
        assert_eq!(cluster.node_of("a").port(), primary.port());
    }
}
