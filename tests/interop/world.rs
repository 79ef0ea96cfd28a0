//! The world of one case: a place, both sides, and a name of its own.

use crate::agent::{Actor, Jvm};
use crate::child::Child;
use crate::kind::{Kind, RustLock};
use crate::place::{Place, PlaceName};
use leasehold::{Client, ClientBuilder, Tuning};
use leasehold_test_support::{Connection, Resp};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

/// The lease of our side, which is that of Redisson's watchdog in this run.
pub(crate) const LEASE: Duration = crate::agent::WATCHDOG;

/// Far longer than any case: a waiter for the end of such a lease fails.
pub(crate) const NEVER: Duration = Duration::from_secs(120);

/// Room for a busy machine, wherever a case measures time.
pub(crate) const SLACK: Duration = Duration::from_secs(3);

/// The time that a waiter needs to fall asleep.
const SETTLING: Duration = Duration::from_millis(40);

/// The part that the cases of a place share.
pub(crate) struct Shared {
    pub(crate) name: PlaceName,
    pub(crate) place: Place,
    pub(crate) rust: Client,
    pub(crate) jvm: Arc<Jvm>,
    /// The UUID of the instance of Redisson that all cases share.
    pub(crate) uuid: String,
    /// How many processes may be starting at once: each needs a processor for a second.
    pub(crate) starting: Arc<Semaphore>,
}

/// The world of a case.
pub(crate) struct World {
    pub(crate) shared: Arc<Shared>,
    /// The client of our side.
    pub(crate) rust: Client,
    /// A name that no other case uses.
    pub(crate) name: String,
    pub(crate) note: Arc<Mutex<String>>,
}

/// The settings of our clients. The JVMs' watchdog is told, because its renewals cut the leases of our readers.
pub(crate) fn settings() -> ClientBuilder {
    Client::builder().lease(LEASE).tuning(Tuning::new().jvm_watchdog(crate::agent::WATCHDOG))
}

impl World {
    /// A thread of the JVM that all cases of this place share.
    pub(crate) fn actor(&self, who: &str) -> Actor {
        self.shared.jvm.actor(self.shared.name.word(), &format!("{}/{who}", self.name))
    }

    /// Another instance of Redisson in the same JVM, with settings of its own.
    pub(crate) async fn instance(&self, settings: &[&str]) -> Actor {
        let client = format!("{}/own", self.name);
        let target = self.shared.place.target();
        self.shared.jvm.connect(&client, &[&target[0], &target[1]], settings).await;
        self.shared.jvm.actor(&client, &client)
    }

    /// A JVM of this case's own, which can be killed, and a thread in it.
    pub(crate) async fn mortal(&self) -> (Arc<Jvm>, Actor) {
        let turn = self.shared.starting.acquire().await.expect("a turn");
        let jvm = Jvm::start();
        let target = self.shared.place.target();
        jvm.connect("mortal", &[&target[0], &target[1]], &[]).await;
        drop(turn);
        let actor = jvm.actor("mortal", &format!("{}/mortal", self.name));
        (jvm, actor)
    }

    /// Another process of our side, which can be killed.
    pub(crate) async fn child(&self) -> Child {
        Child::start(&self.shared.place.url()).await
    }

    /// The lock of this case, on our side.
    pub(crate) fn lock(&self, kind: Kind) -> Box<dyn RustLock> {
        kind.of(&self.rust, &self.name)
    }

    /// The lock of this case, as the agent names it.
    pub(crate) fn object(&self, kind: Kind) -> String {
        kind.object(&self.name)
    }

    /// The holder name of a thread of the shared JVM.
    pub(crate) async fn holder_id(&self, actor: &Actor) -> String {
        format!("{}:{}", self.shared.uuid, actor.ask("thread", &[]).await)
    }

    /// Another client of our side, with settings of its own.
    pub(crate) async fn client(&self, settings: ClientBuilder) -> Client {
        settings.connect(&self.shared.place.url()).await.expect("a client")
    }

    /// Asks the server that has the key, which is the first argument.
    pub(crate) fn command(&self, argv: &[&str]) -> Resp {
        self.shared.place.command(argv)
    }

