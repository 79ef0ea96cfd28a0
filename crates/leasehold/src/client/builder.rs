//! The builder of a client.

mod connecting;
mod tuning;

pub use tuning::Tuning;

use crate::client::ids::HolderId;
use crate::client::settings::{self, Settings};
use crate::error::ConnectError;
use crate::link::{AddressMap, Certificates, Credentials, LinkSettings, Provider};
use crate::lock::fair_settings::FairSettings;
use crate::telemetry;
use leasehold_core::settings::HandOver;
use std::error::Error;
use std::time::Duration;

#[cfg(feature = "embedded")]
use crate::runtime::clock::Clock;
#[cfg(feature = "embedded")]
use leasehold_embedded::ManualClock;

/// The settings of a client. The builder validates them before it sends anything.
///
/// # Examples
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn build() -> Result<(), leasehold::ConnectError> {
/// let client = leasehold::Client::builder()
///     .prefix("shop:")
///     .lease(Duration::from_secs(20))
///     .default_wait(Duration::from_secs(60))
///     .connect("redis://127.0.0.1:6379")
///     .await?;
/// # drop(client); Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    settings: Settings,
    link: LinkSettings,
    certificates: Certificates,
    provider: Option<Provider>,
    addresses: Option<AddressMap>,
    #[cfg(feature = "embedded")]
    clock: Option<Clock>,
    #[cfg(feature = "embedded")]
    seed: Option<u64>,
}

/// The Pub/Sub command that announces a release. All clients of a lock, including Redisson, must use the same command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishCommand {
    /// `SPUBLISH` on a cluster that supports it (Redis 7.0, Valkey), otherwise `PUBLISH`. This is Redisson's default.
    #[default]
    Auto,
    /// `PUBLISH`, like Redisson with `shardedSubscriptionMode: OFF`.
    Classic,
    /// `SPUBLISH`, like Redisson with `shardedSubscriptionMode: ON`.
    Sharded,
}

impl ClientBuilder {
    /// Sets what an acquire does after the server was unreachable for `unreachable_after`, for the kinds with a fallback. Default:
    /// [`Fallback::Fail`](crate::Fallback::Fail). See [`Lock::fallback`](crate::Lock::fallback).
    pub const fn fallback(mut self, fallback: leasehold_core::session::Fallback) -> Self {
        self.settings.fallback = fallback;
        self
    }

