//! The scripts of leasehold on an in-process keyspace, without a server or a socket.
//!
//! An [`EmbeddedServer`] runs the Lua files of leasehold on Lua 5.1, over typed keys with expiry and Pub/Sub. An
//! [`EmbeddedLink`] has the connections of one client, behind the same [`Link`](leasehold_core::link::Link) as a real
//! server's. It also injects faults: lost, delayed or duplicated messages, errors within a script, full memory, data
//! loss, clock steps.
//!
//! The engine (`engine/`) knows no clients. The server has an engine and its ends of all connections, with their
//! faults. A link has the client's ends.
//!
//! The engine supports the commands that the scripts use, completely. Any other command is an error.
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
