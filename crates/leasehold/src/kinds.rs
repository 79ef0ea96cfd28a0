//! The purpose of each kind of lock, and what only that kind can do. One file is one kind, but for what several have in common: `counted`
//! and `group`.

mod any;
mod bare_semaphore;
mod counted;
mod fair;
mod fenced;
mod group;
mod latch;
mod multi;
mod quorum;
mod read_write;
mod semaphore;
mod simple;
mod spin;
mod striped;

pub use any::{AnyGuard, AnyLock};
pub use bare_semaphore::{BareSemaphore, BareSemaphoreGuard};
pub use fair::{FairGuard, FairLock, FencedFairGuard, FencedFairLock};
pub use fenced::{FencedGuard, FencedLock};
pub use group::GroupGuard;
pub use latch::{CountDownLatch, LatchWait, LatchWaiting};
pub use multi::{Member, MultiAcquire, MultiGuard, MultiLock};
pub use quorum::{QuorumAcquire, QuorumGuard, QuorumLock};
pub use read_write::{ReadGuard, ReadLock, ReadWriteLock, WriteGuard, WriteLock};
pub use semaphore::{HeldPermit, PermitCounts, PermitGuard, Semaphore};
pub use simple::{SimpleGuard, SimpleLock};
pub use spin::{SpinGuard, SpinLock};
pub use striped::StripedLock;
