//! The servers of a run: one alone, a primary with a replica under Sentinel, a cluster, and some that know nothing of each other.

use crate::client::LEASE;
use crate::lineage::Shard;
use crate::work::naive::LONG;
use leasehold_test_support::{Binary, Cluster, Divide, Proxy, Resp, Sentinel, Server, ServerBuilder, Side, WallClock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Servers of this run's own.
pub(crate) enum Place {
    /// One server that keeps what it has confirmed, and a proxy that most clients go through.
    /// Its clock can be stepped, where the machine can do that.
    Standalone { server: Box<Server>, proxy: Proxy, clock: Result<Arc<WallClock>, String> },
    /// A primary, its replica, and a sentinel; perhaps on two sides of a link that can be cut.
    Sentinel { sentinel: Box<Sentinel>, divide: Option<Divide> },
    /// Three primaries, each with a replica.
    Cluster(Box<Cluster>),
    /// Servers that know nothing of each other, each of which keeps what it has confirmed.
    Quorum(Vec<Server>),
}

/// The place in which a client runs, and its servers: one, or each that knows nothing of the others.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) urls: Vec<String>,
    pub(crate) side: Option<Side>,
}

/// How many servers a quorum is made of.
const MEMBERS: usize = 3;

/// The name of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlaceName {
    Standalone,
    Sentinel,
    Cluster,
    /// As Sentinel, with the primary in one network namespace, the replica and the sentinel in another, and clients in both.
    Divided,
    /// Servers for locks on a majority of them.
    Quorum,
}

impl PlaceName {
    pub(crate) const ALL: [Self; 5] = [Self::Standalone, Self::Sentinel, Self::Cluster, Self::Divided, Self::Quorum];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Divided => "divided",
            Self::Quorum => "quorum",
        }
    }
}

impl Place {
    /// The error says why that place cannot be made on this machine.
    pub(crate) fn start(name: PlaceName, binary: &Binary) -> Result<Self, String> {
        Ok(match name {
            PlaceName::Standalone => {
                let clock = Arc::new(WallClock::running());
                let stepped = steadfast(binary).clock(&clock).try_start().map_err(|error| error.to_string());
                let (server, clock) = match stepped {
                    Ok(server) => (server, Ok(clock)),
                    Err(why) => (steadfast(binary).start(), Err(why)),
                };
                let proxy = Proxy::to(&server);
                Self::Standalone { server: Box::new(server), proxy, clock }
            }
            PlaceName::Sentinel => Self::Sentinel { sentinel: Box::new(Sentinel::start_with(binary)), divide: None },
            PlaceName::Cluster => Self::Cluster(Box::new(Cluster::builder().binary(binary).replicas().start())),
            PlaceName::Quorum => Self::Quorum((0..MEMBERS).map(|_| steadfast(binary).start()).collect()),
            PlaceName::Divided => {
                let divide = Divide::make()?;
                let sentinel = Box::new(Sentinel::start_across(binary, &divide));
                Self::Sentinel { sentinel, divide: Some(divide) }
            }
        })
    }

    /// The seats of so many clients. The last of those at a proxy goes without it, and of those at a link that can be cut half are on
    /// either side.
    pub(crate) fn seats(&self, clients: usize) -> Vec<Seat> {
        let seat = |client: usize| match self {
            Self::Standalone { server, .. } if client + 1 == clients => Seat { urls: vec![server.url()], side: None },
            Self::Standalone { proxy, .. } => Seat { urls: vec![proxy.url()], side: None },
            Self::Sentinel { sentinel, divide } => {
                let side = divide.as_ref().map(|divide| divide.sides()[client % 2].clone());
                Seat { urls: vec![sentinel.url()], side }
            }
            Self::Cluster(cluster) => Seat { urls: vec![cluster.url()], side: None },
            Self::Quorum(servers) => Seat { urls: servers.iter().map(Server::url).collect(), side: None },
        };
        (0..clients).map(seat).collect()
    }

    /// Every server that has data.
    pub(crate) fn nodes(&self) -> Vec<&Server> {
        match self {
            Self::Standalone { server, .. } => vec![server],
            Self::Sentinel { sentinel, .. } => sentinel.servers().iter().collect(),
            Self::Cluster(cluster) => cluster.nodes().iter().collect(),
            Self::Quorum(servers) => servers.iter().collect(),
        }
    }

