//! The read-write lock.

use crate::client::inner::Handle;
use crate::error::Error;
use crate::kind::{Read, Write};
use crate::lock::Lock;
use crate::lock::acquire::Acquire;
use crate::lock::guard::Guard;
use crate::lock::spec::LockSpec;
use leasehold_core::command::Kind;
use std::sync::Arc;
use std::time::Duration;

/// A lock with many readers or one writer.
///
/// **When to use it:** for frequent reads and rare changes, if a read takes longer than a round trip. **When not:** for short critical
/// sections: a plain lock also costs one command, and is simpler. Without [`prefer_writers`](Self::prefer_writers) a continuous stream of
/// readers starves writers.
///
/// Both halves are locks. A writer may also acquire the read half, and thereby **downgrade**: see [`Guard::downgrade`]. A reader cannot become a writer. An
/// owner that holds the read half and requests the write half would wait for itself, and gets [`Error::UpgradeNotSupported`] at once. Every reader
/// has its own lease, so a dead reader expires by its own deadline, even while other readers renew. On the server the lock is Redisson's
/// `RReadWriteLock`.
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
    write: WriteLock,
}

/// The read half of a [`ReadWriteLock`]: any number of holders, while no writer holds the lock.
///
/// **When to use it:** to read data that no writer may change during the read. **When not:** to read before a write of that data: the read
/// half cannot become the write half.
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

/// The write half of a [`ReadWriteLock`]: one holder, and no other readers.
///
/// **When to use it:** to change data that readers must not see in an intermediate state. **When not:** to read.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let catalog = client.read_write_lock("catalog");
/// let writing = catalog.write().acquire().await?;
/// assert!(catalog.read().try_acquire().await?.is_none());
/// let reading = writing.downgrade().await?; // no other writer in between
/// assert!(catalog.read().try_acquire().await?.is_some());
/// # reading.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type WriteLock = Lock<Write>;

/// The lifetime of a waiting writer's mark without a renewal: three attempts.
pub(crate) const MARK: Duration = Duration::from_secs(3);

impl ReadWriteLock {
    pub(crate) fn new(handle: &Arc<Handle>, name: &str) -> Self {
        Self { write: Lock::of(LockSpec::new(handle.clone(), Kind::Write, name)) }
    }

    /// Makes waiting writers block new readers. This affects all leasehold clients with this setting.
    ///
    /// Waiting writers do not block current readers, or writers that acquire the read half. Redisson's readers ignore this setting. A continuous stream of writers then starves
    /// readers.
    #[must_use]
    pub fn prefer_writers(self) -> Self {
        let spec = self.write.spec().with(|options| options.prefer_writers = true);
        Self { write: Lock::of(spec) }
    }

    /// Counts the metrics of both halves under `class`. See [`Lock::class`].
    #[must_use]
    pub fn class(self, class: impl AsRef<str>) -> Self {
        Self { write: self.write.class(class) }
    }

    /// Returns the name without the client's prefix.
    pub fn name(&self) -> &str {
        self.write.name()
    }

    /// Returns the read half, which any number of readers may hold.
    pub fn read(&self) -> ReadLock {
        Lock::of(self.write.spec().with(|spec| spec.kind = Kind::Read))
    }

    /// Returns the write half, which one writer may hold.
    pub fn write(&self) -> WriteLock {
        self.write.clone()
    }
}

impl Guard<Write> {
    /// Acquires the read half in addition to this write half. This waits only for the server, because the lock is already held.
    ///
    /// # Errors
    ///
    /// The errors of the server. If the write half was lost, this waits like any reader.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`]. The write half stays held.
    pub async fn read(&self) -> Result<Guard<Read>, Error> {
        let spec = self.lock().spec().with(|spec| spec.kind = Kind::Read);
        let mut acquire = Acquire::new(spec);
        acquire.beside = Some(self.hold());
        acquire.await
    }

    /// Downgrades to a reader: acquires the read half, then releases the write half, which wakes readers. No other writer can acquire the lock in
    /// between.
    ///
    /// # Errors
    ///
    /// The errors of [`Guard::read`] and [`Guard::release`]. After an error both halves are released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases both halves.
    pub async fn downgrade(self) -> Result<Guard<Read>, Error> {
        let reading = self.read().await?;
        self.release().await?;
        Ok(reading)
    }
}
