//! Real faults of real servers, and of the processes that use them.
//!
//! Each test has servers of its own, and breaks them: kills, stops, restarts, pauses, fills and moves them, cuts what lies between, or does
//! the same to a process that holds a lock. The assertions are what the documentation promises to a caller, seen from the server wherever
//! that is possible. Time bounds are the promised ones, plus room for a busy machine.
//!
//! A test that needs another process starts this very program again: see [`child`].

#[path = "faults/bulk.rs"]
mod bulk;
#[path = "faults/child.rs"]
mod child;
#[path = "faults/cluster.rs"]
mod cluster;
#[path = "faults/commands.rs"]
mod commands;
#[path = "faults/connecting.rs"]
mod connecting;
#[path = "faults/demotion.rs"]
mod demotion;
#[path = "faults/durability.rs"]
mod durability;
#[path = "faults/latency.rs"]
mod latency;
#[path = "faults/lazy.rs"]
mod lazy;
#[path = "faults/memory.rs"]
mod memory;
#[path = "faults/outages.rs"]
mod outages;
#[path = "faults/passwords.rs"]
mod passwords;
#[path = "faults/permissions.rs"]
mod permissions;
#[path = "faults/permissions_of_commands.rs"]
mod permissions_of_commands;
#[path = "faults/permissions_of_kinds.rs"]
mod permissions_of_kinds;
#[path = "faults/processes.rs"]
mod processes;
#[path = "faults/runtimes.rs"]
mod runtimes;
#[path = "faults/scripts.rs"]
mod scripts;
#[path = "faults/secrets.rs"]
mod secrets;
#[path = "faults/sentinel.rs"]
mod sentinel;
#[path = "faults/shutdown.rs"]
mod shutdown;
#[path = "faults/support.rs"]
mod support;
