//! The protocol of whole clients in a world of its own: real sessions, the real scripts on the embedded engine, and a network
//! that loses, delays and repeats; one virtual clock, no thread, no sleep.
//!
//! Everything that happens in a world follows from its seed: [`run`] runs many worlds, and [`replay`] tells the history of one.

mod faults;
mod invariants;
mod jvms;
mod plan;
mod report;
mod run;
#[cfg(test)]
mod scenarios;
mod shrink;
mod terms;
mod workload;
mod world;

pub use report::{Failure, Options, Report, replay, run};
pub use shrink::{Shrunk, replay_without, shrink};
pub use terms::LockFamily;
pub use world::parts::Mask;
