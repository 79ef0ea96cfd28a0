//! The client, which connects to a server and creates locks.

pub(crate) mod builder;
pub(crate) mod ids;
pub(crate) mod inner;
pub(crate) mod record;
pub(crate) mod settings;
pub(crate) mod url;

use crate::client::builder::ClientBuilder;
use crate::client::ids::ClientId;
use crate::client::inner::{ClientInner, Handle};
use crate::error::ConnectError;
use crate::fence::FencedValue;
use crate::kinds::{
    AnyLock, BareSemaphore, CountDownLatch, FairLock, FencedLock, MultiLock, ReadWriteLock, Semaphore, SimpleLock,
    SpinLock, StripedLock,
};
use crate::lock::Lock;
use crate::lock::owner::Owner;
use crate::lock::spec::LockSpec;
use futures_util::future::try_join_all;
use leasehold_core::command::Kind;
use leasehold_core::link::{Link as _, ServerInfo};
use leasehold_core::session::ClientStats;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A connection to a server, and the background that renews the acquired locks.
///
/// A client is cheap to clone; all clones share one connection and one background. A process needs one client per server.
///
/// A client opens one connection to a server, or to each node of a cluster. Release notices use a second connection with RESP2, and
/// on a cluster with sharded notices. Durable acquires open up to five more. The tokio runtime that builds the client reads the
/// replies. While that runtime is busy, blocked or gone, the client's own thread reads them.
///
/// # The end of a client
///
/// The background ends once all clones, locks and guards are dropped and all locks are released. The last drop waits up to 250 ms for pending
/// releases. **Await [`Client::shutdown`]** before `main` returns: it also waits for guards, and reports the locks that it could not release. A
/// client in a `static` is never dropped. Without a shutdown its pending releases are lost when `main` returns.
///
/// # Forks
///
/// A forked child cannot use a client of its parent, because the child lacks the client's threads. Each call fails with
/// [`Error::Invalid`](crate::Error::Invalid) or reports a lost lock, and guards are not held. Build a client after the fork. Drops in
/// the child, and its exit, do not affect the locks of the parent.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let client = leasehold::Client::embedded();
///     let guard = client.lock("nightly-report").acquire().await?;
///     drop(guard);
///     client.shutdown(Duration::from_secs(5)).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    pub(crate) fn new(inner: Arc<ClientInner>) -> Self {
        Self { handle: Handle::new(inner) }
    }

    /// Connects to a server with the default settings. See [`ClientBuilder::connect`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`], within the connect deadline. If nothing listens at the address, the error is immediate;
    /// [`connect_lazy`](Self::connect_lazy) is for a server that may start later.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the open connections.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// Creates a client with the default settings, which connects in the background. See [`ClientBuilder::connect_lazy`].
    ///
    /// # Errors
    ///
    /// The errors of [`ClientBuilder::connect_lazy`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, QuorumLock};
    /// // The lock needs a majority: three of the five servers.
    /// let servers = (1..=5).map(|port| Client::connect_lazy(&format!("redis://127.0.0.1:{port}")));
    /// let lock = QuorumLock::of(5, servers.collect::<Result<Vec<_>, _>>()?, "leader");
    /// assert_eq!(lock.quorum(), 3);
    /// # Ok::<(), leasehold::ConnectError>(())
    /// ```
    pub fn connect_lazy(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect_lazy(url)
    }

    /// Connects with the default settings to the URL in `LEASEHOLD_URL` or `REDIS_URL`. The query of the URL may contain settings. See
    /// [`ClientBuilder::connect_from_env`].
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`] if neither variable is set; otherwise the errors of [`Client::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the open connections.
    pub async fn from_env() -> Result<Self, ConnectError> {
        Self::builder().connect_from_env().await
    }

    /// Creates a client of a new in-process engine, which replaces a server and runs the same Lua scripts. No other client uses the
    /// engine.
    ///
    /// Use it for tests, examples, and locks within one process. [`ClientBuilder::embedded`] creates several clients of one engine.
    ///
    /// # Panics
    ///
    /// Panics if the operating system refuses another thread.
    #[cfg(feature = "embedded")]
    #[expect(clippy::expect_used, reason = "the defaults are valid, and a process without threads cannot go on")]
    pub fn embedded() -> Self {
        Self::builder().embedded(&leasehold_embedded::EmbeddedServer::new()).expect("a thread for the background")
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns the reentrant lock of this name. This call does no I/O. The first acquire refuses an invalid name.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::of(self.spec(Kind::Lock, name.as_ref()))
    }

    /// Returns the fair lock of this name, which the server grants in the order of the requests. See [`FairLock`].
    pub fn fair_lock(&self, name: impl AsRef<str>) -> FairLock {
        Lock::of(self.spec(Kind::Fair, name.as_ref()))
    }

    /// Returns the fenced lock of this name, whose grants include fencing tokens. See [`FencedLock`].
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        Lock::of(self.spec(Kind::Fenced, name.as_ref()))
    }

    /// Returns the spin lock of this name, whose waiters poll. See [`SpinLock`].
    pub fn spin_lock(&self, name: impl AsRef<str>) -> SpinLock {
        Lock::of(self.spec(Kind::Spin, name.as_ref()))
    }

    /// Returns the read-write lock of this name. See [`ReadWriteLock`].
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        ReadWriteLock::new(&self.handle, name.as_ref())
    }

    /// Returns the simple lock of this name: one string with a lease, as in go-zero. See [`SimpleLock`].
    pub fn simple_lock(&self, name: impl AsRef<str>, lease: Duration) -> SimpleLock {
        let spec = self.spec(Kind::Simple, name.as_ref());
        Lock::of(spec.with(|options| options.lease = Some(lease)))
    }

    /// Returns the bare semaphore of this name: a counter of permits without leases. Prefer [`Client::semaphore`]; [`BareSemaphore`]
    /// explains why.
    pub fn bare_semaphore(&self, name: impl AsRef<str>) -> BareSemaphore {
        Lock::of(self.spec(Kind::Semaphore, name.as_ref()))
    }

    /// Returns the semaphore of this name, whose permits have leases. See [`Semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Lock::of(self.spec(Kind::Permits, name.as_ref()))
    }

    /// Returns the count-down latch of this name. See [`CountDownLatch`].
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.spec(Kind::Latch, name.as_ref()))
    }

    /// Returns the value under `key` on this server, which only the newest holder of a fenced lock can read and write. See
    /// [`FencedValue`](crate::fence::FencedValue).
    pub fn fenced_value(&self, key: impl AsRef<str>) -> FencedValue {
        FencedValue::new(self.spec(Kind::Fenced, key.as_ref()))
    }

    /// Returns a lock over several members, which acquires all of them or none. See [`MultiLock`].
    pub fn multi_lock<M: Into<AnyLock>>(&self, members: impl IntoIterator<Item = M>) -> MultiLock {
        MultiLock::new(members)
    }

    /// Returns a fixed number of locks that protect any number of small resources. See [`StripedLock`].
    pub fn striped_lock(&self, name: impl AsRef<str>, stripes: u32) -> StripedLock {
        StripedLock::new(self.clone(), name.as_ref(), stripes)
    }

    fn spec(&self, kind: Kind, name: &str) -> LockSpec {
        LockSpec::new(self.handle.clone(), kind, name)
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Creates an owner without any holds.
    pub fn new_owner(&self) -> Owner {
        Owner::new(self.handle.clone())
    }

    /// Returns the identity of this client, a random UUID. It is the part of a [`Holder::id`](crate::inspect::Holder::id) before the colon.
    pub fn id(&self) -> ClientId {
        self.handle.with(|session, _| session.client().to_string()).into()
    }

    /// Returns the server's description of itself at the time of the connection. Until a [lazy client](ClientBuilder::connect_lazy) has connected,
    /// the version is empty, and the client knows only the server's topology (cluster or not).
    pub fn server(&self) -> &ServerInfo {
        self.handle.link.server()
    }

    /// Waits for a reply of the server, or of each primary of a cluster, and returns the time until the last reply.
    ///
    /// **When to use it:** for a readiness check, or to measure the round trip. **When not:** before an acquire, which also reports an
    /// unreachable server. For a check that must not wait, use [`is_connected`](Self::is_connected).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Unreachable`] if a server does not reply within the command timeout, [`ConnectError::Loading`] while it loads its data,
    /// and [`ConnectError::Unsuitable`] if it refuses commands. The client keeps reconnecting after each of these errors.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// A readiness endpoint, for any HTTP library. Build the client with [`connect_lazy`](ClientBuilder::connect_lazy): the process then starts
    /// while its server is down. Set the timeout of the probe above the command timeout:
    ///
    /// ```
    /// use leasehold::Client;
    ///
    /// async fn ready(client: &Client) -> (u16, String) {
    ///     match client.ping().await {
    ///         Ok(round_trip) => (200, format!("ready, {round_trip:?}")),
    ///         Err(error) => (503, error.to_string()),
    ///     }
    /// }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let server = leasehold::embedded::EmbeddedServer::new();
    /// # let client = Client::builder().embedded(&server)?;
    /// assert_eq!(ready(&client).await.0, 200);
    /// # server.set_down(true);
    /// # assert_eq!(ready(&client).await.0, 503);
    /// # Ok::<(), leasehold::ConnectError>(()) }).unwrap();
    /// ```
    pub async fn ping(&self) -> Result<Duration, ConnectError> {
        self.handle.check_process()?;
        let begun = self.handle.clock.now();
        let servers = self.handle.link.servers();
        if servers.is_empty() {
            let message = "no primary of the cluster is known yet".to_owned();
            return Err(ConnectError::Unreachable { message, source: None });
        }
        try_join_all(servers.into_iter().map(|server| self.handle.link.ping(server))).await?;
        Ok(self.handle.clock.now().since(begun))
    }

    /// Returns whether the client has a connection to its server, or to all known primaries of a cluster. This does no I/O: the
    /// client detects a network failure after a command timeout. [`ping`](Self::ping) waits for a reply.
    pub fn is_connected(&self) -> bool {
        self.handle.check_process().is_ok()
            && self.handle.link.is_identified()
            && self.handle.with(|session, _| !session.is_out_of_reach())
    }

    /// Returns the numbers of open guards, waiting callers and subscriptions, for tests and monitoring.
    pub fn stats(&self) -> ClientStats {
        self.handle.with(|session, _| session.stats())
    }

    /// Shuts the client down gracefully. Waiting and new acquires fail with [`Error::ShutDown`](crate::Error::ShutDown). Existing guards may continue
    /// for `within`; the background renews their locks until then. The future completes as soon as all locks are released.
    ///
    /// Guards that remain after `within` are lost with the reason [`ShutDown`](crate::LossReason::ShutDown), which signals their work to
    /// stop. **The lock of such a guard is not released while the guard exists**, because its work may still run. The lock is free once
    /// the guard is dropped, or when its lease ends. The shutdown waits another quarter of a second for work that stops at once.
    ///
    /// First stop the sources of new work, such as the HTTP server. Then await the shutdown with the time that your work needs. A
    /// [leader](crate::leader::Leader) resigns when the shutdown begins. Two concurrent shutdowns both use the shorter time.
    ///
    /// # Errors
    ///
    /// [`NotReleased`] lists the locks that were not released in time. The background keeps retrying for one lease while the process
    /// lives. After that lease the locks are free in any case.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the shutdown continues even if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, Error};
    /// # use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let client = Client::embedded();
    /// let guard = client.lock("report").acquire().await?;
    /// let report = tokio::spawn(async move {
    ///     tokio::time::sleep(Duration::from_millis(20)).await; // the remaining work
    ///     guard.release().await
    /// });
    /// client.shutdown(Duration::from_secs(5)).await?;
    /// assert_eq!(report.await?, Ok(()), "the work finished under the lock");
    /// assert!(matches!(client.lock("report").acquire().await, Err(Error::ShutDown { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn shutdown(&self, within: Duration) -> Result<(), NotReleased> {
        if self.handle.check_process().is_err() {
            // Locks and guards belong to the process that built the client.
            return Ok(());
        }
        let deadline = self.handle.clock.now() + within;
        self.handle.with(|session, now| session.close(now));
        let locks = self.handle.background.shut_down(deadline).await;
        if locks.is_empty() { Ok(()) } else { Err(NotReleased { locks }) }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", self.server()).finish_non_exhaustive()
    }
}

/// The locks that a shutdown could not release in time: their guards still exist, or the server is unreachable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the locks {} were not released in time; they are free when their guards are dropped or their leases end", self.list())]
pub struct NotReleased {
    locks: Vec<String>,
}

impl NotReleased {
    /// Lists the first ten names and the number of the remaining names.
    fn list(&self) -> String {
        let named = self.locks.iter().take(10).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        match self.locks.len() {
            0..=10 => named,
            all => format!("{named} and {} more", all - 10),
        }
    }

    /// Returns the names of the locks.
    pub fn locks(&self) -> &[String] {
        &self.locks
    }
}