    /// The ports of the primaries. They change when one is replaced.
    pub(crate) fn primaries(&self) -> BTreeSet<u16> {
        let is_primary = |node: &&Server| match self {
            Self::Sentinel { sentinel, .. } => sentinel.announced().is_some_and(|addr| addr == node.peer_addr()),
            _ => role_of(node).as_deref() == Some("master"),
        };
        self.nodes().into_iter().filter(is_primary).map(Server::port).collect()
    }

    /// The clock of its server, if it can be stepped.
    pub(crate) fn clock(&self) -> Option<&WallClock> {
        match self {
            Self::Standalone { clock, .. } => clock.as_deref().ok(),
            _ => None,
        }
    }

    /// The processes that have data, as they are now.
    pub(crate) fn shards(&self) -> Vec<Shard> {
        let (nodes, primaries) = (self.nodes(), self.primaries());
        // A connection that is kept may have been cut.
        let process = |node: &Server| node.process().or_else(|| node.process()).unwrap_or_default();
        let shard = |nodes: &[&Server]| Shard {
            processes: nodes.iter().map(|node| process(node)).collect(),
            primary: nodes.iter().find(|node| primaries.contains(&node.port())).map(|node| process(node)),
        };
        match self {
            Self::Standalone { .. } | Self::Quorum(_) => nodes.iter().map(|node| shard(&[*node])).collect(),
            Self::Sentinel { .. } | Self::Cluster(_) => {
                let (first, second) = nodes.split_at(nodes.len() / 2);
                first.iter().zip(second).map(|(one, other)| shard(&[*one, *other])).collect()
            }
        }
    }

    /// A number that changes when a primary is replaced, and when slots move.
    pub(crate) fn epoch(&self) -> u64 {
        let epoch = match self {
            Self::Standalone { .. } | Self::Quorum(_) => None,
            Self::Sentinel { sentinel, .. } => sentinel.epoch(),
            Self::Cluster(cluster) => cluster.epoch(),
        };
        epoch.unwrap_or_default()
    }

    /// After how long a silent server counts as dead under Sentinel. The shorter, the more is under way when it is replaced; the longer,
    /// the fewer are replaced because the machine is busy.
    pub(crate) fn dead_after(&self, silence: Duration) {
        if let Self::Sentinel { sentinel, .. } = self {
            let millis = silence.as_millis().to_string();
            let set = ["SENTINEL", "SET", Sentinel::SERVICE, "down-after-milliseconds", &millis];
            let _ = sentinel.sentinel().try_command(&set);
        }
    }

    /// The server with a port.
    pub(crate) fn node(&self, port: u16) -> &Server {
        self.nodes().into_iter().find(|node| node.port() == port).expect("a server of this place")
    }

    /// The other one of a primary and its replica.
    pub(crate) fn partner(&self, port: u16) -> &Server {
        let nodes = self.nodes();
        let at = nodes.iter().position(|node| node.port() == port).expect("a server of this place");
        nodes[(at + nodes.len() / 2) % nodes.len()]
    }

    /// Waits until every server answers, knows its role, and has its replica in step. Whether that came to be.
    pub(crate) fn heals(&self) -> bool {
        within(Duration::from_secs(120), || self.is_well())
    }

    fn is_well(&self) -> bool {
        let answers = |node: &Server| node.try_command(&["PING"]).is_ok_and(|reply| !reply.is_error());
        if !self.nodes().into_iter().all(answers) {
            return false;
        }
        match self {
            Self::Standalone { .. } | Self::Quorum(_) => true,
            Self::Sentinel { sentinel, .. } => {
                let Some(primary) = self.primaries().into_iter().next() else { return false };
                role_of(self.node(primary)).as_deref() == Some("master")
                    && is_replica_in_step(self.partner(primary))
                    && sentinel.has_a_replica_to_promote()
            }
            Self::Cluster(cluster) => {
                let primaries = self.primaries();
                primaries.len() == 3
                    && primaries.iter().all(|port| is_replica_in_step(self.partner(*port)))
                    && cluster.agrees()
            }
        }
    }

    /// The keys that are left, but for those that are said to stay: for ever, or for a time. `None` where a server does not answer.
    fn leftovers(&self, lost_data: bool) -> Option<Vec<String>> {
        let mut left = Vec::new();
        let primaries = self.primaries();
        for port in &primaries {
            let node = self.node(*port);
            let life = |key: &str| ask(node, &["PTTL", key]).and_then(|left| left.as_int());
            for key in ask(node, &["KEYS", "*"])?.elements().iter().filter_map(Resp::as_str) {
                if key == DEADLINES && nobody_has_a_permit(node)? {
                    continue;
                }
                let for_a_time = stays_for_a_time(key) || (lost_data && is_of_a_queue(key));
                let stays = stays_for_ever(key) || (for_a_time && life(key) != Some(-1));
                if !stays {
                    left.push(format!("{key}, for {:?} ms", life(key)));
                }
            }
        }
        (!primaries.is_empty()).then_some(left)
    }

