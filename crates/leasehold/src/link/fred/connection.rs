//! One connection, from its making to its end.
//!
//! A [`Connection`] is a client of fred that never reconnects: it has no reconnect policy, so its router ends with its first socket.
//! Another connection follows it, made by the [`connection_slot`](super::connection_slot). So a connection has *one* socket and *one* id on
//! *one* server process, and these hold:
//!
//! 1. A command that was sent on a connection is written to its socket, in the order in which it was queued, or never.
//! 2. When a command that was queued later is answered, all that was queued earlier has been applied, refused, or skipped.
//! 3. When the server says that the connection's id is dead, nothing of this connection can be applied from then on: not
//!    what a proxy still holds, not what waits in the socket, and not what waits in the router's queue, because the router
//!    has no other socket to write it to, whether it is running, starved, or gone.
//!
//! A client of fred with a reconnect policy has none of them. After a reconnect it writes what was queued before to the new
//! connection; `force_reconnection()` sends again what was under way, even with `fail_fast`; and its router, when it ended
//! once, leaves commands waiting for ever.

use super::address;
use super::error::{self, ConnectError};
use super::settings::LinkSettings;
use super::target::{self, ServerTarget};
use super::{frame, profile};
use fred::clients::Client;
use fred::interfaces::{ClientInterface, ClientLike, EventInterface, FredResult, Resp3Frame};
use fred::types::config::{Options, ServerConfig};
use fred::types::{ClusterHash, CustomCommand, Message, Value};
use futures_util::future::BoxFuture;
use leasehold_core::link::LinkError;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

/// The task that reads and writes for a connection.
pub(super) type Router = JoinHandle<FredResult<()>>;

/// The description of a server in `INFO server`, as far as the user may ask.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) run_id: Option<String>,
    pub(super) flavor: String,
    pub(super) version: String,
    pub(super) is_cluster: bool,
    /// It is a replica that refuses writes.
    pub(super) is_read_only: bool,
    /// It is a replica that takes writes beside its primary.
    pub(super) is_active_replica: bool,
    /// It is KeyDB, which may be set up so.
    pub(super) is_keydb: bool,
}

/// One connection.
pub(super) struct Connection {
    /// The connection's id on the server; none where the user may not ask for it.
    pub(super) id: Option<i64>,
    /// Which server it came to, which with Sentinel is not known before.
    pub(super) server: String,
    pub(super) about: About,
    pub(super) began: Instant,
    pub(super) client: Client,
    messages: Mutex<Option<broadcast::Receiver<Message>>>,
    router: AbortHandle,
    ended: CancellationToken,
    /// The same, where it is only asked for: a look at the token takes a lock.
    over: AtomicBool,
    ended_at: OnceLock<Instant>,
    /// The server said that the connection is dead.
    confirmed_dead: AtomicBool,
    /// The server said that we may not kill it.
    kill_forbidden: AtomicBool,
    /// The scripts that the server was given by this connection, by their hash.
    scripts: Mutex<Vec<&'static str>>,
}

impl Connection {
    /// Connects once, on the runtime in whose context this is polled: its router lives there.
    pub(super) async fn connect(
        target: &ServerTarget,
        server: ServerConfig,
        settings: &LinkSettings,
        capacity: usize,
    ) -> Result<(Self, Router), ConnectError> {
        let label = target::label(&server);
        let client = Client::new(
            target.config(server),
            Some(profile::performance(capacity)),
            Some(profile::connection(settings)),
            None,
        );
        let messages = client.message_rx();
        let router = connected(&client, settings.attempt().saturating_mul(2))
            .await
            .map_err(|error| ConnectError::of_fred(&label, target.secure(), &error))?;
        let guard = AbortOnDrop(Some(router));
        let ids = client.connection_ids();
        let (server, id) = ids
            .into_iter()
            .next()
            .map_or_else(|| (label, None), |(server, id)| (address::address_of(&server.host, server.port), Some(id)));
        let abort = guard.abort_handle();
        let mut connection = Self {
            id,
            server,
            about: About::default(),
            began: Instant::now(),
            client,
            messages: Mutex::new(Some(messages)),
            router: abort,
            ended: CancellationToken::new(),
            over: AtomicBool::new(false),
            ended_at: OnceLock::new(),
            confirmed_dead: AtomicBool::new(false),
            kill_forbidden: AtomicBool::new(false),
            scripts: Mutex::default(),
        };
        connection.about = connection.introduce(settings.attempt()).await?;
        Ok((connection, guard.disarm()))
    }