    /// The fields of a hash, with their values, in the order of their names.
    pub(crate) fn fields(&self, key: &str) -> Vec<(String, String)> {
        let reply = self.command(&["HGETALL", key]);
        let text = |resp: &Resp| resp.as_str().expect("a text").to_owned();
        let mut fields: Vec<_> = reply.elements().chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
        fields.sort();
        fields
    }

    /// The holder of the lock of this case, and its count, as the server has them.
    pub(crate) fn holder(&self) -> Option<(String, String)> {
        let holds: Vec<_> = self.fields(&self.name).into_iter().filter(|(field, _)| field != "mode").collect();
        assert!(holds.len() <= 1, "one holder at a time, not {holds:?}");
        holds.into_iter().next().map(|(field, count)| (field.trim_end_matches(":write").to_owned(), count))
    }

    /// The rest of a key's life; zero if there is none.
    pub(crate) fn left(&self, key: &str) -> Duration {
        let left = self.command(&["PTTL", key]).as_int().expect("a number");
        Duration::from_millis(left.try_into().unwrap_or_default())
    }

    /// Waits until so many wait for the lock of this case: clients, or in the queue of a fair lock owners.
    pub(crate) async fn until_waiting(&self, kind: Kind, waiters: i64) {
        match kind {
            Kind::Spin => pass(Duration::from_millis(100)).await,
            Kind::Fair => {
                let queue = Kind::queue(&self.name);
                let length = || self.command(&["LLEN", &queue]).as_int();
                until(&format!("{waiters} are in {queue}"), || length() == Some(waiters)).await;
                pass(SETTLING).await;
            }
            _ => self.until_listening(&kind.channel(&self.name), waiters).await,
        }
    }

    /// Waits until so many clients listen to a channel.
    pub(crate) async fn until_listening(&self, channel: &str, clients: i64) {
        until(&format!("{clients} listen to {channel}"), || self.shared.place.listeners(channel) == clients).await;
        // A waiter tries once more when it listens. The case holds either way; but a waiter that sleeps is what it is about.
        pass(SETTLING).await;
    }

    /// Shows figures behind the line of this case.
    pub(crate) fn note(&self, note: String) {
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }
}

/// Listens to a channel, by a connection of its own.
pub(crate) struct Ear {
    connection: Connection,
    channel: String,
}

/// A message that no lock ever sends.
const END: &str = "7777";

impl Ear {
    /// Listens from here on.
    pub(crate) fn open(world: &World, channel: &str) -> Self {
        let mut connection = world.shared.place.node(channel).connect().expect("a connection");
        let sharded = world.shared.name == PlaceName::Cluster;
        let reply = connection.command(&[if sharded { "SSUBSCRIBE" } else { "SUBSCRIBE" }, channel]);
        let reply = reply.expect("an answer");
        assert!(!reply.is_error(), "{reply:?}");
        Self { connection, channel: channel.to_owned() }
    }

    /// The messages since it was asked last. A word of our own marks the end, so that nothing is waited for.
    pub(crate) fn heard(&mut self, world: &World) -> Vec<String> {
        let publish = if world.shared.name == PlaceName::Cluster { "SPUBLISH" } else { "PUBLISH" };
        world.shared.place.node(&self.channel).command(&[publish, &self.channel, END]);
        let mut heard = Vec::new();
        loop {
            let message = self.connection.receive().expect("a message");
            let payload = message.elements()[2].as_str().expect("a text").to_owned();
            if payload == END {
                return heard;
            }
            heard.push(payload);
        }
    }
}

/// Waits until `holds` returns true.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "waited 20 s in vain until {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Lets that much time pass, which is the condition under test.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The result of `work`, and how long it took.
pub(crate) async fn timed<T>(work: impl IntoFuture<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    let value = work.await;
    (value, began.elapsed())
}

/// Microseconds of the machine's clock, which the agent knows too.
pub(crate) fn clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    now.as_micros().try_into().expect("a time before the year 586 000")
}

/// The awaited event came soon after that moment, and not when a lease ended.
#[track_caller]
pub(crate) fn soon(since: u64) {
    let waited = Duration::from_micros(clock().saturating_sub(since));
    assert!(waited <= SLACK, "{waited:?}");
}
