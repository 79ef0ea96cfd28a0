//! The read-write lock.

use crate::acquire::Acquire;
use crate::client_inner::Handle;
use crate::error::Error;
use crate::guard::Guard;
use crate::kind::{Read, Write};
use crate::lock::Lock;
use crate::lock_spec::LockSpec;
use leasehold_core::command::Kind;
use std::sync::Arc;
use std::time::Duration;

/// A lock that either many readers hold, or one writer.
///
/// **When to use it:** where many read what few change, and reading takes long enough to be worth a round trip. **When not:** where
/// the critical section is short: a plain lock is one command, too, and has less to go wrong. Without
/// [`prefer_writers`](Self::prefer_writers) readers that come without a break keep a writer waiting for ever.
///
/// The halves are locks of their own. A writer may take the read half too, and so **downgrade**: see
/// [`Guard::downgrade`]. A reader never becomes a writer: an owner that asks for the write half while it holds the read half gets
/// [`Error::UpgradeNotSupported`] at once, because it would wait for itself. Every reader has its own lease: one that dies is gone by its own deadline,
/// whatever others renew. On the server the lock is Redisson's `RReadWriteLock`.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let catalog = client.read_write_lock("catalog");
/// let one = catalog.read().acquire().await?;
/// let other = catalog.read().acquire().await?;
/// assert!(catalog.write().try_acquire().await?.is_none(), "readers are in");
/// one.release().await?;
/// other.release().await?;
/// catalog.write().with(async |_| { /* nobody reads */ }).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    read: ReadLock,
    write: WriteLock,
}

/// The read half of a [`ReadWriteLock`]: any number of holders, while there is no writer.
///
/// **When to use it:** to read data that no writer may change during the read. **When not:** to read before a write of
/// that data: the read half cannot become the write half.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let prices = client.read_write_lock("catalog").read();
/// let guard = prices.acquire().await?;
/// assert!(prices.try_acquire().await?.is_some(), "readers do not exclude each other");
/// # guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type ReadLock = Lock<Read>;

/// The write half of a [`ReadWriteLock`]: one holder, and no readers but itself.
///
/// **When to use it:** to change what readers must not see half done. **When not:** to read.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let catalog = client.read_write_lock("catalog");
/// let writing = catalog.write().acquire().await?;
/// assert!(catalog.read().try_acquire().await?.is_none());
/// let reading = writing.downgrade().await?; // nobody else wrote in between
/// assert!(catalog.read().try_acquire().await?.is_some());
/// # reading.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type WriteLock = Lock<Write>;

/// How long the mark of a waiting writer counts, unless it is renewed: three attempts.
const MARK: Duration = Duration::from_secs(3);

impl ReadWriteLock {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self {
            read: Lock::of(LockSpec::new(handle.clone(), Kind::Read, name)),
            write: Lock::of(LockSpec::new(handle.clone(), Kind::Write, name)),
        }
    }

    /// Has waiting writers keep new readers out, over all clients of this library that say so too.
    ///
    /// Readers that hold the lock already, and writers that read, are not kept out; those of Redisson do not know of it. Writers that
    /// come without a break now keep readers waiting instead.
    #[must_use]
    pub fn prefer_writers(self) -> Self {
        let prefer = |spec: &LockSpec| spec.with_options(|options| options.prefer_writers = Some(MARK));
        Self { read: Lock::of(prefer(self.read.spec())), write: Lock::of(prefer(self.write.spec())) }
    }

    /// Counts the metrics of both halves under `class`. See [`Lock::class`].
    #[must_use]
    pub fn class(self, class: impl AsRef<str>) -> Self {
        let class = class.as_ref();
        Self { read: self.read.class(class), write: self.write.class(class) }
    }

    /// The name as the caller gave it, without the client's prefix.
    pub fn name(&self) -> &str {
        self.read.name()
    }

    /// The half that many may hold.
    pub fn read(&self) -> ReadLock {
        self.read.clone()
    }

    /// The half that one alone may hold.
    pub fn write(&self) -> WriteLock {
        self.write.clone()
    }
}

impl Guard<Write> {
    /// Acquires the read half in addition to this write half. This only waits for the server, because the lock is
    /// already held.
    ///
    /// # Errors
    ///
    /// Those of the server. If the write half was lost meanwhile, it waits as any reader does.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`]. The write half stays held.
    pub async fn read(&self) -> Result<Guard<Read>, Error> {
        let spec = self.lock().spec().with_kind(Kind::Read);
        let acquire = Acquire::new(spec).standing_beside(self.hold());
        acquire.await
    }

    /// Becomes a reader without letting another writer in between: takes the read half, then releases the write half, which wakes
    /// readers everywhere.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::read`] and of [`Guard::release`]. After an error both halves are given back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives both halves back.
    pub async fn downgrade(self) -> Result<Guard<Read>, Error> {
        let reading = self.read().await?;
        self.release().await?;
        Ok(reading)
    }
}
