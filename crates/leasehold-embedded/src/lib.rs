//! The scripts of leasehold on an in-process keyspace: no server, no socket, no waiting.
//!
//! An [`EmbeddedServer`] runs the very Lua files that a Redis or Valkey server would run, on Lua 5.1, over typed keys with
//! expiry and Pub/Sub. An [`EmbeddedLink`] is the connections of one client to it, behind the same
//! [`Link`](leasehold_core::link::Link) as a real server's. Beside that it can do what a real server does only on bad days: lose a
//! request or its reply, hold it back, apply it twice, refuse a script in its middle, run out of memory, come back empty, step its clock.
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
//! - `KEYS` knows the pattern `*` only, `PEXPIRE` and `PEXPIREAT` have no options, and large hashes are listed in order of their fields;
//! - a score cannot be written in hexadecimal, and a score of -0 is 0 in large sets too;
//! - scripts have no `cjson`, `cmsgpack`, `bit`, `struct`, `os`, `coroutine`, `load`, `getmetatable`, `rawset`, `math.random` and
//!   `redis.sha1hex`.
//!
//! It is internal to leasehold and has no stability promise of its own. Use the crate `leasehold` with its feature `embedded`.

mod answer;
mod call_future;
mod channels;
mod clock;
mod command;
mod connections;
mod convert;
mod delivery;
mod fault;
mod in_flight;
mod keyspace;
mod link;
mod lua;
mod machine_timer;
mod manual_clock;
mod number;
mod recorder;
mod refusal;
mod server;
mod snapshot;
mod state;
mod transit;
mod value;

pub use clock::ServerClock;
pub use fault::{Aim, Fault};
pub use link::EmbeddedLink;
pub use manual_clock::{ManualClock, Sleep};
pub use recorder::{Recorded, Recorder};
pub use refusal::{Inside, Met};
pub use server::EmbeddedServer;
pub use snapshot::Snapshot;
