//! Connecting: turns settings and a server into a client.

use super::ClientBuilder;
use crate::background::{self, Background, Place};
use crate::blocking::is_waited_for;
use crate::client::Client;
use crate::client::inner::ClientInner;
use crate::client::record;
use crate::client::settings::{Settings, publish};
use crate::client::url;
use crate::error::{Cause, ConnectError, InvalidInput};
use crate::link::AnyLink;
use crate::link::{self as server_link, LinkSettings, ServerLink, ServerTarget};
use crate::runtime;
use crate::runtime::clock::Clock;
use crate::telemetry;
use leasehold_core::link::{Link as _, ServerInfo};
use leasehold_core::owner::ClientId;
use leasehold_core::session::Session;
use std::sync::Arc;
use tokio::sync::oneshot;
use uuid::Uuid;

#[cfg(feature = "unstable-raw")]
use crate::raw::RawConnection;
#[cfg(feature = "embedded")]
use leasehold_embedded::{ClockSort, EmbeddedLink, EmbeddedServer};

/// Returns the clock of an engine's client: the builder's clock, or the engine's clock by default. Both clocks must be of one sort.
#[cfg(feature = "embedded")]
fn clock_beside(named: Option<Clock>, engine: ClockSort) -> Result<Clock, ConnectError> {
    match (named, engine) {
        (None | Some(Clock::Machine(_)), ClockSort::System) => Ok(Clock::of_machine()),
        (None, ClockSort::Manual(clock)) => Ok(Clock::Manual(clock)),
        (None, ClockSort::Tokio(zero)) => Ok(Clock::Tokio(zero)),
        (Some(clock @ Clock::Manual(_)), ClockSort::Manual(_) | ClockSort::Other)
        | (Some(clock @ Clock::Tokio(_)), ClockSort::Tokio(_) | ClockSort::Other) => Ok(clock),
        (named, engine) => {
            let why = format!("the client's clock ({named:?}) does not match its engine's clock ({engine:?})");
            Err(InvalidInput::Contradiction(why).into())
        }
    }
}

impl ClientBuilder {
    /// Connects to the server or servers of a URL.
    ///
    /// | URL | server |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/db]` | one server |
    /// | `redis-sentinel://…@host[:port][/db]?sentinelServiceName=name&node=host:port` | the primary that Sentinel reports; `sentinelUsername` and `sentinelPassword` are for the Sentinels |
    /// | `redis-cluster://…@host[:port][/db]?node=host:port` | a cluster, through any of its nodes |
    /// | `redis+unix://[user:password@]/path/to/socket[?db=n]` | one server, through a Unix socket |
    ///
    /// The schemes for TLS are `rediss://`, `rediss-sentinel://` and `rediss-cluster://`; they need the feature `tls`. All schemes also accept
    /// `valkey` for `redis`, and `valkeys` for `rediss`. The default port is 6379, or 26379 for a Sentinel. `node` may be repeated. An IPv6
    /// address needs brackets, as in `node=[::1]:6379`. Percent-encode `/ : ? # @` in the user and the password.
    ///
    /// The query may also contain `protocol=resp2`, for a proxy without `HELLO`, and settings. A setting has the name of a method of this builder or
    /// of [`Tuning`](crate::Tuning): `prefix`, `announce`, `lease`, `default_wait`, `recheck`, `unreachable_after`, `command_timeout`,
    /// `connect_deadline`, `require_noeviction`, `fsync`, `hand_over`, `publish` and `batch_calls`. A time is a whole number with `ms`, `s`, `m` or `h`:
    /// `redis://host:6379?prefix=shop:&lease=20s&command_timeout=500ms`. A setting in the URL overrides the builder. The builder
    /// refuses unknown parameters, repeated parameters and a `#`, and ignores white space around the URL.
    ///
    /// Behind a proxy that hides a cluster, use `redis` and not `redis-cluster`. [Servers and
    /// proxies](https://github.com/leasehold/leasehold/blob/main/docs/servers.md#multi-primary-and-proxies) lists what each proxy needs.
    ///
    /// `db` is the number of a database. Every connection selects it, including connections to a cluster. Most clusters accept only 0;
    /// the error contains their refusal. Equal names in two databases are independent locks.
    ///
    /// The tokio runtime that polls this future also reads the replies, so its tasks need no thread switch. If that runtime is blocked, the
    /// client's own thread reads replies after 10 ms, and release notices after 100 ms.
    ///
    /// # Errors
    ///
    /// [`ConnectError`], within the connect deadline.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the open connections.
    pub async fn connect(self, url: &str) -> Result<Client, ConnectError> {
        let (builder, target) = url::read(self, url)?;
        let connected = telemetry::connecting(target.to_string(), target.topology());
        let (link, hand_over) = builder.start_link(target)?;
        link.connect().await?;
        let inner =
            builder.assemble(AnyLink::Server(link), Clock::of_machine(), Background::new(Place::Thread), None)?;
        connected(inner.link.server());
        let _ = hand_over.send(inner.clone());
        Ok(Client::new(inner))
    }

