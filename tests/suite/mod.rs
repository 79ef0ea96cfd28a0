//! The behaviour of locks and of what is built beside them, one file a topic. `conformance.rs` mounts every test on every engine
//! that can run it.

pub(crate) mod acquire;
pub(crate) mod admin;
pub(crate) mod admin_inspection;
pub(crate) mod blocking;
pub(crate) mod callbacks;
pub(crate) mod callbacks_that_panic;
pub(crate) mod conflicts;
pub(crate) mod drop;
pub(crate) mod durability;
pub(crate) mod fair_queue;
pub(crate) mod fencing;
pub(crate) mod field_bugs;
pub(crate) mod groups;
pub(crate) mod input;
pub(crate) mod latch;
pub(crate) mod loss;
pub(crate) mod outage;
pub(crate) mod read_write;
pub(crate) mod reentry;
pub(crate) mod release_lingering;
pub(crate) mod release_order;
pub(crate) mod semaphores;
pub(crate) mod semaphores_leased;
pub(crate) mod shutdown;
pub(crate) mod spin_and_simple;
pub(crate) mod stress;
pub(crate) mod telemetry;
pub(crate) mod time;
pub(crate) mod unknown_outcome;
pub(crate) mod unknown_outcome_copies;
pub(crate) mod waiting;
pub(crate) mod waiting_given_up;
pub(crate) mod waiting_handed_on;
pub(crate) mod waiting_unpolled;
