//! The scripts of each kind of lock, by the calls that `leasehold-core` makes of them: on the embedded engine with a clock that is
//! moved by hand, and on every server program of this machine where time does not matter.

mod any;
mod bounded;
mod conflicts;
#[path = "../support/eval.rs"]
mod eval;
mod fair;
mod fenced;
#[path = "../support/histories.rs"]
mod histories;
mod latch;
mod layout;
mod lock;
mod permits;
mod read_write;
mod record;
mod semaphore;
mod semaphores_random;
mod short_ways;
mod simple;
mod spin;
mod store;
mod support;
