//! The keys and channels that a history uses: those of leasehold and Redisson, for a few locks, holds and clients.

use bytes::Bytes;
use fastrand::Rng;
use leasehold_core::script::Script;

/// The locks. One carries its hash tag in its own name.
const LOCKS: [&str; 2] = ["a", "{b}c"];
/// The clients. The last one is a JVM: nothing of ours knows it.
const CLIENTS: [&str; 3] = ["c1", "c2", "jvm"];

/// A lock, and a hold of a client.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) lock: &'static str,
    pub(crate) client: &'static str,
    pub(crate) number: u8,
}

impl Subject {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        Self {
            lock: LOCKS[rng.usize(..LOCKS.len())],
            client: CLIENTS[rng.usize(..CLIENTS.len())],
            number: rng.u8(1..4),
        }
    }

    /// The field of the hold.
    pub(crate) fn hold(&self) -> String {
        format!("{}:{}", self.client, self.number)
    }

    /// The same for a reentrant lock, some of whose holds may linger.
    pub(crate) fn marked_hold(&self) -> String {
        let mark = if self.number == 3 { "~" } else { "" };
        format!("{}{mark}", self.hold())
    }

    /// The sixteen bytes of the `index`-th permit of the hold.
    pub(crate) fn permit(&self, index: u32) -> String {
        format!("{:-<12}{index:04}", self.hold())
    }

    fn tag(&self) -> String {
        if self.lock.contains('{') { self.lock.to_owned() } else { format!("{{{}}}", self.lock) }
    }

    /// The name that a script of this folder gets for a slot of `KEYS`.
    pub(crate) fn key(&self, folder: &str, word: &str) -> Bytes {
        let tag = self.tag();
        let channel = match folder {
            "read" | "write" | "read_write" => format!("redisson_rwlock:{tag}"),
            "semaphore" | "permits" => format!("redisson_sc:{tag}"),
            "latch" => format!("redisson_countdownlatch__channel__{{{}}}", self.lock),
            _ => format!("redisson_lock__channel:{tag}"),
        };
        Bytes::from(match word {
            "permits" if folder == "any" => format!("{tag}:timeout"),
            "lock" | "semaphore" | "permits" | "latch" | "data" => self.lock.to_owned(),
            "channel" => channel,
            "queue" => format!("redisson_lock_queue:{tag}"),
            "deadlines" if folder == "permits" => format!("{tag}:timeout"),
            "deadlines" => format!("redisson_lock_timeout:{tag}"),
            "marks" => format!("leasehold:1:fair:{tag}"),
            "token" => format!("redisson_lock_token:{tag}"),
            "record" => format!("leasehold:1:op:{tag}:{}", self.hold()),
            "ticket" => format!("leasehold:1:ticket:{tag}"),
            "client" => format!("leasehold:1:client:{}", self.client),
            "fence" => format!("leasehold:1:fence:{tag}"),
            "readers" => format!("leasehold:1:rw_readers:{tag}"),
            "writers" => format!("leasehold:1:rw_writers:{tag}"),
            "hold_key" => format!("{tag}:{}:rwlock_timeout:1", self.hold()),
            other => panic!("names.rs knows no key {other:?}: say what it is called"),
        })
    }

    /// One of the keys that a script uses.
    pub(crate) fn key_of(&self, script: &Script, rng: &mut Rng) -> Bytes {
        let words: Vec<_> = script.keys().iter().filter(|word| **word != "channel").collect();
        self.key(folder(script), words[rng.usize(..words.len())])
    }
}

/// The folder of a script.
pub(crate) fn folder(script: &Script) -> &'static str {
    script.name().split('/').next().unwrap_or_default()
}

/// Every channel to which a script of the histories may publish.
pub(crate) fn channels() -> Vec<Bytes> {
    let mut channels = Vec::new();
    for lock in LOCKS {
        let subject = Subject { lock, client: CLIENTS[0], number: 1 };
        channels.extend(["lock", "read", "semaphore", "latch"].map(|folder| subject.key(folder, "channel")));
        let base = String::from_utf8_lossy(&subject.key("fair", "channel")).into_owned();
        for client in CLIENTS {
            channels.push(Bytes::from(format!("{base}:{client}")));
            channels.extend((1..4).map(|number| Bytes::from(format!("{base}:{client}:{number}"))));
        }
    }
    channels
}
