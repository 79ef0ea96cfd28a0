//! Many worlds, and what is told of them.

pub(crate) mod digest;
pub(crate) mod runner;
pub(crate) mod stats;