    /// Prepends `prefix` to every name, like a `NameMapper` in Redisson. Default: none.
    ///
    /// All programs that share a lock need the same prefix. The builder refuses a prefix with leading or trailing white space.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// Sets the default lease. The client renews a lease after a third of its duration. After a crash the lock stays busy for up to one lease.
    /// From 50 ms to a year. Default: 30 s, as in Redisson.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.settings.session.lease = lease;
        self
    }

    /// Sets the default wait of an acquire. Default: no limit.
    pub const fn default_wait(mut self, wait: Duration) -> Self {
        self.settings.default_wait = Some(wait);
        self
    }

    /// Sets how long a server may be unreachable before an acquire or a release fails. Default: 10 s.
    ///
    /// The time starts when the client loses its connection. After this time, acquires fail immediately. A try fails at once in every known outage.
    /// An acquire with its own [wait](crate::Acquire::wait) waits for the server during its whole wait, but at most for this time.
    ///
    /// An outage is known when the connection is lost and one reconnect has failed. A silent connection counts as lost one and a half [command
    /// timeouts](ClientBuilder::command_timeout) after a command or a waiter needs it. The reconnect takes at most two more command timeouts. The client checks an
    /// idle connection every 5 s. Until the outage is known, the time starts with the first command that fails.
    pub const fn unreachable_after(mut self, after: Duration) -> Self {
        self.settings.session.unreachable_after = after;
        self
    }

    /// Calls `provider` for the user and the password of each connection, instead of using the credentials in the URL. Passwords can
    /// rotate, and tokens of AWS IAM or Microsoft Entra ID can expire, while the client runs. If a server closes a connection at the
    /// expiry, the reconnect uses the next token. The provider must return within two [command timeouts](Self::command_timeout).
    ///
    /// After a failure of the provider the next connection attempt calls it again. The error contains the provider's message, which must
    /// not contain a secret. Sentinels get the credentials in the URL.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::{Client, Credentials};
    ///
    /// # async fn build() -> Result<(), leasehold::ConnectError> {
    /// // The platform overwrites this file when the password changes.
    /// let client = Client::builder()
    ///     .credentials(|| async {
    ///         let password = std::fs::read_to_string("/run/secrets/redis")?;
    ///         Ok(Credentials::new("locks", password.trim_end()))
    ///     })
    ///     .connect("redis://127.0.0.1:6379")
    ///     .await?;
    /// # drop(client); Ok(()) }
    /// ```
    pub fn credentials<F>(mut self, provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.provider = Some(Provider::new(provider));
        self
    }

    /// Translates the addresses that Sentinel or a cluster announces. Servers behind Docker, NAT or a proxy announce addresses that are
    /// unreachable from outside. `map` receives an announced address, such as `172.17.0.2:6379`, and returns the address to connect to, or
    /// `None` for the announced address. The addresses of the URL are not mapped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn build() -> Result<(), leasehold::ConnectError> {
    /// let client = leasehold::Client::builder()
    ///     .map_addresses(|announced| {
    ///         let (_, port) = announced.rsplit_once(':')?;
    ///         Some(format!("cluster.example:{port}"))
    ///     })
    ///     .connect("redis-cluster://cluster.example:7000")
    ///     .await?;
    /// # drop(client); Ok(()) }
    /// ```
    pub fn map_addresses(mut self, map: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.addresses = Some(AddressMap::new(map));
        self
    }

    /// Sets how long a reply may take before its connection counts as dead. Default: 1 s.
    pub const fn command_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session.command_timeout = timeout;
        self
    }

    /// Sets how long connecting may take. Default: 10 s.
    ///
    /// Until the deadline the client retries if the server is silent or loads its data, or if its name does not resolve. It also retries if the
    /// Sentinels or the cluster have no primary. Permanent errors are immediate: a closed port, a wrong password, an unknown database, a replica, or
    /// a server that is not a Sentinel or not in cluster mode. For a process that may start before its server, use [`connect_lazy`](Self::connect_lazy).
    pub const fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.link.connect_deadline = deadline;
        self
    }

    /// Sets whether the client refuses a server whose `maxmemory-policy` can evict a held lock. Default: the client only logs a warning.
    pub const fn require_noeviction(mut self, require: bool) -> Self {
        self.settings.require_noeviction = require;
        self
    }

    /// Sets whether [`durable`](crate::Acquire::durable) acquires and renewals also wait until the grant is on disk (`WAITAOF` instead of
    /// `WAIT`). Default: `false`.
    ///
    /// The primary and `at_least` replicas must have synchronized their append-only files; `at_least` may be 0, for a server without
    /// replicas. The server needs `appendonly yes` and Redis 7.2, or any Valkey. With `appendfsync everysec` an acquire takes up to a second,
    /// and a replica reports its disk once a second: set `within` above that, or use `appendfsync always` without replicas. With `appendfsync no` each durable acquire fails with
    /// [`Error::NotReplicated`](crate::Error::NotReplicated). The setting does not affect other acquires.
    ///
    /// Connecting fails with [`ConnectError::Unsuitable`](crate::ConnectError::Unsuitable) if the server lacks the command or the file. In a
    /// cluster, connecting checks only the node that identifies the cluster; any other node refuses the acquire with
    /// [`Error::Refused`](crate::Error::Refused). An in-process engine has no file, and refuses the setting.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Client, Replicas};
    /// # use std::time::Duration;
    /// let client = Client::builder().fsync(true).connect("redis://127.0.0.1:6379").await?;
    /// let on_disk = Replicas { at_least: 0, within: Duration::from_secs(2) };
    /// let guard = client.lock("ledger").acquire().durable(on_disk).await?;
    /// assert_eq!(guard.acknowledged(), Some(1)); // the primary
    /// # Ok(()) }
    /// ```
    pub const fn fsync(mut self, fsync: bool) -> Self {
        self.settings.fsync = fsync;
        self
    }

    /// Sets whether a released [`lock`](crate::Client::lock) passes to the next waiting task of this client without a command. `true`: hand over even
    /// while other clients listen. `false`: never hand over. Default: hand over only while no other client listens.
    ///
    /// A grant by hand-over costs a wake-up instead of two commands. The server keeps one hold, which the client renews as usual. Each task
    /// has its own guard with its own [`held_for`](crate::Guard::held_for), `max_hold` and loss. The tasks share only the
    /// [`holder_id`](crate::Guard::holder_id). Waiting tasks acquire the lock in the order of their arrival, and the release returns `Ok`
    /// at once. Critical sections above 10 ms gain nothing.
    ///
    /// The client releases the lock to the server 10 ms after its grant, and the reply contains the number of listeners. By default, listeners stop
    /// the hand-over. With `true` the client hands the lock over up to 128 times. It then pauses for at least a millisecond, so other clients can
    /// acquire the lock. A new waiter may wait for two such holds, 20 ms longer than with `false`. A poller, such as a spin lock or a try, may wait
    /// much longer. Processes that compete for a hot lock get uneven shares by default, and nearly equal shares with `true`. On a cluster without
    /// sharded notices the default never hands over. The server has no queue for these locks; if you need a guarantee, use a
    /// [`fair_lock`](crate::Client::fair_lock).
    ///
    /// A hand-over requires two acquires that renew the same lease, a hold with one guard, and more than a third of its lease left. The client always
    /// releases other kinds to the server. It also releases fixed leases, [`durable`](crate::Acquire::durable) acquires, a `max_hold` below the
    /// lease, and locks with [`Fallback::Local`](crate::Fallback::Local).
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use leasehold::{Client, embedded::EmbeddedServer};
    /// # let server = EmbeddedServer::new();
    /// let client = Client::builder().hand_over(true).embedded(&server)?;
    /// let guard = client.lock("stock").acquire().await?;
    /// let holder = guard.holder_id();
    /// let next = tokio::spawn(client.lock("stock").acquire().into_future());
    /// tokio::task::yield_now().await;
    /// guard.release().await?;
    /// assert_eq!(next.await??.holder_id(), holder);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn hand_over(mut self, hand_over: bool) -> Self {
        self.settings.session.hand_over = hand_over.then(HandOver::default);
        self
    }

    /// Publishes a record of this client on the server: host, process, application and uptime. [`Client::who_is`](crate::Client::who_is)
    /// uses it to identify the process of a holder. Default: no record.
    ///
    /// The key of the record is `leasehold:1:client:` followed by the [id](crate::Client::id) of the client. The client writes the record
    /// every 20 s and removes it at its end, unless it ran a job of [`Client::once`](crate::Client::once): see
    /// [`Once::mark_done`](crate::once::Once::mark_done). After a crash the record expires within a minute. The record also lists the locks that the client
    /// has held or awaited for at least a second ([`Client::locks_of`](crate::Client::locks_of),
    /// [`Client::deadlocks`](crate::Client::deadlocks)). When that list changes, the client writes the record again, at most once a second.
    /// Every user with read permission on the key can read the record.
    pub fn announce(mut self, application: impl Into<String>) -> Self {
        self.settings.announce = Some(application.into());
        self
    }

    /// Adds to the record of [`announce`](Self::announce) the holds of other clients that last until this process ends.
    /// [`Client::deadlocks`](crate::Client::deadlocks) then detects that a wait of this client prolongs those holds. `leasehold run` passes its
    /// holds in the environment variable `LEASEHOLD_HOLDERS`. Default: none.
    pub fn announce_within(mut self, holds: impl IntoIterator<Item = HolderId>) -> Self {
        self.settings.within = holds.into_iter().collect();
        self
    }

    /// Adds a note to the record of [`announce`](Self::announce): the reason for the locks of this process, such as `nightly dump`. Inspections
    /// return it as [`ClientRecord::note`](crate::inspect::ClientRecord::note). Default: no note.
    pub fn announce_note(mut self, note: impl Into<String>) -> Self {
        self.settings.note = note.into();
        self
    }

    /// Sets the timeouts of the queues of fair locks. All clients that share a fair lock must use the same settings. Default:
    /// [`FairSettings::new`].
    pub fn fair(mut self, fair: FairSettings) -> Self {
        self.settings.session.fair = fair.to_wire();
        self
    }

    /// Sets the level of the spans of acquires, releases and work under [`Guard::run`](crate::Guard::run). Default:
    /// [`SpanLevel::Debug`](crate::telemetry::SpanLevel). See [`telemetry`](crate::telemetry).
    pub const fn span_level(mut self, level: telemetry::SpanLevel) -> Self {
        self.settings.span_level = level;
        self
    }

    /// Sets whether spans include the names of their locks. Use `false` if names are secret, or if the trace store indexes every value.
    /// WARN and ERROR events always include the name. Default: `true`.
    pub const fn span_lock_names(mut self, named: bool) -> Self {
        self.settings.span_lock_names = named;
        self
    }

    /// Trusts these certificate authorities, in PEM, instead of those of the operating system. Only for `rediss://`.
    #[cfg(feature = "tls")]
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.ca = Some(pem.into());
        self
    }

    /// Presents this certificate chain, with its private key, to a server that requests a client certificate. Both are in PEM. Only for
    /// `rediss://`.
    #[cfg(feature = "tls")]
    pub fn tls_identity(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificates.client = Some((chain.into(), key.into()));
        self
    }

    /// Uses a clock that a test advances by hand. The background then needs no thread: it runs whenever the clock advances or the client is
    /// used. Only for [`ClientBuilder::embedded`], which uses the engine's clock by default. A client with a separate clock simulates a
    /// paused process while that clock does not advance. Connecting to a server with this setting fails.
    #[cfg(feature = "embedded")]
    pub fn manual_clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(Clock::Manual(clock.clone()));
        self
    }

    /// Uses tokio's clock, which a test can pause, starting at `zero`. The background is then a task of the runtime that builds the client;
    /// building the client outside a runtime panics. Only for [`ClientBuilder::embedded`], which uses the clock of an
    /// [engine on tokio's clock](crate::embedded::EmbeddedServer::paused) by default. Connecting to a server with this setting fails.
    #[cfg(feature = "embedded")]
    pub fn tokio_clock(mut self, zero: tokio::time::Instant) -> Self {
        self.clock = Some(Clock::Tokio(zero));
        self
    }

    /// Derives the client's [id](crate::Client::id) and its random pauses from a seed. With a manual clock the client then behaves
    /// identically in each run. Each client of a server needs its own seed, because the seed determines its identity. Only for
    /// [`ClientBuilder::embedded`]. Connecting to a server with this setting fails.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, embedded::{EmbeddedServer, ManualClock}};
    /// let clock = ManualClock::new();
    /// let client = |seed| {
    ///     let server = EmbeddedServer::with_clock(clock.clone());
    ///     Client::builder().manual_clock(&clock).seed(seed).embedded(&server)
    /// };
    /// assert_eq!(client(1)?.id(), client(1)?.id());
    /// assert_ne!(client(1)?.id(), client(2)?.id());
    /// # Ok::<(), leasehold::ConnectError>(())
    /// ```
    #[cfg(feature = "embedded")]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    fn check(&self) -> Result<(), ConnectError> {
        self.settings.check()?;
        let day = Duration::from_secs(24 * 60 * 60);
        settings::within("connect deadline", self.link.connect_deadline, Duration::from_millis(10), day)?;
        Ok(())
    }
}
