//! The scripts by themselves, each reply and each known fault, without a session: on the embedded engine, and on every server of this
//! machine where time does not matter.

#[path = "scripts/counters_model.rs"]
mod counters_model;
#[path = "scripts/latch.rs"]
mod latch;
#[path = "scripts/permits.rs"]
mod permits;
#[path = "scripts/record.rs"]
mod record;
#[path = "scripts/semaphore.rs"]
mod semaphore;
#[path = "scripts/store.rs"]
mod store;
#[path = "scripts/support_counters.rs"]
mod support_counters;
