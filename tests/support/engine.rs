//! The engines that the suite runs on.

use leasehold_core::name::slot;
use leasehold_core::reply::Reply;
use leasehold_test_support::{Binary, Cluster, Profile, Resp, Server, Service, Shape, binaries};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::embedded::EmbeddedServer;

/// The engine on which a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The engine inside the process.
    Embedded,
    /// The same, where replies take time.
    Slow,
    /// The newest Redis there is.
    Redis,
    /// The oldest Redis there is.
    OldestRedis,
    /// The newest Valkey there is.
    Valkey,
    /// A cluster of three nodes, of the newest server there is.
    Cluster,
    /// The imitation of a service that `LEASEHOLD_SERVICE` names, of the newest server there is.
    Service,
}

/// The variable that names the service.
const SERVICE: &str = "LEASEHOLD_SERVICE";

/// How long a reply takes on the slow engine: as from another rack, and long beside what a client does.
const ROUND_TRIP: Duration = Duration::from_millis(5);

/// A server of an engine.
#[derive(Clone)]
pub(crate) enum Backend {
    Embedded(EmbeddedServer),
    Server(Arc<Server>),
    Cluster(Arc<Cluster>),
    Service(Arc<Service>),
}

impl Engine {
    /// Whether it is the embedded engine, slow or not.
    pub(crate) const fn is_inside(self) -> bool {
        matches!(self, Self::Embedded | Self::Slow)
    }

    /// How long replies take by themselves.
    pub(crate) const fn round_trip(self) -> Duration {
        match self {
            Self::Slow => ROUND_TRIP,
            _ => Duration::ZERO,
        }
    }

    /// The program of the engine's server. A missing one is a failure, whose text names the command that gets one.
    pub(crate) fn binary(self) -> Binary {
        match self {
            Self::Embedded | Self::Slow => unreachable!("the embedded engine has no program"),
            Self::Redis => Binary::redis().expect("a Redis server"),
            Self::Valkey => Binary::valkey().expect("a Valkey server"),
            Self::Cluster => Binary::any().expect("a server that can be in a cluster"),
            Self::Service => Binary::any().expect("a server"),
            Self::OldestRedis => {
                let newest = Self::Redis.binary();
                binaries().into_iter().find(|binary| binary.flavor == newest.flavor).unwrap_or(newest)
            }
        }
    }

    /// Whether clients send calls in batches, if a test does not say it: so every test of servers runs with batches and without.
    pub(crate) const fn batches(self) -> bool {
        matches!(self, Self::Valkey | Self::OldestRedis | Self::Service)
    }

    /// A server that no other test uses.
    pub(crate) fn own(self) -> Backend {
        if self.is_inside() {
            let server = EmbeddedServer::new();
            server.set_round_trip(self.round_trip());
            return Backend::Embedded(server);
        }
        let binary = self.binary();
        // Shown where a test fails.
        eprintln!("{self:?} is {binary}");
        match self {
            Self::Cluster => Backend::Cluster(Arc::new(Cluster::builder().binary(&binary).start())),
            Self::Service => {
                let name = std::env::var(SERVICE).expect("LEASEHOLD_SERVICE, as `cargo xtask services` sets it");
                let profile = Profile::of(&name).expect("LEASEHOLD_SERVICE names a profile");
                Backend::Service(Arc::new(Service::start(profile, &binary)))
            }
            _ => Backend::Server(Arc::new(Server::builder().binary(&binary).start())),
        }
    }

    /// The server that all tests of the engine share. It dies with the process.
    pub(crate) fn shared(self) -> Backend {
        static SHARED: [OnceLock<Backend>; 7] = [const { OnceLock::new() }; 7];
        SHARED[self as usize].get_or_init(|| self.own()).clone()
    }
}

impl Backend {
    /// Runs a command where `key` lives, past every client and proxy.
    #[track_caller]
    pub(crate) fn command(&self, key: &str, words: &[&str]) -> Resp {
        match self {
            Self::Embedded(server) => {
                let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                server.command(&words).map_or_else(|error| Resp::Error(error.text().to_owned()), resp)
            }
            Self::Server(server) => server.command(words),
            Self::Cluster(cluster) => {
                cluster.owner_of(slot(key.as_bytes())).expect("an owner of the slot").command(words)
            }
            Self::Service(service) => service.server().command(words),
        }
    }

    /// Whether clients reach it by the URL of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        match self {
            Self::Embedded(_) | Self::Server(_) => false,
            Self::Cluster(_) => true,
            Self::Service(service) => service.profile().shape == Shape::OneNode,
        }
    }

    /// The servers, where there are any.
    pub(crate) fn servers(&self) -> &[Server] {
        match self {
            Self::Embedded(_) => &[],
            Self::Server(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => cluster.nodes(),
            Self::Service(service) => std::slice::from_ref(service.server()),
        }
    }
}

fn resp(reply: Reply) -> Resp {
    match reply {
        Reply::Int(int) => Resp::Int(int),
        Reply::Bulk(bytes) => Resp::Bulk(bytes.to_vec()),
        Reply::Array(parts) => Resp::Array(parts.into_iter().map(resp).collect()),
        _ => Resp::Nil,
    }
}
