//! The protocol of whole clients in a world of its own: real sessions, the real scripts on the embedded engine, and a network
//! that loses, delays and repeats; one virtual clock, no thread, no sleep.
//!
//! Everything that happens in a world follows from its seed: [`run`] runs many worlds, and [`replay`] tells the history of one.

mod arrival;
mod client;
mod clock;
mod digest;
mod disasters;
pub mod explore;
mod groups;
mod happening;
mod kinds;
mod last_faults;
mod latches;
mod leftovers;
mod network;
mod order;
mod outage;
mod plan;
mod processes;
mod random;
mod runner;
#[cfg(test)]
mod scenarios;
mod shop;
mod stats;
mod store;
mod tenure;
mod told;
mod watched;
mod weather;
mod world;

pub use kinds::Family;
pub use runner::{Failure, Options, Report, replay, run};
