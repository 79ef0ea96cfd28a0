//! The protocol of whole clients in a world of its own: real sessions, the real scripts on the embedded engine, and a network
//! that loses, delays and repeats; one virtual clock, no thread, no sleep.
//!
//! Everything that happens in a world follows from its seed: [`run()`] runs many worlds, and [`replay`] tells the history of one.
//!
//! Modules depend on each other in one direction:
//!
//! - `terms`: kinds of locks, mixes of faults and settings. `world`: clock, servers, network, processes, and the facts that an observer sees.
//! - `workload`, `tickets`, `faults` and `jvms` act on the world. Acts are events of the world, which does not know their types.
//! - `invariants` judges the world by its facts.
//! - `plan` chooses terms and acts by the seed. `run` plays one world before its invariants. `report` and `shrink` play many.

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
mod tickets;
mod workload;
mod world;

pub use report::{Failure, Options, Report, replay, run};
pub use shrink::{Shrunk, replay_without, shrink};
pub use terms::LockFamily;
pub use world::parts::Mask;
