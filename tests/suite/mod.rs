//! The behaviour of locks and of what is built beside them, one file a topic. `conformance.rs` mounts every test on every engine
//! that can run it.

pub(crate) mod beside;
pub(crate) mod blocking_kinds;
pub(crate) mod conflicts;
pub(crate) mod drops;
pub(crate) mod duplicates;
pub(crate) mod durability;
pub(crate) mod endings;
pub(crate) mod fair;
pub(crate) mod farewells;
pub(crate) mod fences;
pub(crate) mod field_bugs;
pub(crate) mod foreign;
pub(crate) mod foreign_code;
pub(crate) mod given_up;
pub(crate) mod groups;
pub(crate) mod input;
pub(crate) mod inspection;
pub(crate) mod latch;
pub(crate) mod outages;
pub(crate) mod outside;
pub(crate) mod paused_time;
pub(crate) mod permits;
pub(crate) mod polling;
pub(crate) mod read_write;
pub(crate) mod reentrancy;
pub(crate) mod replies;
pub(crate) mod semaphores;
pub(crate) mod storm;
pub(crate) mod telemetry;
pub(crate) mod unpolled;
pub(crate) mod waiting;
pub(crate) mod wire;
