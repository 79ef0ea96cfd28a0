//! Many worlds, and what is told of them.

pub(crate) mod digest;
pub(crate) mod mask;
mod reduce;
pub(crate) mod runner;
pub(crate) mod shrink;
pub(crate) mod stats;
