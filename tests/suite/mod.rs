//! The behaviour of the reentrant lock, one file a topic. `conformance.rs` mounts every test on every engine that can run it.

pub(crate) mod endings;
pub(crate) mod input;
pub(crate) mod outside;
pub(crate) mod reentrancy;
pub(crate) mod waiting;
