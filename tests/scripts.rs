//! The scripts of each kind of lock, by the calls that `leasehold-core` makes of them: on the embedded engine with a clock that is
//! moved by hand, and on every server program of this machine where time does not matter.

#[path = "scripts/counters_model.rs"]
mod counters_model;
#[path = "support/eval.rs"]
mod eval;
#[path = "scripts/fair/mod.rs"]
mod fair;
#[path = "scripts/fenced.rs"]
mod fenced;
#[path = "support/histories.rs"]
mod histories;
#[path = "scripts/latch.rs"]
mod latch;
#[path = "scripts/layout.rs"]
mod layout;
#[path = "scripts/lock.rs"]
mod lock;
#[path = "scripts/permits.rs"]
mod permits;
#[path = "scripts/read_write.rs"]
mod read_write;
#[path = "scripts/record.rs"]
mod record;
#[path = "scripts/semaphore.rs"]
mod semaphore;
#[path = "scripts/simple.rs"]
mod simple;
#[path = "scripts/spin.rs"]
mod spin;
#[path = "scripts/store.rs"]
mod store;
#[path = "scripts/strangers.rs"]
mod strangers;
#[path = "scripts/support/mod.rs"]
mod support;
