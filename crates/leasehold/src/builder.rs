//! Building a client: settings, then a server.

mod connecting;

use crate::clock::Clock;
use crate::error::ConnectError;
use crate::fair_settings::FairSettings;
use crate::link::fred::Certificates;
use crate::settings::Settings;
use crate::telemetry;
use std::time::Duration;

#[cfg(feature = "embedded")]
use leasehold_embedded::ManualClock;

/// The settings of a client. They are checked when it is built, before anything is sent.
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
#[must_use = "a builder does nothing until a server is named"]
pub struct ClientBuilder {
    settings: Settings,
    certificates: Certificates,
    publish: Publish,
    #[cfg(feature = "embedded")]
    clock: Option<Clock>,
    #[cfg(feature = "embedded")]
    seed: Option<u64>,
}

/// By which command a release is announced. All clients of a lock, those of Redisson included, must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Publish {
    /// As Redisson does by default: `SPUBLISH` on a cluster that knows it (Redis 7.0, Valkey), else `PUBLISH`.
    #[default]
    Auto,
    /// `PUBLISH`, as Redisson with `shardedSubscriptionMode: OFF`.
    Classic,
    /// `SPUBLISH`, as Redisson with `shardedSubscriptionMode: ON`.
    Sharded,
}

impl ClientBuilder {
    /// The shortest `lockWatchdogTimeout` of the JVMs that share read-write locks with this client. Default: 30 seconds, which is
    /// Redisson's.
    ///
    /// A reader of Redisson that renews *sets* the time to live of the whole lock to this, also where it cuts a longer lease of another
    /// reader. Readers of this library raise it again every third of it, for fixed leases too.
    pub const fn jvm_watchdog(mut self, watchdog: Duration) -> Self {
        self.settings.jvm_watchdog = watchdog;
        self
    }

    /// The behaviour of acquires, of the kinds that offer it, once the server has been out of reach for `unreachable_after`. Default:
    /// [`Fallback::Fail`](crate::Fallback::Fail). See [`Lock::fallback`](crate::Lock::fallback).
    pub const fn fallback(mut self, fallback: leasehold_core::session::Fallback) -> Self {
        self.settings.fallback = fallback;
        self
    }

    /// Puts `prefix` in front of every name, as a `NameMapper` does in Redisson. Default: none.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// The lease of what is acquired without one of its own. It is renewed after a third of it, and is what a crash costs.
    /// From 50 ms to a year. Default: 30 s, as in Redisson.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long an acquire waits that says nothing of it. Default: as long as it takes.
    pub const fn default_wait(mut self, wait: Duration) -> Self {
        self.settings.default_wait = Some(wait);
        self
    }

    /// The longest that a waiter sleeps without trying again, which is what a lost notice costs. Default: 30 s.
    pub const fn recheck(mut self, interval: Duration) -> Self {
        self.settings.recheck = interval;
        self
    }

    /// How long a server may be out of reach before an acquire or a release fails, counted from the first command that fails. For a waiter
    /// that sleeps, and sends none, it is counted from the moment at which the client's own connection was lost. Default: 10 s.
    ///
    /// A connection on which nothing answers counts as lost after one and a half [command timeouts](ClientBuilder::command_timeout), and its
    /// server as out of reach when one attempt to connect anew has failed, which takes two more at the most.
    pub const fn unreachable_after(mut self, after: Duration) -> Self {
        self.settings.unreachable_after = after;
        self
    }

    /// How long a server may take to answer before its connection counts as dead. Default: 1 s.
    pub const fn command_timeout(mut self, timeout: Duration) -> Self {
        self.settings.command_timeout = timeout;
        self
    }

