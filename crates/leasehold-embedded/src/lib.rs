//! The scripts of leasehold on an in-process keyspace: no server, no socket, no waiting.
//!
//! An [`EmbeddedServer`] runs the very Lua files that a Redis or Valkey server would run, on Lua 5.1, over typed keys with
//! expiry and Pub/Sub. An [`EmbeddedLink`] is the connections of one client to it, behind the same
//! [`Link`](leasehold_core::link::Link) as a real server's. Beside that it can do what a real server does only on bad days: lose a
//! request or its reply, hold it back, apply it twice, refuse a script in its middle, run out of memory, come back empty, step its clock.
//!
//! The engine proper (`engine/`) knows nothing of clients. The server has an engine and its ends of all connections, with whatever goes wrong
//! on them, and a link has the client's ends.
//!
//! It has what the scripts use. A command that it lacks is an error that says so; nothing is imitated by halves.
//!
//! `tests/differential/` of the workspace runs random histories on this engine and on servers, and compares everything.
//!
//! # Differences from Redis 7
//!
//! Commands, replies and error texts are those of Redis 7.0.15, except that
//!
//! - an error inside an array that a script returns makes the whole reply an error;
//! - the error of `return redis.call(…)` at the end of a function names no line, because Lua keeps no frame of a tail call;
//! - `KEYS` knows the pattern `*` only, `PEXPIRE` has the option `GT` alone, and `PEXPIREAT` none, and large hashes are listed in order of their fields;
//! - a score cannot be written in hexadecimal, and a score of -0 is 0 in large sets too;
//! - scripts have no `cjson`, `cmsgpack`, `bit`, `struct`, `os`, `coroutine`, `load`, `getmetatable`, `rawset`, `math.random` and
//!   `redis.sha1hex`.
//!
//! It is internal to leasehold and has no stability promise of its own. Use the crate `leasehold` with its feature `embedded`.

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
