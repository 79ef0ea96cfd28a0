//! The client: the handle on a server from which locks are made.

use crate::builder::ClientBuilder;
use crate::client_inner::Handle;
use crate::error::ConnectError;
use crate::fence::FencedValue;
use crate::ids::ClientId;
use crate::kinds::{
    BareSemaphore, CountDownLatch, FairLock, FencedLock, Member, MultiLock, ReadWriteLock, Semaphore, SimpleLock,
    SpinLock, StripedLock,
};
use crate::lock::Lock;
use crate::lock_spec::LockSpec;
use crate::owner::Owner;
use leasehold_core::command::Kind;
use leasehold_core::link::{Link as _, ServerInfo};
use leasehold_core::session::ClientStats;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A connection to a server, and the background that keeps the acquired locks.
///
/// A client is cheap to clone; all clones share one client. A process needs one client for each server. A client has
/// one connection to a server, or to each node of a cluster. Release notices have a second one in RESP2, and on a cluster with
/// sharded notices. Durable acquires open up to five more. The tokio runtime that builds the client reads the replies. While that runtime is busy, blocked or gone, the
/// client's own thread reads them.
///
/// # The end of a client
///
/// The background ends when the last clone, lock and guard is gone and everything is released. The last drop waits up
/// to 250 ms for pending releases. **Await [`Client::shutdown`]** before `main` returns: it also waits for guards, and
/// names the locks that it could not release. A client in a `static` is never dropped, so without a shutdown its
/// pending releases are lost when `main` returns.
///
/// # Forks
///
/// A forked child cannot use a client of its parent, because the child does not have the client's threads. Each call
/// fails with [`Error::Invalid`](crate::Error::Invalid) or reports a lost lock, and guards are not held. Build a client
/// after the fork. Drops in the child, and its exit, do not affect the locks of the parent.
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
    pub(crate) const fn from_handle(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// Connects to a server with the default settings. See [`ClientBuilder::connect`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`], within the connect deadline. It distinguishes a wrong password, an unreachable host, a server
    /// that is still loading, and a malformed URL. If nothing listens at the address, the error is immediate;
    /// [`connect_lazy`](Self::connect_lazy) is for a server that may start later.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was connected.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// Makes a client with the default settings at once; the client connects in the background. See
    /// [`ClientBuilder::connect_lazy`].
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`], where the URL cannot be used. The runtime has no timers, or the operating system no thread to give.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, QuorumLock};
    /// // Whichever of the five is up: the lock needs three of them.
    /// let servers = (1..=5).map(|port| Client::connect_lazy(&format!("redis://127.0.0.1:{port}")));
    /// let lock = QuorumLock::of(5, servers.collect::<Result<Vec<_>, _>>()?, "leader");
    /// assert_eq!(lock.quorum(), 3);
    /// # Ok::<(), leasehold::ConnectError>(())
    /// ```
    pub fn connect_lazy(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect_lazy(url)
    }

    /// Connects with the default settings to the server that the environment names, in `LEASEHOLD_URL` or `REDIS_URL`. The URL may carry
    /// settings in its query. See [`ClientBuilder::connect_from_env`].
    ///
    /// # Errors
    ///
    /// As [`Client::connect`]; [`ConnectError::Invalid`] where the environment names no server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was connected.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn build() -> Result<(), leasehold::ConnectError> {
    /// let client = leasehold::Client::from_env().await?;
    /// # drop(client); Ok(()) }
    /// ```
    pub async fn from_env() -> Result<Self, ConnectError> {
        Self::builder().connect_from_env().await
    }

    /// Creates a client of an engine inside the process, without a server. No other client uses the engine. The engine
    /// runs the Lua scripts of a server.
    ///
    /// It is for tests, examples, and locks within one process. [`ClientBuilder::embedded`] makes several clients of one engine.
    ///
    /// # Panics
    ///
    /// The operating system has no thread to give.
    #[cfg(feature = "embedded")]
    #[expect(clippy::expect_used, reason = "the defaults are valid, and a process without threads cannot go on")]
    pub fn embedded() -> Self {
        Self::builder().embedded(&leasehold_embedded::EmbeddedServer::new()).expect("a thread for the background")
    }

    /// Begins a client with settings of its own: settings first, then a server.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The reentrant lock of that name. This call does no I/O; the first acquire refuses a name that cannot be used.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::of(self.spec(Kind::Lock, name.as_ref()))
    }

    /// The fair lock of that name: the server grants it in the order of the requests. See [`FairLock`].
    pub fn fair_lock(&self, name: impl AsRef<str>) -> FairLock {
        Lock::of(self.spec(Kind::Fair, name.as_ref()))
    }

    /// The fenced lock of that name: its grants carry fencing tokens. See [`FencedLock`].
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        Lock::of(self.spec(Kind::Fenced, name.as_ref()))
    }

    /// The spin lock of that name: its waiters ask again and again. See [`SpinLock`].
    pub fn spin_lock(&self, name: impl AsRef<str>) -> SpinLock {
        Lock::of(self.spec(Kind::Spin, name.as_ref()))
    }

    /// The read-write lock of that name. See [`ReadWriteLock`].
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        ReadWriteLock::new(&self.handle, name.as_ref())
    }

    /// The simple lock of that name: one string with a lease, as go-zero's is. See [`SimpleLock`].
    pub fn simple_lock(&self, name: impl AsRef<str>, lease: Duration) -> SimpleLock {
        let spec = self.spec(Kind::Simple, name.as_ref());
        Lock::of(spec.with_options(|options| options.lease = Some(lease)))
    }

    /// The semaphore of that name, a bare counter of permits. See [`BareSemaphore`], which says why [`Semaphore`] is mostly better.
    pub fn bare_semaphore(&self, name: impl AsRef<str>) -> BareSemaphore {
        Lock::of(self.spec(Kind::Semaphore, name.as_ref()))
    }

    /// The semaphore of that name whose permits have leases. See [`Semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Lock::of(self.spec(Kind::Permits, name.as_ref()))
    }

    /// The count-down latch of that name. See [`CountDownLatch`].
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.spec(Kind::Latch, name.as_ref()))
    }

    /// The value under `key` on this server; only the newest holder of a fenced lock reads and writes it. See
    /// [`FencedValue`](crate::fence::FencedValue).
    pub fn fenced_value(&self, key: impl AsRef<str>) -> FencedValue {
        FencedValue::new(self.spec(Kind::Fenced, key.as_ref()))
    }

    /// One lock over many: all or none. See [`MultiLock`].
    pub fn multi_lock<M: Into<Member>>(&self, members: impl IntoIterator<Item = M>) -> MultiLock {
        MultiLock::new(members)
    }

    /// A fixed number of locks for any number of small things. See [`StripedLock`].
    pub fn striped_lock(&self, name: impl AsRef<str>, stripes: u32) -> StripedLock {
        StripedLock::new(self.clone(), name.as_ref(), stripes)
    }

    fn spec(&self, kind: Kind, name: &str) -> LockSpec {
        LockSpec::new(self.handle.clone(), kind, name)
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// An owner that holds nothing yet.
    pub fn new_owner(&self) -> Owner {
        Owner::new(self.handle.clone())
    }

    /// The identity of this client, a random UUID: the part of a [`Holder::id`](crate::inspect::Holder::id) before the colon.
    pub fn id(&self) -> ClientId {
        self.handle.with(|session, _| session.client().to_string()).into()
    }

    /// The server's description of itself when the client connected. Until a client that was made [without a
    /// connection](ClientBuilder::connect_lazy) has one, it knows only whether its server is a cluster: the version is empty.
    pub fn server(&self) -> &ServerInfo {
        self.handle.link.server()
    }

    /// The open guards, waiting callers and subscriptions of the client, for tests and monitoring.
    pub fn stats(&self) -> ClientStats {
        self.handle.with(|session, _| session.stats())
    }

    /// Shuts the client down gracefully. From now on every waiting or new acquire fails with
    /// [`Error::ShutDown`](crate::Error::ShutDown). Existing guards have the time `within` to end, and the background
    /// renews their locks until then. The future completes as soon as everything is released.
    ///
    /// Guards that remain after `within` are lost with the reason [`ShutDown`](crate::LossReason::ShutDown), which
    /// signals their work to stop. **The lock of such a guard is not released while the guard exists**, because its
    /// work may still run. The lock is free once the guard is dropped, or when its lease has ended. The shutdown waits
    /// another quarter of a second for work that stops at once.
    ///
    /// So first stop the sources of new work, such as the HTTP server; then await the shutdown with the time that your
    /// work needs. A [leader](crate::leader::Leader) resigns when the shutdown begins. Two concurrent shutdowns both use the
    /// shorter time.
    ///
    /// # Errors
    ///
    /// [`NotReleased`] names the locks that were not released in time. The background keeps retrying for one lease
    /// while the process lives; after that the locks are free in any case.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the shutdown goes on whether it is dropped or not.
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
    ///     tokio::time::sleep(Duration::from_millis(20)).await; // the rest of the work
    ///     guard.release().await
    /// });
    /// client.shutdown(Duration::from_secs(5)).await?;
    /// assert_eq!(report.await?, Ok(()), "the work came to its end under the lock");
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

/// Locks that a shutdown could not release in time: their guards still exist, or the server is unreachable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{} were not released in time, and are free when their guards are gone, or their leases have run out", list(.locks))]
pub struct NotReleased {
    locks: Vec<String>,
}

/// The first few names, and how many more there are.
fn list(locks: &[String]) -> String {
    const NAMED: usize = 10;
    let named = locks.iter().take(NAMED).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let more = locks.len().saturating_sub(NAMED);
    if more == 0 { format!("the locks {named}") } else { format!("the locks {named} and {more} more") }
}

impl NotReleased {
    /// The names of the locks.
    pub fn locks(&self) -> &[String] {
        &self.locks
    }
}