    /// How long connecting may take. Default: 10 s.
    ///
    /// A server that is silent or still loads its data, a name that is not resolved, and Sentinels or a cluster without a primary are tried
    /// again until then. An error that waiting does not mend is told at once: a port on which nothing listens, a wrong password, a database
    /// that does not exist, a plain server asked as Sentinel or as a cluster, a replica. A process that starts beside its server, and may
    /// be there before it, makes its client by [`connect_lazy`](Self::connect_lazy).
    pub const fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.settings.connect_deadline = deadline;
        self
    }

    /// Whether a server is refused whose `maxmemory-policy` can evict a lock while it is held. Default: it is only warned of.
    pub const fn require_noeviction(mut self, require: bool) -> Self {
        self.settings.require_noeviction = require;
        self
    }

    /// Whether a first grant carries a time, by the server's clock, after which it refuses itself. It is for servers on which
    /// `CLIENT KILL` is forbidden; it costs a third of the script's time. Default: no.
    pub const fn server_side_expiry(mut self, carry: bool) -> Self {
        self.settings.not_after = carry;
        self
    }

    /// Leaves a record of this client on the server while it lives: host, process, the name of the application, and since when, so that
    /// [`Client::who_is`](crate::Client::who_is) can tell an operator which process a holder is. Its key is `leasehold:1:client:` and the [id](crate::Client::id) of the
    /// client; it is written three times a minute, is removed at the end, and goes away a minute after a crash. Every user who may read
    /// that key can read it. Default: no record.
    pub fn announce(mut self, application: impl Into<String>) -> Self {
        self.settings.announce = Some(application.into());
        self
    }

    /// The times that the queues of fair locks go by. One value for a fleet. Default: [`FairSettings::new`].
    pub fn fair(mut self, fair: FairSettings) -> Self {
        self.settings.fair = fair.to_wire();
        self
    }

    /// At which level acquires, releases and work under [`Guard::run`](crate::Guard::run) are traced. Default:
    /// [`SpanLevel::Debug`](crate::telemetry::SpanLevel). See [`telemetry`](crate::telemetry).
    pub const fn span_level(mut self, level: telemetry::SpanLevel) -> Self {
        self.settings.spans.level = level;
        self
    }

    /// Whether spans carry the names of their locks. Not where names are secret, or where the store of traces makes an index of every
    /// value. An event that needs a person's eye names its lock all the same. Default: yes.
    pub const fn span_lock_names(mut self, named: bool) -> Self {
        self.settings.spans.lock_names = named;
        self
    }

    /// By which command a release is announced. Default: [`Publish::Auto`].
    pub const fn publish(mut self, publish: Publish) -> Self {
        self.publish = publish;
        self
    }

    /// Trusts these certificate authorities, in PEM, instead of the operating system's. Only for `rediss://`.
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.ca = Some(pem.into());
        self
    }

    /// Shows this certificate chain, with its private key, both in PEM, to a server that asks. Only for `rediss://`.
    pub fn tls_identity(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificates.client = Some((chain.into(), key.into()));
        self
    }

    /// Takes the time from a clock that is moved by hand. The lifeline then has no thread: it runs whenever the clock moves or the
    /// client is used. Only for [`ClientBuilder::embedded`], on an engine with the same clock.
    #[cfg(feature = "embedded")]
    pub fn manual_clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(Clock::Manual(clock.clone()));
        self
    }

    /// Takes the time from tokio's clock, which a test can pause, beginning at `zero`. The lifeline is then a task of the runtime
    /// in which the client is built, and building it elsewhere panics. Only for [`ClientBuilder::embedded`], on an engine with
    /// the same clock.
    #[cfg(feature = "embedded")]
    pub fn tokio_clock(mut self, zero: tokio::time::Instant) -> Self {
        self.clock = Some(Clock::Tokio(zero));
        self
    }

    /// Takes from a seed what is left to chance elsewhere: the client's [id](crate::Client::id) and the lengths of its random pauses. Under a clock
    /// that is moved by hand everything that the client does is then the same each time. No two clients of a server may have one seed: they
    /// would be one to it. Only for [`ClientBuilder::embedded`].
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
        self.settings.check().map_err(ConnectError::from)
    }
}