    /// Sends a command once and waits for the frame that answers it, or for the end of the connection. With a `timeout` it
    /// must be polled where tokio's timers are at hand; fred skips a command whose time ran out before it was written.
    pub(super) async fn send(
        &self,
        command: &'static str,
        args: Vec<Value>,
        timeout: Option<Duration>,
    ) -> Result<Resp3Frame, LinkError> {
        if self.has_ended() {
            return Err(LinkError::NotSent(format!("the connection to {} was lost", self.server)));
        }
        let options = Options { max_attempts: Some(1), fail_fast: true, timeout, ..Options::default() };
        let client = self.client.with_options(&options);
        let command = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
        // fred's future has many futures within it. Boxed, it keeps callers' own futures small, and far from the compiler's
        // limit for types within types.
        let sent: BoxFuture<'_, FredResult<Resp3Frame>> = Box::pin(client.custom_raw(command, args));
        tokio::select! {
            biased;
            answer = sent => answer.map_err(|error| error::of_fred(&error)),
            () = self.ended.cancelled() => {
                Err(LinkError::Unknown(format!("the connection to {} was lost", self.server)))
            }
        }
    }

    /// Whether the connection is gone, or given up. Nothing begins on it any more.
    pub(super) fn has_ended(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Waits for the end of the connection.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Gives the connection up: calls that wait on it end, with an unknown outcome. It may be called from any thread.
    pub(super) fn end(&self) {
        self.ended_at.get_or_init(Instant::now);
        self.over.store(true, Ordering::Release);
        self.ended.cancel();
        self.router.abort();
    }

    /// When the connection ended, as far as it was noticed.
    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.ended_at.get().copied()
    }

    /// Whether both are connections to one process; `None` where a server does not tell its run id.
    pub(super) fn is_of_process(&self, other: &Self) -> Option<bool> {
        Some(self.about.run_id.as_ref()? == other.about.run_id.as_ref()?)
    }

    /// The server said that this connection is dead.
    pub(super) fn confirm_dead(&self) {
        self.confirmed_dead.store(true, Ordering::Release);
    }

    /// Whether the server said that this connection is dead.
    pub(super) fn is_confirmed_dead(&self) -> bool {
        self.confirmed_dead.load(Ordering::Acquire)
    }

    /// The server refused to kill this connection.
    pub(super) fn forbid_kill(&self) {
        self.kill_forbidden.store(true, Ordering::Release);
    }

    /// Whether the server refused to kill this connection.
    pub(super) fn is_kill_forbidden(&self) -> bool {
        self.kill_forbidden.load(Ordering::Acquire)
    }

    /// Whether the server was given a script by this connection. It may have forgotten it since.
    pub(super) fn has_given(&self, sha1: &'static str) -> bool {
        self.scripts.lock().contains(&sha1)
    }

    /// The server was given a script by this connection.
    pub(super) fn note_given(&self, sha1: &'static str) {
        self.scripts.lock().push(sha1);
    }

    /// Whether the server was given any script by this connection.
    pub(super) fn has_given_any(&self) -> bool {
        !self.scripts.lock().is_empty()
    }

    /// Takes the end from which messages come. There is one.
    pub(super) fn take_messages(&self) -> Option<broadcast::Receiver<Message>> {
        self.messages.lock().take()
    }

    /// Asks whether the connection answers, and who the server is, in one round trip.
    async fn introduce(&self, patience: Duration) -> Result<About, ConnectError> {
        let ping = self.send("PING", Vec::new(), Some(patience));
        let info = self.send("INFO", vec![Value::from_static_str("server")], Some(patience));
        let role = self.send("INFO", vec![Value::from_static_str("replication")], Some(patience));
        let (ping, info, role) = futures_util::join!(ping, info, role);
        let lost = |error| ConnectError::of_loss(&self.server, error);
        // A server that loads its data answers INFO, and refuses PING. A user who may not PING may still call scripts.
        if let Some(refusal) = frame::refusal(&ping.map_err(lost)?)
            && refusal.code() != "NOPERM"
        {
            return Err(ConnectError::of_refusal(&self.server, &refusal));
        }
        let mut about = frame::text(&info.map_err(lost)?).map(About::parse).unwrap_or_default();
        let role = role.map_err(lost)?;
        about.is_read_only = frame::text(&role).is_some_and(is_read_only);
        about.is_active_replica = frame::text(&role).is_some_and(is_active_replica);
        Ok(about)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.router.abort();
    }
}

