//! The place at which both sides meet: a single server, or a cluster with sharded notices.

use crate::agent::address;
use leasehold_test_support::{Binary, Cluster, Resp, Server};

/// Servers of this run's own.
pub(crate) enum Place {
    /// One server. Redisson publishes by `PUBLISH` there.
    Standalone(Box<Server>),
    /// Three primaries. Both sides find out by themselves that notices can be sharded.
    Cluster(Cluster),
}

/// The name of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PlaceName {
    Standalone,
    Cluster,
}

impl PlaceName {
    pub(crate) const ALL: [Self; 2] = [Self::Standalone, Self::Cluster];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Cluster => "cluster",
        }
    }
}

impl Place {
    pub(crate) fn start(name: PlaceName) -> Self {
        let binary = Binary::with_sharded_notices().unwrap_or_else(|missing| panic!("{missing}"));
        match name {
            PlaceName::Standalone => Self::Standalone(Box::new(Server::builder().binary(&binary).start())),
            PlaceName::Cluster => Self::Cluster(Cluster::builder().binary(&binary).start()),
        }
    }

    /// The address at which our client finds it.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Standalone(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// The address at which Redisson finds it: the arguments of the agent's `connect`.
    pub(crate) fn target(&self) -> [String; 2] {
        match self {
            Self::Standalone(server) => ["single".to_owned(), address(server)],
            Self::Cluster(cluster) => {
                ["cluster".to_owned(), cluster.nodes().iter().map(address).collect::<Vec<_>>().join(",")]
            }
        }
    }

    /// Sends a command whose first argument is a key to the node that has it.
    pub(crate) fn command(&self, argv: &[&str]) -> Resp {
        self.node(argv[1]).command(argv)
    }

    /// How many connections listen to a channel.
    pub(crate) fn listeners(&self, channel: &str) -> i64 {
        let how = match self {
            Self::Standalone(_) => "NUMSUB",
            Self::Cluster(_) => "SHARDNUMSUB",
        };
        let reply = self.node(channel).command(&["PUBSUB", how, channel]);
        reply.elements().get(1).and_then(Resp::as_int).unwrap_or_else(|| panic!("{reply:?}"))
    }

    /// Every node.
    pub(crate) fn nodes(&self) -> &[Server] {
        match self {
            Self::Standalone(server) => std::slice::from_ref(&**server),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// The node that has a key, or a channel.
    pub(crate) fn node(&self, key: &str) -> &Server {
        match self {
            Self::Standalone(server) => server,
            Self::Cluster(cluster) => cluster.node_of(key),
        }
    }
}
