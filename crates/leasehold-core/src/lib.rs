//! The protocol of leasehold without I/O.
//!
//! This crate knows what a lock looks like on the server, which script does what, what each reply means, and what a client
//! must do next. It opens no socket, spawns no task, and reads no clock: time and randomness are arguments, so that the
//! whole protocol can run in a simulation.
//!
//! It is internal to leasehold and has no stability promise of its own. Use the crate `leasehold`.

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
pub mod reply;
pub mod scan;
pub mod script;
pub mod session;
pub mod settings;
mod sync;
pub mod time;
pub mod wire;
