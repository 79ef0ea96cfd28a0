//! The fixture of a test: clients with settings, names that no other test uses, and a second look at the server.

use super::engine::{Backend, Engine};
use super::{secs, until};
use leasehold::embedded::EmbeddedServer;
use leasehold::{Client, ClientBuilder, ClientStats, ConnectError, Tuning};
use leasehold_core::name::LockName;
use leasehold_core::script;
use leasehold_test_support::{Proxy, Resp, Server, Shape};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One test's view of its engine.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) backend: Backend,
    /// The part between the clients and a server, if the test wants to break it.
    pub(crate) proxy: Option<Proxy>,
}

impl World {
    /// On the server that the tests of the engine share.
    pub(crate) fn on(engine: Engine) -> Self {
        Self { engine, backend: engine.shared(), proxy: None }
    }

    /// On a server of its own: for what counts everything, or breaks it.
    pub(crate) fn own(self) -> Self {
        Self { backend: self.engine.own(), ..self }
    }

    /// On a server of its own, which its clients reach through a proxy. A cluster has none: its nodes name themselves.
    pub(crate) fn proxied(self) -> Self {
        let world = self.own();
        let proxy = match &world.backend {
            Backend::Server(server) => Some(Proxy::to(server)),
            Backend::Embedded(_) => None,
            // A node names itself, so a client of the service would go past the proxy.
            Backend::Service(service) if service.profile().shape != Shape::OneNode => {
                Some(Proxy::start(service.addr()))
            }
            Backend::Cluster(_) | Backend::Service(_) => panic!("a cluster cannot be reached through a proxy"),
        };
        Self { proxy, ..world }
    }

    /// On a server of its own, of which can be recorded what is sent to it.
    pub(crate) fn recordable(self) -> Self {
        if self.engine == Engine::Cluster { self.own() } else { self.proxied() }
    }

