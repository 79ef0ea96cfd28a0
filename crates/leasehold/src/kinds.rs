//! The kinds of locks, with the operations of each kind. `group` implements both the multi lock and the quorum lock.

mod any;
mod fair;
mod fenced;
pub(crate) mod group;
mod latch;
mod multi;
mod polled;
mod quorum;
pub(crate) mod read_write;
mod semaphore;
mod striped;

pub use any::AnyLock;
pub use fair::{FairLock, FencedFairLock};
pub use fenced::FencedLock;
pub use group::guard::GroupGuard;
pub use group::{GroupAcquire, GroupLock};
pub use latch::{CountDownLatch, LatchWait};
pub use multi::{MultiAcquire, MultiGuard, MultiLock};
pub use polled::{SimpleLock, SpinLock};
pub use quorum::{QuorumAcquire, QuorumGuard, QuorumLock};
pub use read_write::{ReadLock, ReadWriteLock, WriteLock};
pub use semaphore::{BareSemaphore, HeldPermit, PermitCounts, Semaphore};
pub use striped::StripedLock;
