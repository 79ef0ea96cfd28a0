//! The table of scripts: name, keys, arguments and hash.

use leasehold_lua as lua;
use sha1_smol::Sha1;
use std::sync::OnceLock;

/// A Lua script and its contract. A test compares its words with the header of the Lua file.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    source: &'static str,
    /// Computed at first use: computing all hashes at compile time would add half a minute to every build.
    sha1: OnceLock<String>,
    keys: &'static [&'static str],
    args: &'static [&'static str],
}

impl Script {
    /// Folder and verb, such as `lock/acquire`: the file's path below `lua/`, without its extension.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The source that the server runs: preludes and body.
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// The SHA-1 of the source, in hexadecimal, for `EVALSHA`.
    pub fn sha1(&'static self) -> &'static str {
        self.sha1.get_or_init(|| Sha1::from(self.source).hexdigest())
    }

    /// The names of the `KEYS` slots, in order.
    pub const fn keys(&self) -> &'static [&'static str] {
        self.keys
    }

    /// The names of the `ARGV` slots, in order.
    pub const fn args(&self) -> &'static [&'static str] {
        self.args
    }

    /// Returns whether the script renews leases. Its keys and arguments repeat for each hold.
    pub fn is_renewal(&self) -> bool {
        self.name.ends_with("/renew")
    }

    /// The server's time for the script, relative to the reentrant lock. `None` excludes it from batches. Only acquires
    /// and releases have a weight, except for those of a latch, which are rare.
    pub fn weight(&self) -> Option<u32> {
        let (kind, verb) = self.name.split_once('/')?;
        if !matches!(verb, "acquire" | "release") || kind == "latch" {
            return None;
        }
        Some(match kind {
            "fair" | "fenced_fair" => 16,
            "permits" => 4,
            "read" | "write" => 2,
            _ => 1,
        })
    }

    /// The script of a [batch](crate::batch), with the keys and arguments of its calls. Not part of [`ALL`].
    pub(crate) fn of_batch(text: String) -> Self {
        Self {
            name: "batch/run",
            source: String::leak(text),
            sha1: OnceLock::new(),
            keys: &["keys"],
            args: &["plan", "args"],
        }
    }
}

/// Each row defines a static: its source in `leasehold_lua`, its file, and the names of its `KEYS` and `ARGV`.
macro_rules! scripts {
    ($($script:ident: $kind:ident::$text:ident = $file:literal [$($key:ident)*] [$($arg:ident)*];)+) => {
        $(
            #[doc = concat!("`lua/", $file, ".lua`, whose header says what it does.")]
            pub static $script: Script = Script {
                name: $file,
                source: lua::$kind::$text,
                sha1: OnceLock::new(),
                keys: &[$(stringify!($key)),*],
                args: &[$(stringify!($arg)),*],
            };
        )+

        /// All scripts.
        pub static ALL: &[&Script] = &[$(&$script),+];
    };
}