    /// A client with the settings that a test starts from.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(|builder| builder).await
    }

    /// A client with settings.
    pub(crate) async fn client_with(&self, settings: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        self.try_connect(settings).await.expect("a client")
    }

    /// A client with settings, if there can be one.
    pub(crate) async fn try_connect(
        &self,
        settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client, ConnectError> {
        // Where every reply comes, a machine that is held up loses none.
        let builder =
            Client::builder().command_timeout(secs(10)).tuning(Tuning::new().batch_calls(self.engine.batches()));
        let builder = settings(builder);
        match self.url() {
            Some(url) => builder.connect(&url).await,
            None => builder.embedded(self.embedded().expect("an engine")),
        }
    }

    /// The address to which clients connect; `None` for the embedded engine.
    pub(crate) fn url(&self) -> Option<String> {
        match (&self.backend, &self.proxy) {
            (_, Some(proxy)) => Some(proxy.url()),
            (Backend::Server(server), _) => Some(server.url()),
            (Backend::Cluster(cluster), _) => Some(cluster.url()),
            (Backend::Service(service), _) => Some(service.url()),
            (Backend::Embedded(_), _) => None,
        }
    }

    pub(crate) fn embedded(&self) -> Option<&EmbeddedServer> {
        match &self.backend {
            Backend::Embedded(server) => Some(server),
            _ => None,
        }
    }

    /// A name that no other test uses.
    pub(crate) fn name(&self, what: &str) -> String {
        static LAST: AtomicU64 = AtomicU64::new(0);
        format!("suite:{}:{what}", LAST.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs a command where the lock `name` lives.
    #[track_caller]
    pub(crate) fn command(&self, name: &str, words: &[&str]) -> Resp {
        self.backend.command(name, words)
    }

    /// The fields of a lock's hash, with their hold counts.
    #[track_caller]
    pub(crate) fn holds(&self, name: &str) -> Vec<(String, u32)> {
        let reply = self.command(name, &["HGETALL", name]);
        let texts: Vec<String> = match &reply {
            Resp::Map(pairs) => pairs.iter().flat_map(|(field, count)| [text(field), text(count)]).collect(),
            reply => reply.elements().iter().map(text).collect(),
        };
        let pairs = texts.chunks_exact(2);
        pairs.map(|pair| (pair[0].clone(), pair[1].parse().expect("a hold count"))).collect()
    }

    /// The hold count that the server has for a lock; 0 if it is free.
    #[track_caller]
    pub(crate) fn count(&self, name: &str) -> u32 {
        let holds = self.holds(name);
        assert!(holds.len() <= 1, "{name} has two holders: {holds:?}");
        holds.first().map_or(0, |(_, count)| *count)
    }

    /// The lease that a lock has left on the server; `None` where there is no such key, or it would never expire.
    #[track_caller]
    pub(crate) fn lease(&self, name: &str) -> Option<Duration> {
        let left = self.command(name, &["PTTL", name]).as_int().expect("an integer");
        u64::try_from(left).ok().map(Duration::from_millis)
    }

    #[track_caller]
    pub(crate) fn exists(&self, name: &str) -> bool {
        self.command(name, &["EXISTS", name]).as_int() == Some(1)
    }

    #[track_caller]
    pub(crate) fn delete(&self, name: &str) {
        let _ = self.command(name, &["DEL", name]);
    }

    /// How many clients listen to a lock's channel.
    #[track_caller]
    pub(crate) fn subscribers(&self, name: &str) -> usize {
        self.listeners(name, &channel(name))
    }

    /// How many clients listen to a channel in the slot of a lock.
    #[track_caller]
    pub(crate) fn listeners(&self, name: &str, channel: &str) -> usize {
        match &self.backend {
            Backend::Embedded(server) => server.subscribers(channel.as_bytes()),
            other => {
                let sharded = self.command(name, &["PUBSUB", "SHARDNUMSUB", channel]);
                if other.is_cluster() && !sharded.is_error() {
                    return number(&sharded);
                }
                // Without sharded notices, a client listens on any node.
                other.servers().iter().map(|server| number(&server.command(&["PUBSUB", "NUMSUB", channel]))).sum()
            }
        }
    }

    /// How many calls of scripts the server has seen, over all its clients. Only a server of the test's own tells.
    #[track_caller]
    pub(crate) fn calls(&self) -> u64 {
        match &self.backend {
            Backend::Embedded(server) => script::ALL.iter().map(|script| server.calls(script.name())).sum(),
            other => {
                let calls = |server: &Server| server.commandstats("evalsha") + server.commandstats("eval");
                other.servers().iter().map(calls).sum()
            }
        }
    }

    /// Every key on the server.
    #[track_caller]
    pub(crate) fn keys(&self) -> Vec<String> {
        match &self.backend {
            Backend::Embedded(server) => {
                server.keys().iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
            }
            other => {
                let keys = |server: &Server| server.command(&["KEYS", "*"]).elements().iter().map(text).collect();
                other.servers().iter().flat_map::<Vec<String>, _>(keys).collect()
            }
        }
    }

    /// The state under the keys of these names, but for times to live and scores.
    #[track_caller]
    pub(crate) fn contents(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, Resp)> {
        let mut keys = self.keys();
        keys.retain(|key| wanted(key));
        keys.sort();
        let read = |key: String| {
            let reads: [&[&str]; 4] =
                [&["GET", &key], &["HGETALL", &key], &["LRANGE", &key, "0", "-1"], &["ZRANGE", &key, "0", "-1"]];
            let read = reads.iter().map(|words| self.command(&key, words)).find(|reply| !reply.is_error());
            (key, read.expect("a key of a known type"))
        };
        keys.into_iter().map(read).collect()
    }

    /// Every channel with a listener.
    #[track_caller]
    pub(crate) fn subscriptions(&self) -> usize {
        match &self.backend {
            Backend::Embedded(server) => server.subscriptions(),
            other => {
                let count = |server: &Server| {
                    let sharded = server.command(&["PUBSUB", "SHARDCHANNELS", "*"]);
                    server.command(&["PUBSUB", "CHANNELS", "*"]).elements().len() + sharded.elements().len()
                };
                other.servers().iter().map(count).sum()
            }
        }
    }

    /// Waits until nothing is left of a lock: no key, no listener.
    pub(crate) async fn gone(&self, name: &str) {
        until("the lock's key is gone", || !self.exists(name)).await;
        until("nobody listens to the lock's channel", || self.subscribers(name) == 0).await;
    }
}

/// Waits until a client has nothing open: no guard, no waiter, no renewal, no subscription, no timer.
#[track_caller]
pub(crate) fn idle(client: &Client) -> impl Future<Output = ()> {
    let client = client.clone();
    until("the client has nothing open", move || client.stats() == ClientStats::default())
}

/// The channel of a lock.
pub(crate) fn channel(name: &str) -> String {
    let name = LockName::new("", name).expect("a name");
    String::from_utf8(name.channel().to_vec()).expect("UTF-8")
}

fn text(reply: &Resp) -> String {
    match reply {
        Resp::Int(int) => int.to_string(),
        other => other.as_str().expect("a text").to_owned(),
    }
}

/// The number in the reply to `PUBSUB NUMSUB` of one channel.
fn number(reply: &Resp) -> usize {
    let number = reply.elements().get(1).and_then(Resp::as_int).expect("a number of subscribers");
    usize::try_from(number).expect("a number of subscribers")
}
