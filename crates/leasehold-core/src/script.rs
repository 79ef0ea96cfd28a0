//! The one table of scripts: what each is called, what it takes, and under which hash the server knows it.

use leasehold_lua as lua;
use sha1_smol::Sha1;
use std::sync::OnceLock;

/// A Lua script and its contract. The contract's words are those of the header of the Lua file; a test compares them.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    source: &'static str,
    /// Computed at the first use: the compiler's interpreter would take half a minute for all scripts, in each build of each user.
    sha1: OnceLock<String>,
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
        Self { name, source, sha1: OnceLock::new(), keys, args, repeats: false }
    }

    /// A script that takes its keys and arguments any number of times.
    const fn repeated(
        name: &'static str,
        source: &'static str,
        keys: &'static [&'static str],
        args: &'static [&'static str],
    ) -> Self {
        let mut script = Self::new(name, source, keys, args);
        script.repeats = true;
        script
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
        self.sha1.get_or_init(|| Sha1::from(self.source).hexdigest())
    }

    /// The words of the `KEYS` slots, in order.
    pub const fn keys(&self) -> &'static [&'static str] {
        self.keys
    }

    /// The words of the `ARGV` slots, in order.
    pub const fn args(&self) -> &'static [&'static str] {
        self.args
    }

    /// Whether it renews leases.
    pub fn is_renewal(&self) -> bool {
        self.name.ends_with("/renew")
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

/// Takes the fair lock, raises a hold count, or takes a place in the queue.
pub static FAIR_ACQUIRE: Script = Script::new(
    "fair/acquire",
    lua::fair::ACQUIRE,
    FAIR_KEYS,
    &["hold", "count", "lease", "waits", "placed", "not_after", "settings", "publish"],
);
/// Lowers a hold count of the fair lock, or ends a hold and its place in the queue.
pub static FAIR_RELEASE: Script =
    Script::new("fair/release", lua::fair::RELEASE, FAIR_KEYS, &["hold", "count", "settings", "publish"]);
/// Says that a process waits for the fair lock, and asks whether it is its turn.
pub static FAIR_BEAT: Script =
    Script::new("fair/beat", lua::fair::BEAT, FAIR_KEYS, &["client", "front", "settings", "publish"]);
/// Ends the hold of a named holder of the fair lock.
pub static FAIR_FORCE_RELEASE: Script =
    Script::new("fair/force_release", lua::fair::FORCE_RELEASE, FAIR_KEYS, &["holder", "settings", "publish"]);
/// Tells who holds the fair lock, and who waits for it.
pub static FAIR_INSPECT: Script =
    Script::new("fair/inspect", lua::fair::INSPECT, &["lock", "queue", "deadlines", "marks"], &["settings"]);
/// Takes the fair lock with a fencing token, raises a hold count, or takes a place in the queue.
pub static FENCED_FAIR_ACQUIRE: Script = Script::new(
    "fenced_fair/acquire",
    lua::fenced_fair::ACQUIRE,
    &["lock", "queue", "deadlines", "channel", "marks", "token"],
    &["hold", "count", "lease", "waits", "placed", "not_after", "settings", "publish"],
);

/// The keys of the scripts of the fair lock.
const FAIR_KEYS: &[&str] = &["lock", "queue", "deadlines", "channel", "marks"];

/// Takes permits (semaphore).
pub static SEMAPHORE_ACQUIRE: Script = Script::new(
    "semaphore/acquire",
    lua::semaphore::ACQUIRE,
    &["semaphore", "record"],
    &["count", "permits", "not_after", "memory"],
);
/// Gives the permits of a hold back (semaphore).
pub static SEMAPHORE_RELEASE: Script = Script::new(
    "semaphore/release",
    lua::semaphore::RELEASE,
    &["semaphore", "record", "channel"],
    &["count", "permits", "granted", "memory", "publish"],
);
/// Sets the number of permits where there is none (semaphore).
pub static SEMAPHORE_SET: Script = Script::new(
    "semaphore/set",
    lua::semaphore::SET,
    &["semaphore", "record", "channel"],
    &["permits", "lifetime", "memory", "publish"],
);
/// Adds permits, or takes some away for good (semaphore).
pub static SEMAPHORE_ADD: Script = Script::new(
    "semaphore/add",
    lua::semaphore::ADD,
    &["semaphore", "record", "channel"],
    &["permits", "memory", "publish"],
);
/// Takes all available permits (semaphore).
pub static SEMAPHORE_DRAIN: Script =
    Script::new("semaphore/drain", lua::semaphore::DRAIN, &["semaphore", "record"], &["memory"]);
/// Tells how many permits are available (semaphore).
pub static SEMAPHORE_INSPECT: Script = Script::new("semaphore/inspect", lua::semaphore::INSPECT, &["semaphore"], &[]);
/// Takes permits (leased semaphore).
pub static PERMITS_ACQUIRE: Script = Script::new(
    "permits/acquire",
    lua::permits::ACQUIRE,
    &["permits", "deadlines", "channel"],
    &["ids", "count", "lease", "not_after", "publish"],
);
/// Gives the permits of a hold back (leased semaphore).
pub static PERMITS_RELEASE: Script = Script::new(
    "permits/release",
    lua::permits::RELEASE,
    &["permits", "deadlines", "channel"],
    &["ids", "count", "publish"],
);
/// Gives permits back by their ids (leased semaphore).
pub static PERMITS_GIVE: Script =
    Script::new("permits/give", lua::permits::GIVE, &["permits", "deadlines", "channel"], &["ids", "publish"]);
/// Renews the leases of many holds in one call (leased semaphore).
pub static PERMITS_RENEW: Script =
    Script::repeated("permits/renew", lua::permits::RENEW, &["deadlines"], &["ids", "lease"]);
/// Sets the capacity where there is none (leased semaphore).
pub static PERMITS_SET: Script = Script::new(
    "permits/set",
    lua::permits::SET,
    &["permits", "deadlines", "record", "channel"],
    &["capacity", "memory", "publish"],
);
/// Sets the capacity, also while permits are held (leased semaphore).
pub static PERMITS_RESIZE: Script = Script::new(
    "permits/resize",
    lua::permits::RESIZE,
    &["permits", "deadlines", "record", "channel"],
    &["capacity", "memory", "publish"],
);
/// Tells how many permits are available and held (leased semaphore).
pub static PERMITS_INSPECT: Script =
    Script::new("permits/inspect", lua::permits::INSPECT, &["permits", "deadlines"], &[]);
/// Tells the lease left of one permit (leased semaphore).
pub static PERMITS_LEASE: Script = Script::new("permits/lease", lua::permits::LEASE, &["deadlines"], &["id"]);
/// Asks whether the latch is open.
pub static LATCH_ACQUIRE: Script = Script::new("latch/acquire", lua::latch::ACQUIRE, &["latch"], &["not_after"]);
/// Sets the count of a latch that has none.
pub static LATCH_SET: Script =
    Script::new("latch/set", lua::latch::SET, &["latch", "record", "channel"], &["count", "memory", "publish"]);
/// Counts a latch down.
pub static LATCH_COUNT_DOWN: Script = Script::new(
    "latch/count_down",
    lua::latch::COUNT_DOWN,
    &["latch", "record", "channel"],
    &["count", "memory", "publish"],
);
/// Tells the count of a latch.
pub static LATCH_INSPECT: Script = Script::new("latch/inspect", lua::latch::INSPECT, &["latch"], &[]);
/// Removes a latch, which opens it.
pub static LATCH_DELETE: Script =
    Script::new("latch/delete", lua::latch::DELETE, &["latch", "record", "channel"], &["memory", "publish"]);
/// Writes who a client is.
pub static RECORD_PUT: Script =
    Script::new("record/put", lua::record::PUT, &["client"], &["host", "pid", "application", "since", "lifetime"]);
/// Tells who a client is.
pub static RECORD_GET: Script = Script::new("record/get", lua::record::GET, &["client"], &[]);
/// Removes the record of a client.
pub static RECORD_REMOVE: Script = Script::new("record/remove", lua::record::REMOVE, &["client"], &[]);
/// Reads a guarded value.
pub static STORE_READ: Script =
    Script::new("store/read", lua::store::READ, &["data", "fence"], &["token", "owner", "keep"]);
/// Writes a guarded value.
pub static STORE_WRITE: Script = Script::new(
    "store/write",
    lua::store::WRITE,
    &["data", "fence"],
    &["token", "owner", "keep", "number", "value", "lifetime"],
);
/// Registers a fencing token for something that is guarded elsewhere.
pub static STORE_CHECK: Script = Script::new("store/check", lua::store::CHECK, &["fence"], &["token", "owner", "keep"]);

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

/// Writes the lease of a lock once more, so that a `WAIT` behind it proves something.
pub static DURABLE_MARK: Script = Script::new("durable/mark", lua::durable::MARK, &["lock"], &[]);

/// Every script there is.
pub static ALL: &[&Script] = &[
    &ACQUIRE,
    &RELEASE,
    &RENEW,
    &FORCE_RELEASE,
    &INSPECT,
    &FAIR_ACQUIRE,
    &FAIR_RELEASE,
    &FAIR_BEAT,
    &FAIR_FORCE_RELEASE,
    &FAIR_INSPECT,
    &FENCED_FAIR_ACQUIRE,
    &SEMAPHORE_ACQUIRE,
    &SEMAPHORE_RELEASE,
    &SEMAPHORE_SET,
    &SEMAPHORE_ADD,
    &SEMAPHORE_DRAIN,
    &SEMAPHORE_INSPECT,
    &PERMITS_ACQUIRE,
    &PERMITS_RELEASE,
    &PERMITS_GIVE,
    &PERMITS_RENEW,
    &PERMITS_SET,
    &PERMITS_RESIZE,
    &PERMITS_INSPECT,
    &PERMITS_LEASE,
    &LATCH_ACQUIRE,
    &LATCH_SET,
    &LATCH_COUNT_DOWN,
    &LATCH_INSPECT,
    &LATCH_DELETE,
    &RECORD_PUT,
    &RECORD_GET,
    &RECORD_REMOVE,
    &STORE_READ,
    &STORE_WRITE,
    &STORE_CHECK,
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
    &DURABLE_MARK,
];
