//! The scripts of leasehold on an in-process keyspace, without a server or a socket.
//!
//! An [`EmbeddedServer`] runs the Lua files of leasehold on Lua 5.1, over typed keys with expiry and Pub/Sub. An
//! [`EmbeddedLink`] contains one client's connections, and implements [`Link`](leasehold_core::link::Link) like the
//! connections to a real server. Both inject faults: lost, delayed or duplicated messages, errors within a script, full
//! memory, data loss, clock steps.
//!
//! The engine (`engine/`) is independent of clients. The server owns an engine and the server ends of all connections,
//! with their faults. A link owns the client ends.
//!
//! The engine fully supports the commands that the scripts use. Any other command is an error.
//!
//! `tests/differential/` of the workspace compares random histories on this engine and on servers.
//!
//! # Differences from Redis 7
//!
//! Commands, replies and error texts are those of Redis 7.0.15, except that
//!
//! - an error inside an array that a script returns makes the whole reply an error;
//! - the error of a final `return redis.call(…)` names no line, because Lua keeps no frame of a tail call;
//! - `KEYS` only supports the pattern `*`, `PEXPIRE` only `GT`, and `PEXPIREAT` no option; large hashes are sorted by
//!   field;
//! - a score cannot be written in hexadecimal, and a score of -0 is 0 in large sets too;
//! - scripts have no `cjson`, `cmsgpack`, `bit`, `struct`, `os`, `coroutine`, `load`, `getmetatable`, `rawset`,
//!   `math.random` and `redis.sha1hex`.
//!
//! This crate is internal to leasehold, without a stability promise. Use the crate `leasehold` with its feature
//! `embedded`.

mod clock;
mod engine;
mod link;
mod server;

pub use clock::{ClockSort, ManualClock, ServerClock, Sleep};
pub use engine::refusal::{RefusalEffect, RefuseAt};
pub use link::EmbeddedLink;
pub use server::EmbeddedServer;
pub use server::fault::{Fault, FaultTarget};
pub use server::recorded::Recorded;
pub use server::recorder::Recorder;
pub use server::snapshot::Snapshot;