    /// The number of channels with listeners, but for those of the servers themselves. `None` where a server does not answer.
    fn subscriptions(&self) -> Option<usize> {
        let mut sum = 0;
        for node in self.nodes() {
            for what in ["CHANNELS", "SHARDCHANNELS"] {
                let reply = ask(node, &["PUBSUB", what])?;
                let names = reply.elements().iter().filter_map(Resp::as_str);
                sum += names.filter(|name| *name != "__sentinel__:hello").count();
            }
        }
        Some(sum)
    }

    /// Waits until nothing is left: what a killed process held is there for one lease. The keys that are left then, and the number of
    /// subscriptions. `lost_data` is whether a server may have lost what it had been told.
    pub(crate) fn clears(&self, lost_data: bool) -> (Vec<String>, usize) {
        let mut left = (vec!["a server does not answer".to_owned()], 0);
        within(LONG + LEASE + Duration::from_secs(4), || {
            if let (Some(keys), Some(subscriptions)) = (self.leftovers(lost_data), self.subscriptions()) {
                left = (keys, subscriptions);
            }
            left.0.is_empty() && left.1 == 0
        });
        left
    }
}

/// A server that has written down what it confirms, so that it comes back with it when it was killed.
fn steadfast(binary: &Binary) -> ServerBuilder {
    Server::builder().binary(binary).arg("appendonly", "yes").arg("appendfsync", "always")
}

/// The reply of a server, on a new connection if the one that is kept has been cut.
fn ask(node: &Server, argv: &[&str]) -> Option<Resp> {
    let reply = node.try_command(argv).or_else(|_| node.try_command(argv)).ok()?;
    (!reply.is_error()).then_some(reply)
}

/// The deadlines of the permits that are held.
const DEADLINES: &str = "{permits:0}:timeout";

/// Whether every permit has expired, by the server's clock. Permits of a killed process come back when the next caller looks at the
/// semaphore, as in Redisson. If nobody comes any more, they stay in the key of the deadlines, as the number of permits stays in its own.
/// `None` if the server does not answer.
fn nobody_has_a_permit(node: &Server) -> Option<bool> {
    let time = ask(node, &["TIME"])?;
    let seconds: u64 = time.elements().first()?.as_str()?.parse().ok()?;
    // The end of the second.
    let now = format!("({}", (seconds + 1) * 1_000);
    Some(ask(node, &["ZCOUNT", DEADLINES, &now, "+inf"])?.as_int()? == 0)
}

/// Tokens, registers of tokens, the capacity of the semaphore, and what is a bare counter.
fn stays_for_ever(key: &str) -> bool {
    let prefixes = ["redisson_lock_token:", "leasehold:1:fence:", "bare:", "latch:"];
    key == "permits:0" || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// The records of operations and of clients, the marks of the queues of fair locks, and the index of readers that were killed. All of them
/// have a time to live.
fn stays_for_a_time(key: &str) -> bool {
    let prefixes = ["leasehold:1:op:", "leasehold:1:client:", "leasehold:1:fair:", "leasehold:1:rw_readers:"];
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// The queue of a fair lock. A failover that forgets that a waiter left the queue has it in the queue again, although it has gone; the
/// entry has a time to live, and the next waiter passes it over.
fn is_of_a_queue(key: &str) -> bool {
    ["redisson_lock_queue:", "redisson_lock_timeout:"].iter().any(|prefix| key.starts_with(prefix))
}

pub(crate) fn role_of(server: &Server) -> Option<String> {
    let reply = server.try_command(&["ROLE"]).ok()?;
    reply.elements().first()?.as_str().map(str::to_owned)
}

pub(crate) fn is_replica_in_step(server: &Server) -> bool {
    let reply = server.try_command(&["ROLE"]);
    reply.is_ok_and(|reply| {
        let word = |at: usize| reply.elements().get(at).and_then(Resp::as_str);
        word(0) == Some("slave") && word(3) == Some("connected")
    })
}

/// Waits until `holds` returns true, for at most so long. Whether it did.
pub(crate) fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