    /// Creates a client without waiting for the servers of the [URL](Self::connect). The client connects in the background, and retries until it
    /// succeeds. Use it for a process that must start while its server is down, and for the [quorum](crate::QuorumLock), which needs a client for
    /// each server.
    ///
    /// Until the first connection, the server counts as unreachable: acquires wait, fail with
    /// [`Error::Unreachable`](crate::Error::Unreachable) after [`unreachable_after`](Self::unreachable_after), and use the
    /// [fallback](Self::fallback). The error contains the cause, including a wrong password, a replica or a refused
    /// [policy](Self::require_noeviction), which [`connect`](Self::connect) reports at once. [`Client::server`] is complete after the first
    /// connection.
    ///
    /// The calling tokio runtime reads the replies, as with [`connect`](Self::connect). Any thread may call this method, which does not block.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`] if a setting, the URL or a certificate is invalid, or the tokio runtime has no timers or no I/O.
    /// [`ConnectError::Unreachable`] if the operating system refuses another thread.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, Error, Fallback};
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let settings = Client::builder().unreachable_after(Duration::from_millis(20));
    /// let client = settings.connect_lazy("redis://127.0.0.1:1")?; // nothing listens there
    ///
    /// let error = client.lock("report").acquire().await.expect_err("no server");
    /// assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    /// // During the outage the tasks of this process exclude each other.
    /// let guard = client.lock("report").fallback(Fallback::Local).acquire().await?;
    /// assert!(guard.is_degraded());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn connect_lazy(self, url: &str) -> Result<Client, ConnectError> {
        let (builder, target) = url::read(self, url)?;
        let connected = telemetry::connecting(target.to_string(), target.topology());
        let (link, hand_over) = builder.start_link(target)?;
        let settings = builder.settings.clone();
        let inner = builder.assemble(
            AnyLink::Server(link.clone()),
            Clock::of_machine(),
            Background::new(Place::Thread),
            None,
        )?;
        let client = Arc::downgrade(&inner);
        link.identify(
            move |server| check_eviction(&settings, server).map_err(|error| error.to_string()),
            move |server| {
                connected(server);
                if let Some(client) = client.upgrade() {
                    client.with(|session, _| session.handle_met(publish(server)));
                }
            },
        );
        let _ = hand_over.send(inner.clone());
        Ok(Client::new(inner))
    }

    /// Connects to the URL in the environment variable `LEASEHOLD_URL`, or in `REDIS_URL` if `LEASEHOLD_URL` is unset or empty. The URL may contain
    /// settings, as in [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`] if neither variable is set; otherwise the errors of [`connect`](Self::connect). The error text contains the
    /// name of the variable, but never an invalid URL.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the open connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn build() -> Result<(), leasehold::ConnectError> {
    /// // LEASEHOLD_URL=redis://db:6379?prefix=shop:&lease=20s
    /// let client = leasehold::Client::builder().announce("orders").connect_from_env().await?;
    /// # drop(client); Ok(()) }
    /// ```
    pub async fn connect_from_env(self) -> Result<Client, ConnectError> {
        let (variable, url) = url::of_environment(|name| std::env::var(name))?;
        self.connect(&url).await.map_err(|error| match error {
            ConnectError::Invalid { message, source } => {
                ConnectError::Invalid { message: format!("{variable}: {message}"), source }
            }
            error => error,
        })
    }

    /// Connects to the servers of a [URL](Self::connect) for plain commands: to the only server, or to the reachable primaries of a cluster, ordered
    /// by address. The connections do not reconnect.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](Self::connect), after one attempt at each address of the URL.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the open connections.
    #[cfg(feature = "unstable-raw")]
    pub async fn connect_raw(self, url: &str) -> Result<Vec<RawConnection>, ConnectError> {
        let (builder, target) = url::read(self, url)?;
        let target = builder.complete(target)?;
        server_link::raw::primaries(&target, &builder.link_settings()).await.map_err(ConnectError::from)
    }

    /// Connects to the Sentinels of a [URL](Self::connect) for plain commands. Returns the name of the service, and the address and the
    /// connection of each Sentinel, or `None` if the URL is not for Sentinel.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`] if the URL or a certificate is invalid.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the open connections.
    #[cfg(feature = "unstable-raw")]
    pub async fn connect_sentinels(
        self,
        url: &str,
    ) -> Result<Option<(String, Vec<(String, Result<RawConnection, ConnectError>)>)>, ConnectError> {
        let (builder, target) = url::read(self, url)?;
        let target = builder.complete(target)?;
        let found = server_link::raw::sentinels(&target, &builder.link_settings()).await.map_err(ConnectError::from)?;
        Ok(found.map(|(service, all)| {
            let all = all.into_iter().map(|(address, opened)| (address, opened.map_err(ConnectError::from)));
            (service, all.collect())
        }))
    }

    /// Creates a client of an in-process engine. Clients of one engine exclude each other like clients of one server. The client uses the
    /// engine's clock, unless the builder sets a clock.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`] if a setting is invalid, with [`fsync`](Self::fsync), or if the clocks of the builder and the engine are of
    /// different sorts: leases would then end at different times. [`ConnectError::Unreachable`] if the operating system refuses another thread.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime if the clock is tokio's.
    #[cfg(feature = "embedded")]
    pub fn embedded(self, server: &EmbeddedServer) -> Result<Client, ConnectError> {
        self.embedded_link(server.link())
    }

    /// Creates a client like [`ClientBuilder::embedded`], over a link that the caller created and may interrupt. While the link stays
    /// [down](EmbeddedLink::set_down), the client looks like a killed process to all other clients: it sends nothing to the engine, and cleans
    /// nothing up.
    ///
    /// # Errors
    ///
    /// The errors of [`ClientBuilder::embedded`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, embedded::EmbeddedServer};
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = EmbeddedServer::new();
    /// let link = server.link();
    /// let dies = Client::builder().lease(Duration::from_millis(200)).embedded_link(link.clone())?;
    /// let other = Client::builder().embedded(&server)?;
    ///
    /// let held = dies.lock("report").acquire().await?;
    /// link.set_down(true);
    /// drop(held); // sends nothing to the engine
    /// assert!(other.lock("report").try_acquire().await?.is_none());
    /// other.lock("report").acquire().await?.release().await?; // once the dead client's lease has ended
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    #[cfg(feature = "embedded")]
    pub fn embedded_link(self, link: EmbeddedLink) -> Result<Client, ConnectError> {
        self.check()?;
        let clock = clock_beside(self.clock.clone(), link.embedded_server().clock().sort())?;
        if self.settings.fsync {
            let message = "an in-process engine has no append-only file: remove fsync, or connect to a server";
            return Err(ConnectError::invalid(message));
        }
        let link = AnyLink::Embedded(link);
        let seed = self.seed;
        match clock {
            Clock::Machine(_) => {
                let ((), hand_over) = background::start(|| ()).map_err(no_thread)?;
                let client = self.assemble(link, Clock::of_machine(), Background::new(Place::Thread), seed)?;
                // The receiver exists, because the thread waits for the client.
                let _ = hand_over.send(client.clone());
                Ok(Client::new(client))
            }
            Clock::Manual(clock) => {
                let background = Background::new(Place::Inline(clock.clone()));
                let inner = self.assemble(link, Clock::Manual(clock.clone()), background, seed)?;
                background::inline::start(&inner, &clock);
                Ok(Client::new(inner))
            }
            Clock::Tokio(zero) => {
                let inner = self.assemble(link, Clock::Tokio(zero), Background::new(Place::Task), seed)?;
                drop(tokio::spawn(background::run(inner.clone())));
                Ok(Client::new(inner))
            }
        }
    }

    /// Creates a client whose background runs on a thread of loom.
    #[cfg(all(test, leasehold_loom, feature = "embedded"))]
    pub(crate) fn without_background(
        self,
        server: &EmbeddedServer,
        clock: leasehold_embedded::ManualClock,
    ) -> Arc<ClientInner> {
        let link = AnyLink::Embedded(server.link());
        self.assemble(link, Clock::Manual(clock), Background::new(Place::Thread), Some(7)).expect("a client")
    }

    /// Validates the settings that need no server, checks that the current runtime supports connections, and starts the background's thread.
    fn start_link(
        &self,
        target: ServerTarget,
    ) -> Result<(ServerLink, oneshot::Sender<Arc<ClientInner>>), ConnectError> {
        self.check()?;
        #[cfg(feature = "embedded")]
        if self.clock.is_some() || self.seed.is_some() {
            let message = "manual_clock, tokio_clock and seed need an embedded engine: remove them, or use ClientBuilder::embedded";
            return Err(ConnectError::invalid(message));
        }
        let home = tokio::runtime::Handle::try_current().ok().filter(|_| !is_waited_for());
        if home.is_some() {
            runtime::check()?;
        }
        let target = self.complete(target)?;
        let settings = self.link_settings();
        let unconnected = || ServerLink::new(target, settings, home.map(server_link::Home::Runtime));
        background::start(unconnected).map_err(no_thread)
    }

    /// Adds the certificates, the credentials and the address map of the builder to the target.
    fn complete(&self, target: ServerTarget) -> Result<ServerTarget, ConnectError> {
        let target = target.with(self.provider.clone(), self.addresses.clone());
        target.with_certificates(&self.certificates).map_err(ConnectError::from)
    }

    fn link_settings(&self) -> LinkSettings {
        let command_timeout = self.settings.session.command_timeout;
        LinkSettings { command_timeout, fsync: self.settings.fsync, ..self.link.clone() }
    }

    /// Assembles a client. The caller has checked that its server is usable.
    fn assemble(
        self,
        link: AnyLink,
        clock: Clock,
        background: Background,
        seed: Option<u64>,
    ) -> Result<Arc<ClientInner>, ConnectError> {
        check_eviction(&self.settings, link.server())?;
        let identity = seed.map_or_else(Uuid::new_v4, |seed| {
            let bits = (u128::from(seed) << 64) | u128::from(!seed);
            uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
        });
        let seed = seed.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0);
        let mut session = Session::new(ClientId::new(identity), self.settings.for_session(link.server()), seed);
        if let Some(application) = self.settings.announce.clone() {
            let record = record::own(application, &self.settings.within, &self.settings.note);
            session.announce(clock.now(), record, record::LIFETIME);
        }
        Ok(ClientInner::new(session, link, clock, self.settings, background))
    }
}

impl From<InvalidInput> for ConnectError {
    fn from(error: InvalidInput) -> Self {
        Self::Invalid { message: error.to_string(), source: Some(Cause::new(error)) }
    }
}

fn check_eviction(settings: &Settings, server: &ServerInfo) -> Result<(), ConnectError> {
    match server.eviction_policy.as_deref() {
        None | Some("noeviction") => Ok(()),
        Some(policy) if settings.require_noeviction => Err(ConnectError::Unsuitable {
            message: format!("its maxmemory-policy {policy} can evict a held lock, and require_noeviction is set"),
            source: None,
        }),
        Some(policy) => {
            telemetry::report_eviction_policy(policy);
            Ok(())
        }
    }
}

fn no_thread(error: std::io::Error) -> ConnectError {
    let message = format!("cannot start the background's thread: {error}");
    ConnectError::Unreachable { message, source: Some(Cause::new(error)) }
}
