//! The protocol of leasehold without I/O.
//!
//! This crate defines the server-side layout of locks, the scripts, the meaning of replies, and a client's next step.
//! It opens no socket, spawns no task, and reads no clock. Time and randomness are arguments, so the whole protocol can
//! run in a simulation.
//!
//! This crate is internal to leasehold, without a stability promise. Use the crate `leasehold`.

pub mod backoff;
pub mod batch;
pub mod call;
pub mod command;
pub mod error;
pub mod glob;
pub mod hold_cell;
pub mod link;
pub mod name;
mod number_map;
pub mod owner;
pub mod plain;
mod queue;
pub mod reply;
pub mod scan;
pub mod script;
pub mod session;
pub mod settings;
mod sync;
pub mod time;
pub mod wire;
