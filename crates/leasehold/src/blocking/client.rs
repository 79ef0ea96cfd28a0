//! The client of threads.

use super::{
    AnnouncedClients, BareSemaphore, CountDownLatch, FencedValue, Leader, Lock, Locks, MultiLock, Once, ReadWriteLock,
    Semaphore, mirrors, park_on,
};
use crate::ClientId;
use crate::error::{ConnectError, Error};
use crate::group::Member;
use crate::inspect::{Deadlocks, LockState};
use crate::kind::{Fair, Fenced, Simple, Spin};
use crate::once::Period;
use crate::record::{AnnouncedLock, ClientRecord};
use crate::{ClientBuilder, ClientStats, NotReleased, Owner};
use std::time::Duration;

/// A [`Client`](crate::Client) for threads.
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

mirrors!(Client = crate::Client);

impl Client {
    /// Connects to a server with the default settings.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`](crate::Client::connect).
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::build(crate::Client::builder(), url)
    }

    /// Connects with the default settings to the server that the environment names, in `LEASEHOLD_URL` or `REDIS_URL`.
    ///
    /// # Errors
    ///
    /// As [`Client::from_env`](crate::Client::from_env).
    #[track_caller]
    pub fn from_env() -> Result<Self, ConnectError> {
        park_on(crate::Client::builder().on_thread().connect_from_env()).map(Self)
    }

    /// Connects to a server with these settings.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`].
    #[track_caller]
    pub fn build(builder: ClientBuilder, url: &str) -> Result<Self, ConnectError> {
        park_on(builder.on_thread().connect(url)).map(Self)
    }

    /// A client with the default settings that is made without waiting for its server.
    ///
    /// # Errors
    ///
    /// As [`Client::connect_lazy`](crate::Client::connect_lazy).
    pub fn connect_lazy(url: &str) -> Result<Self, ConnectError> {
        Self::build_lazy(crate::Client::builder(), url)
    }

    /// A client with these settings that is made without waiting for its server, and connects in the background.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect_lazy`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, Error, blocking};
    /// # use std::time::Duration;
    /// let settings = Client::builder().unreachable_after(Duration::from_millis(20));
    /// let client = blocking::Client::build_lazy(settings, "redis://127.0.0.1:1")?; // where nothing listens
    /// assert!(matches!(client.lock("report").acquire(), Err(Error::Unreachable { .. })));
    /// # Ok::<(), leasehold::ConnectError>(())
    /// ```
    pub fn build_lazy(builder: ClientBuilder, url: &str) -> Result<Self, ConnectError> {
        builder.on_thread().connect_lazy(url).map(Self)
    }

    /// The reentrant lock of that name. See [`Lock`](crate::Lock).
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.0.lock(name).into()
    }

    /// The fair lock of that name. See [`FairLock`](crate::FairLock).
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock<Fair> {
        self.0.fair_lock(name).into()
    }

    /// The lock of that name whose grants carry fencing tokens. See [`FencedLock`](crate::FencedLock).
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> Lock<Fenced> {
        self.0.fenced_lock(name).into()
    }

    /// The lock of that name whose waiters ask again and again. See [`SpinLock`](crate::SpinLock).
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock<Spin> {
        self.0.spin_lock(name).into()
    }

    /// The lock of that name that is one string with a lease. See [`SimpleLock`](crate::SimpleLock).
    pub fn simple_lock(&self, name: impl AsRef<str>, lease: Duration) -> Lock<Simple> {
        self.0.simple_lock(name, lease).into()
    }

    /// The read-write lock of that name. See [`ReadWriteLock`](crate::ReadWriteLock).
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        self.0.read_write_lock(name).into()
    }

    /// The semaphore of that name. See [`BareSemaphore`](crate::BareSemaphore).
    pub fn bare_semaphore(&self, name: impl AsRef<str>) -> BareSemaphore {
        self.0.bare_semaphore(name).into()
    }

    /// The semaphore of that name whose permits have leases. See [`Semaphore`](crate::Semaphore).
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        self.0.semaphore(name).into()
    }

    /// The count-down latch of that name. See [`CountDownLatch`](crate::CountDownLatch).
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        self.0.count_down_latch(name).into()
    }

    /// The guarded value under that key. See [`FencedValue`](crate::fence::FencedValue).
    pub fn fenced_value(&self, key: impl AsRef<str>) -> FencedValue {
        self.0.fenced_value(key).into()
    }

    /// One lock over many, named as those of the asynchronous client. See [`MultiLock`](crate::MultiLock).
    pub fn multi_lock<M: Into<Member>>(&self, members: impl IntoIterator<Item = M>) -> MultiLock {
        self.0.multi_lock(members).into()
    }

    /// A candidate for the leadership of that name. See [`Client::leader`](crate::Client::leader).
    pub fn leader(&self, name: impl AsRef<str>) -> Leader {
        self.0.leader(name).into()
    }

    /// A job that one of all processes runs once in a period. See [`Client::once`](crate::Client::once).
    pub fn once(&self, name: impl AsRef<str>, period: Period) -> Once {
        self.0.once(name, period).into()
    }

    /// An owner that holds nothing yet. Its scope is [`Owner::scope_blocking`].
    pub fn new_owner(&self) -> Owner {
        self.0.new_owner()
    }

    /// The identity of this client. See [`Client::id`](crate::Client::id).
    pub fn id(&self) -> ClientId {
        self.0.id()
    }

    /// The open guards, callers and subscriptions of the client.
    pub fn stats(&self) -> ClientStats {
        self.0.stats()
    }

    /// The process behind a holder. See [`Client::who_is`](crate::Client::who_is).
    ///
    /// # Errors
    ///
    /// As [`Client::who_is`](crate::Client::who_is).
    #[track_caller]
    pub fn who_is(&self, id: impl AsRef<str>) -> Result<Option<ClientRecord>, Error> {
        park_on(self.0.who_is(id))
    }

    /// The locks that the client behind an id says to hold and to wait for. See [`Client::locks_of`](crate::Client::locks_of).
    ///
    /// # Errors
    ///
    /// As [`Client::locks_of`](crate::Client::locks_of).
    #[track_caller]
    pub fn locks_of(&self, id: impl AsRef<str>) -> Result<Vec<AnnouncedLock>, Error> {
        park_on(self.0.locks_of(id))
    }

    /// The clients that announce themselves, with their locks. See [`Client::announced_clients`](crate::Client::announced_clients).
    pub fn announced_clients(&self) -> AnnouncedClients {
        self.0.announced_clients().into()
    }

    /// The deadlocks among the clients that announce themselves. See [`Client::deadlocks`](crate::Client::deadlocks).
    ///
    /// # Errors
    ///
    /// As [`Client::deadlocks`](crate::Client::deadlocks).
    #[track_caller]
    pub fn deadlocks(&self) -> Result<Deadlocks, Error> {
        park_on(self.0.deadlocks())
    }

    /// Everything that the server knows of a name. See [`Client::inspect`](crate::Client::inspect).
    ///
    /// # Errors
    ///
    /// As [`Client::inspect`](crate::Client::inspect).
    #[track_caller]
    pub fn inspect(&self, name: impl AsRef<str>) -> Result<Option<LockState>, Error> {
        park_on(self.0.inspect(name))
    }

    /// The locks on the server whose names fit `pattern`. See [`Client::locks`](crate::Client::locks).
    pub fn locks(&self, pattern: impl AsRef<str>) -> Locks {
        self.0.locks(pattern).into()
    }

    /// Shuts the client down gracefully: other threads have the time `within` to release their guards. Drop a guard of
    /// the calling thread first; otherwise the shutdown waits for this guard until `within` is over. See
    /// [`Client::shutdown`](crate::Client::shutdown).
    ///
    /// # Errors
    ///
    /// Names the locks that were not released in time.
    #[track_caller]
    pub fn shutdown(&self, within: Duration) -> Result<(), NotReleased> {
        park_on(self.0.shutdown(within))
    }
}