scripts! {
    // The reentrant lock.
    ACQUIRE: lock::ACQUIRE = "lock/acquire" [lock] [hold count lease not_after publish channel];
    RELEASE: lock::RELEASE = "lock/release" [lock] [hold count publish keep kept channel];
    RENEW: lock::RENEW = "lock/renew" [lock] [hold lease];
    FORCE_RELEASE: lock::FORCE_RELEASE = "lock/force_release" [lock] [holder publish channel];
    INSPECT: lock::INSPECT = "lock/inspect" [lock] [];

    // The fair lock, without and with fencing tokens.
    FAIR_ACQUIRE: fair::ACQUIRE = "fair/acquire" [lock queue deadlines marks]
        [hold count lease waits placed not_after settings publish channel];
    FAIR_RELEASE: fair::RELEASE = "fair/release" [lock queue deadlines marks] [hold count settings publish channel];
    FAIR_BEAT: fair::BEAT = "fair/beat" [lock queue deadlines marks] [client front settings publish channel];
    FAIR_FORCE_RELEASE: fair::FORCE_RELEASE = "fair/force_release" [lock queue deadlines marks]
        [holder settings publish channel];
    FAIR_INSPECT: fair::INSPECT = "fair/inspect" [lock queue deadlines marks] [settings];
    FENCED_FAIR_ACQUIRE: fenced_fair::ACQUIRE = "fenced_fair/acquire" [lock queue deadlines marks token]
        [hold count lease waits placed not_after settings publish channel];

    // The semaphore.
    SEMAPHORE_ACQUIRE: semaphore::ACQUIRE = "semaphore/acquire" [semaphore record] [count permits not_after memory];
    SEMAPHORE_RELEASE: semaphore::RELEASE = "semaphore/release" [semaphore record]
        [count permits granted memory publish channel];
    SEMAPHORE_SET: semaphore::SET = "semaphore/set" [semaphore record] [permits lifetime memory publish channel];
    SEMAPHORE_ADD: semaphore::ADD = "semaphore/add" [semaphore record] [permits memory publish channel];
    SEMAPHORE_DRAIN: semaphore::DRAIN = "semaphore/drain" [semaphore record] [memory];
    SEMAPHORE_INSPECT: semaphore::INSPECT = "semaphore/inspect" [semaphore] [];

    // The leased semaphore.
    PERMITS_ACQUIRE: permits::ACQUIRE = "permits/acquire" [permits deadlines]
        [ids count lease not_after publish channel];
    PERMITS_RELEASE: permits::RELEASE = "permits/release" [permits deadlines] [ids count publish channel];
    PERMITS_GIVE: permits::GIVE = "permits/give" [permits deadlines] [ids publish channel];
    PERMITS_RENEW: permits::RENEW = "permits/renew" [deadlines] [ids lease];
    PERMITS_SET: permits::SET = "permits/set" [permits deadlines record] [capacity memory publish channel];
    PERMITS_RESIZE: permits::RESIZE = "permits/resize" [permits deadlines record] [capacity memory publish channel];
    PERMITS_INSPECT: permits::INSPECT = "permits/inspect" [permits deadlines] [];
    PERMITS_LEASE: permits::LEASE = "permits/lease" [deadlines] [id];

    // The count-down latch.
    LATCH_ACQUIRE: latch::ACQUIRE = "latch/acquire" [latch] [not_after];
    LATCH_SET: latch::SET = "latch/set" [latch record] [count memory publish channel];
    LATCH_COUNT_DOWN: latch::COUNT_DOWN = "latch/count_down" [latch record] [count memory publish channel];
    LATCH_INSPECT: latch::INSPECT = "latch/inspect" [latch] [];
    LATCH_DELETE: latch::DELETE = "latch/delete" [latch record] [memory publish channel];

    // A lock of any kind.
    ANY_INSPECT: any::INSPECT = "any/inspect" [lock queue deadlines marks token readers permits]
        [most window skew question exclusive shared counter latch];

    // The record of a client.
    RECORD_PUT: record::PUT = "record/put" [client] [host pid application since up within note locks lifetime];
    RECORD_GET: record::GET = "record/get" [client] [];
    RECORD_REMOVE: record::REMOVE = "record/remove" [client] [];

    // The fenced store.
    STORE_READ: store::READ = "store/read" [data fence] [token owner keep];
    STORE_WRITE: store::WRITE = "store/write" [data fence] [token owner keep number value lifetime];
    STORE_CHECK: store::CHECK = "store/check" [fence] [token owner keep];

    // The fenced lock.
    FENCED_ACQUIRE: fenced::ACQUIRE = "fenced/acquire" [lock token] [hold count lease not_after];

    // The simple lock.
    SIMPLE_ACQUIRE: simple::ACQUIRE = "simple/acquire" [lock] [hold count lease not_after];
    SIMPLE_RELEASE: simple::RELEASE = "simple/release" [lock] [hold count];
    SIMPLE_RENEW: simple::RENEW = "simple/renew" [lock] [hold lease];
    SIMPLE_INSPECT: simple::INSPECT = "simple/inspect" [lock] [];

    // The read-write lock.
    READ_ACQUIRE: read::ACQUIRE = "read/acquire" [lock readers writers hold_key]
        [hold count lease not_after writer prefer publish channel];
    READ_RELEASE: read::RELEASE = "read/release" [lock readers writers hold_key] [hold count publish channel];
    READ_RENEW: read::RENEW = "read/renew" [lock readers hold_key] [hold lease publish channel];
    WRITE_ACQUIRE: write::ACQUIRE = "write/acquire" [lock readers writers]
        [hold count lease not_after reader mark publish channel];
    WRITE_RELEASE: write::RELEASE = "write/release" [lock readers writers] [hold count publish channel];
    READ_WRITE_INSPECT: read_write::INSPECT = "read_write/inspect" [lock readers] [];

    // A hold that moves to another process.
    TICKET_OFFER: ticket::OFFER = "ticket/offer" [lock ticket] [hold secret lease];
    TICKET_ADOPT: ticket::ADOPT = "ticket/adopt" [lock ticket marks token] [hold offered secret lease];

    // Acknowledgement by replicas.
    DURABLE_MARK: durable::MARK = "durable/mark" [lock] [];
}
