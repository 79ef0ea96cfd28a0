//! The protocol of whole clients in a world of its own: real sessions, the real scripts on the embedded engine, and a network
//! that loses, delays and repeats; one virtual clock, no thread, no sleep.
//!
//! `LEASEHOLD_SEEDS=n` runs that many random worlds instead of the usual slice, and `LEASEHOLD_SEED=s` replays one, with its
//! history on standard error.

#[path = "protocol/client.rs"]
mod client;
#[path = "protocol/happening.rs"]
mod happening;
#[path = "protocol/kinds.rs"]
mod kinds;
#[path = "protocol/network.rs"]
mod network;
#[path = "protocol/random.rs"]
mod random;
#[path = "protocol/scenarios.rs"]
mod scenarios;
#[path = "protocol/weather.rs"]
mod weather;
#[path = "protocol/world.rs"]
mod world;
