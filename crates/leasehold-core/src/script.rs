//! The one table of scripts: what each is called, what it takes, and under which hash the server knows it.

use crate::sha1;
use leasehold_lua as lua;

/// A Lua script and its contract. The contract's words are those of the header of the Lua file; a test compares them.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    source: &'static str,
    sha1: [u8; 40],
    keys: &'static [&'static str],
    args: &'static [&'static str],
    repeats: bool,
}

impl Script {
    const fn new(
        name: &'static str,
        source: &'static str,
        keys: &'static [&'static str],
        args: &'static [&'static str],
    ) -> Self {
        Self { name, source, sha1: sha1::hex(source.as_bytes()), keys, args, repeats: false }
    }

    /// A script that takes its keys and arguments any number of times.
    const fn repeated(
        name: &'static str,
        source: &'static str,
        keys: &'static [&'static str],
        args: &'static [&'static str],
    ) -> Self {
        Self { repeats: true, ..Self::new(name, source, keys, args) }
    }

    /// Folder and verb, such as `lock/acquire`: where the file stands below `lua/`, without its ending.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The text that the server runs: preludes and body.
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// SHA-1 of the text, in hexadecimal: the script's name in `EVALSHA`.
    pub fn sha1(&'static self) -> &'static str {
        // The digits are ASCII, so this never falls back.
        std::str::from_utf8(&self.sha1).unwrap_or_default()
    }

    /// The words of the `KEYS` slots, in order.
    pub const fn keys(&self) -> &'static [&'static str] {
        self.keys
    }

    /// The words of the `ARGV` slots, in order.
    pub const fn args(&self) -> &'static [&'static str] {
        self.args
    }

    /// Whether keys and arguments come in groups, one group for each lock.
    pub const fn repeats(&self) -> bool {
        self.repeats
    }
}

/// Takes the reentrant lock, or raises a hold count.
pub static ACQUIRE: Script =
    Script::new("lock/acquire", lua::lock::ACQUIRE, &["lock"], &["hold", "count", "lease", "not_after"]);
/// Lowers a hold count of the reentrant lock, or ends a hold.
pub static RELEASE: Script =
    Script::new("lock/release", lua::lock::RELEASE, &["lock", "channel"], &["hold", "count", "publish"]);
/// Renews many leases.
pub static RENEW: Script = Script::repeated("lock/renew", lua::lock::RENEW, &["lock"], &["hold", "lease"]);
/// Ends the hold of a named holder of the reentrant lock.
pub static FORCE_RELEASE: Script =
    Script::new("lock/force_release", lua::lock::FORCE_RELEASE, &["lock", "channel"], &["holder", "publish"]);
/// Tells who holds the reentrant lock.
pub static INSPECT: Script = Script::new("lock/inspect", lua::lock::INSPECT, &["lock"], &[]);

/// Takes the fenced lock, or raises a hold count.
pub static FENCED_ACQUIRE: Script =
    Script::new("fenced/acquire", lua::fenced::ACQUIRE, &["lock", "token"], &["hold", "count", "lease", "not_after"]);
/// Tells the last fencing token of a fenced lock.
pub static FENCED_TOKEN: Script = Script::new("fenced/token", lua::fenced::TOKEN, &["token"], &[]);
/// Takes the simple lock, or lengthens its lease.
pub static SIMPLE_ACQUIRE: Script =
    Script::new("simple/acquire", lua::simple::ACQUIRE, &["lock"], &["hold", "count", "lease", "not_after"]);
/// Ends a hold of the simple lock.
pub static SIMPLE_RELEASE: Script = Script::new("simple/release", lua::simple::RELEASE, &["lock"], &["hold", "count"]);
/// Renews many leases of simple locks.
pub static SIMPLE_RENEW: Script = Script::repeated("simple/renew", lua::simple::RENEW, &["lock"], &["hold", "lease"]);
/// Tells who holds the simple lock.
pub static SIMPLE_INSPECT: Script = Script::new("simple/inspect", lua::simple::INSPECT, &["lock"], &[]);
/// Takes the read half of a read-write lock, or raises a hold count.
pub static READ_ACQUIRE: Script = Script::new(
    "read/acquire",
    lua::read::ACQUIRE,
    &["lock", "channel", "readers", "writers", "hold_key"],
    &["hold", "count", "lease", "not_after", "writer", "prefer", "publish"],
);
/// Lowers a hold count of a reader, or ends its hold.
pub static READ_RELEASE: Script = Script::new(
    "read/release",
    lua::read::RELEASE,
    &["lock", "channel", "readers", "writers", "hold_key"],
    &["hold", "count", "publish"],
);
/// Renews the holds of many readers.
pub static READ_RENEW: Script = Script::repeated(
    "read/renew",
    lua::read::RENEW,
    &["lock", "channel", "readers", "hold_key"],
    &["hold", "lease", "publish"],
);
/// Takes the write half of a read-write lock, raises a hold count, or leaves a mark.
pub static WRITE_ACQUIRE: Script = Script::new(
    "write/acquire",
    lua::write::ACQUIRE,
    &["lock", "channel", "readers", "writers"],
    &["hold", "count", "lease", "not_after", "reader", "mark", "publish"],
);
/// Lowers a hold count of a writer, or ends its hold, and takes its mark back.
pub static WRITE_RELEASE: Script = Script::new(
    "write/release",
    lua::write::RELEASE,
    &["lock", "channel", "readers", "writers"],
    &["hold", "count", "publish"],
);
/// Tells who holds a read-write lock.
pub static READ_WRITE_INSPECT: Script =
    Script::new("read_write/inspect", lua::read_write::INSPECT, &["lock", "readers"], &[]);

/// Every script there is.
pub static ALL: [&Script; 17] = [
    &ACQUIRE,
    &RELEASE,
    &RENEW,
    &FORCE_RELEASE,
    &INSPECT,
    &FENCED_ACQUIRE,
    &FENCED_TOKEN,
    &SIMPLE_ACQUIRE,
    &SIMPLE_RELEASE,
    &SIMPLE_RENEW,
    &SIMPLE_INSPECT,
    &READ_ACQUIRE,
    &READ_RELEASE,
    &READ_RENEW,
    &WRITE_ACQUIRE,
    &WRITE_RELEASE,
    &READ_WRITE_INSPECT,
];
