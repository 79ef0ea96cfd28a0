//! The command `leasehold` as a process, on a real server.
//!
//! `support.rs` starts it and watches it. Every test has a server, or a name of a lock, of its own.

mod bench;
mod config;
mod contention;
mod deadlocks;
mod doctor;
mod exits;
mod frame;
mod hold;
mod http;
mod inherits;
mod input;
mod inspect;
mod kinds;
mod leader;
mod loss;
mod ls;
mod once;
mod pace;
mod permits;
mod records;
mod screen;
mod serve;
mod serve_security;
mod several;
mod signals;
mod streams;
mod succession;
mod support;
mod terminal;
mod tls;
mod top;
mod topologies;
mod unlock;
mod waits;
mod watch;