impl About {
    fn parse(info: &str) -> Self {
        let field = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
        };
        let valkey = field("valkey_version");
        Self {
            run_id: field("run_id"),
            flavor: field("server_name")
                .unwrap_or_else(|| if valkey.is_some() { "valkey" } else { "redis" }.to_owned()),
            version: valkey.or_else(|| field("redis_version")).unwrap_or_default(),
            is_read_only: false,
            is_active_replica: false,
            is_keydb: field("executable").is_some_and(|program| program.contains("keydb")),
            is_cluster: field("redis_mode").or_else(|| field("server_mode")).is_some_and(|mode| mode == "cluster"),
        }
    }
}

/// Whether `INFO replication` is that of a replica which refuses writes.
fn is_read_only(info: &str) -> bool {
    let has = |line: &str| info.lines().any(|other| other.trim() == line);
    has("role:slave") && has("slave_read_only:1")
}

/// Whether `INFO replication` is that of a server of KeyDB with `active-replica`, which takes writes beside its primary.
fn is_active_replica(info: &str) -> bool {
    info.lines().any(|line| line.trim() == "role:active-replica")
}

/// Starts the router and waits until it is connected, or has failed. `Client::init` cannot be given a limit: dropped, it
/// leaves its router behind.
async fn connected(client: &Client, limit: Duration) -> FredResult<Router> {
    let mut connect = pin!(client.wait_for_connect());
    // The first poll subscribes to the news, which must be done before there can be any.
    std::future::poll_fn(|cx| {
        let _ = connect.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
    let mut guard = AbortOnDrop(Some(client.connect()));
    let failed = |why: &'static str| fred::error::Error::new(fred::error::ErrorKind::IO, why);
    let Some(router) = guard.0.as_mut() else { return Err(failed("no router")) };
    tokio::select! {
        biased;
        news = connect => news?,
        end = router => match end {
            Ok(Ok(())) => return Err(failed("the connection was closed at once")),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(failed("the runtime is shutting down")),
        },
        () = tokio::time::sleep(limit) => {
            return Err(fred::error::Error::new(fred::error::ErrorKind::Timeout, "no answer in time"));
        }
    }
    Ok(guard.disarm())
}

struct AbortOnDrop(Option<Router>);

impl AbortOnDrop {
    fn abort_handle(&self) -> AbortHandle {
        self.0.as_ref().expect("the router is taken at the end only").abort_handle()
    }

    fn disarm(mut self) -> Router {
        self.0.take().expect("the router is taken once")
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(router) = &self.0 {
            router.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_replica_is_not_read_only() {
        assert!(is_read_only("# Replication\r\nrole:slave\r\nslave_read_only:1\r\n"));
        assert!(!is_read_only("# Replication\r\nrole:slave\r\nslave_read_only:0\r\n"));
        assert!(!is_read_only("# Replication\r\nrole:master\r\n"));
    }

    #[test]
    fn replica_that_takes_writes_beside_its_primary_is_known() {
        assert!(is_active_replica("# Replication\r\nrole:active-replica\r\nmaster_host:b\r\n"));
        assert!(!is_active_replica("# Replication\r\nrole:slave\r\nslave_read_only:0\r\n"));
        assert!(About::parse("redis_version:6.3.4\r\nexecutable:/usr/bin/keydb-server\r\n").is_keydb);
        assert!(!About::parse("redis_version:7.0.15\r\nexecutable:/usr/bin/redis-server\r\n").is_keydb);
    }

    #[test]
    fn servers_are_told_apart() {
        let redis = About::parse("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:abc\r\n");
        assert_eq!((redis.flavor.as_str(), redis.version.as_str(), redis.is_cluster), ("redis", "7.0.15", false));
        assert_eq!(redis.run_id.as_deref(), Some("abc"));
        let info = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:cluster\r\n";
        let valkey = About::parse(info);
        assert_eq!((valkey.flavor.as_str(), valkey.version.as_str(), valkey.is_cluster), ("valkey", "9.1.2", true));
    }
}
