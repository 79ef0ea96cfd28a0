//! Real faults of real servers, and of the processes that use them.
//!
//! Each test has servers of its own, and breaks them: kills, stops, restarts, pauses, fills and moves them, cuts what lies between, or does
//! the same to a process that holds a lock. The assertions are what the documentation promises to a caller, seen from the server wherever
//! that is possible. Time bounds are the promised ones, plus room for a busy machine.
//!
//! A test that needs another process starts this very program again: see [`child`].

mod active_active;
mod bulk;
mod child;
mod cluster;
mod commands;
mod connecting;
mod demotion;
mod durability;
mod fallback;
mod forks;
mod fsync;
mod latency;
mod lazy;
mod memory;
mod outages;
mod passwords;
mod permissions;
mod permissions_of_commands;
mod permissions_of_kinds;
mod processes;
mod runtimes;
mod scripts;
mod secrets;
mod sentinel;
mod services;
mod shutdown;
mod splitting;
mod support;
mod tickets;
#[cfg(feature = "tls")]
mod tls;
