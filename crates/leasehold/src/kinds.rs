//! The kinds of locks, with the operations of each kind. Each file is one kind, except the shared parts `counted` and `group`.

mod any;
mod bare_semaphore;
mod counted;
mod fair;
mod fenced;
pub(crate) mod group;
mod latch;
mod multi;
mod quorum;
mod read_write;
mod semaphore;
mod simple;
mod spin;
mod striped;

pub use any::AnyLock;
pub use bare_semaphore::BareSemaphore;
pub use fair::{FairLock, FencedFairLock};
pub use fenced::FencedLock;
pub use group::guard::GroupGuard;
pub use group::{GroupAcquire, GroupLock};
pub use latch::{CountDownLatch, LatchWait, LatchWaiting};
pub use multi::{MultiAcquire, MultiGuard, MultiLock};
pub use quorum::{QuorumAcquire, QuorumGuard, QuorumLock};
pub use read_write::{ReadLock, ReadWriteLock, WriteLock};
pub use semaphore::{HeldPermit, PermitCounts, Semaphore};
pub use simple::SimpleLock;
pub use spin::SpinLock;
pub use striped::StripedLock;
