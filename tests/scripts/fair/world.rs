//! A server, a fair lock on it, and the processes that contend for it.

use crate::support::{Bench, Lock, named};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::fair::{self, Heartbeat};
use leasehold_core::command::holder::{Holder, Waiter};
use leasehold_core::command::lock::{self, ForceReleased};
use leasehold_core::command::{AcquireArgs, Acquired, Keys, Kind};
use leasehold_core::name::LockName;
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Deref;
use uuid::Uuid;

/// A fair lock on a server.
///
/// Messages are recorded: the command that publishes is an argument, and here it is `RPUSH`, so that each channel is a list of what was
/// said on it, and all processes look connected.
pub(super) struct World {
    pub(super) bench: Bench,
    pub(super) kind: Kind,
    pub(super) name: LockName,
    pub(super) settings: Settings,
    pub(super) next_process: Cell<u128>,
}

/// A process of ours.
#[derive(Clone, Copy)]
pub(super) struct Process(pub(super) ClientId);

impl Deref for World {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl World {
    pub(super) fn embedded() -> Self {
        Self::on(Bench::embedded())
    }

    pub(super) fn on(bench: Bench) -> Self {
        let settings = Settings { publish: Bytes::from_static(b"RPUSH"), ..Settings::default() };
        let name = LockName::new("", "stock").expect("a name");
        Self { bench, kind: Kind::Fair, name, settings, next_process: Cell::new(0) }
    }

    pub(super) fn command(&self, words: &[&str]) -> Reply {
        self.bench.command(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
    }

    pub(super) fn now(&self) -> i64 {
        match &self.bench {
            Bench::Embedded(server, _) => server.wall_millis(),
            Bench::Real(_) | Bench::Batching(_) => {
                let Reply::Array(parts) = self.command(&["TIME"]) else { panic!("the time has two parts") };
                int(&parts[0]) * 1000 + int(&parts[1]) / 1000
            }
        }
    }

    /// The name of one of the lock's keys: `queue`, `deadlines`, `channel`, `marks` or `token`.
    pub(super) fn key(&self, what: &str) -> String {
        let prefix = match what {
            "lock" => return "stock".to_owned(),
            "queue" => "redisson_lock_queue",
            "deadlines" => "redisson_lock_timeout",
            "channel" => "redisson_lock__channel",
            "marks" => "leasehold:1:fair",
            "token" => "redisson_lock_token",
            other => panic!("a fair lock has no {other}"),
        };
        format!("{prefix}:{{stock}}")
    }

    pub(super) fn process(&self) -> Process {
        let number = self.next_process.get() + 1;
        self.next_process.set(number);
        Process(ClientId::new(Uuid::from_u128(0x6f0c_0000_0000_4000_8000_0000_0000_0000 + number)))
    }

    pub(super) fn keys_of(&self, process: Process) -> Keys {
        self.kind.protocol().keys(&self.name, &process.0)
    }

    /// Sends an acquire: it waits, has a lease of 30 s, and is changed by `change`.
    pub(super) fn ask(&self, entry: &str, change: impl FnOnce(&mut AcquireArgs<'_>)) -> Acquired {
        let call = self.acquire_call(entry, change);
        let reply = self.run(&call);
        self.kind.protocol().acquired(&reply).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn acquire_call(&self, entry: &str, change: impl FnOnce(&mut AcquireArgs<'_>)) -> Call {
        self.call(entry, |lock| lock.ask(&named(entry), change))
    }

    fn call(&self, entry: &str, build: impl FnOnce(Lock<'_>) -> Call) -> Call {
        let keys = self.keys_of(process_of(entry));
        build(Lock { kind: self.kind, name: &self.name, keys: &keys, settings: &self.settings })
    }

    /// Asks for the lock and waits.
    pub(super) fn acquire(&self, entry: &str) -> Acquired {
        self.ask(entry, |_| {})
    }

    /// Asks for the lock and does not wait.
    pub(super) fn try_acquire(&self, entry: &str) -> Acquired {
        self.ask(entry, |ask| ask.waits = false)
    }

    /// The code that answers a release.
    pub(super) fn release(&self, entry: &str, count: u32) -> i64 {
        int(&self.run(&self.release_call(entry, count)))
    }

    pub(super) fn release_call(&self, entry: &str, count: u32) -> Call {
        self.call(entry, |lock| lock.give(&named(entry), count, true))
    }

    pub(super) fn beat(&self, process: Process, front: Option<&str>) -> Heartbeat {
        fair::beaten(&self.run(&self.beat_call(process, front))).expect("a reply of a beat")
    }

    pub(super) fn beat_call(&self, process: Process, front: Option<&str>) -> Call {
        let front = front.map(|front| Bytes::copy_from_slice(front.as_bytes()));
        fair::heartbeat(&self.name, &self.keys_of(process), &process.0, front.as_ref(), &self.settings)
    }

    pub(super) fn force_release(&self, holder: &str) -> ForceReleased {
        lock::forced(&self.run(&fair::force_release(&self.name, holder, &self.settings))).expect("a code")
    }

    pub(super) fn inspect(&self) -> (Option<Holder>, Vec<Waiter>) {
        fair::inspected(&self.run(&fair::inspect(&self.name, &self.settings.fair))).expect("an inspection")
    }

    /// The queue, its head first.
    pub(super) fn queue(&self) -> Vec<String> {
        texts(self.command(&["LRANGE", &self.key("queue"), "0", "-1"]))
    }

    /// The scores.
    pub(super) fn scores(&self) -> BTreeMap<String, f64> {
        let parts = texts(self.command(&["ZRANGE", &self.key("deadlines"), "0", "-1", "WITHSCORES"]));
        parts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].parse().expect("a score"))).collect()
    }

    /// How far in the future the score of an entry is.
    #[track_caller]
    pub(super) fn score(&self, entry: &str) -> i64 {
        self.scores()[entry] as i64 - self.now()
    }

    pub(super) fn marks(&self) -> BTreeMap<String, String> {
        let parts = texts(self.command(&["HGETALL", &self.key("marks")]));
        parts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    /// The holder of the lock, with the count.
    pub(super) fn holder(&self) -> Option<(String, i64)> {
        let parts = texts(self.command(&["HGETALL", "stock"]));
        parts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].parse().expect("a count"))).next()
    }

    pub(super) fn ttl(&self, what: &str) -> i64 {
        int(&self.command(&["PTTL", &self.key(what)]))
    }

    /// The messages to a listener since this was asked last: a process's uuid, or a JVM's entry.
    pub(super) fn heard(&self, listener: &str) -> Vec<String> {
        let channel = format!("{}:{listener}", self.key("channel"));
        let said = texts(self.command(&["LRANGE", &channel, "0", "-1"]));
        self.command(&["DEL", &channel]);
        said
    }

    /// List and scores name the same entries, each once.
    #[track_caller]
    pub(super) fn assert_consistent(&self) {
        let mut listed = self.queue();
        listed.sort();
        let scored: Vec<_> = self.scores().into_keys().collect();
        assert_eq!(listed, scored, "list and scores name the same entries");
    }
}

impl Process {
    /// The field of the process's hold with this number.
    pub(super) fn hold(self, number: u64) -> String {
        format!("{}:{number}", self.0)
    }

    pub(super) fn id(self) -> String {
        self.0.to_string()
    }
}

fn process_of(entry: &str) -> Process {
    let uuid = entry.rsplit_once(':').and_then(|(process, _)| Uuid::parse_str(process).ok());
    Process(ClientId::new(uuid.unwrap_or_else(|| Uuid::from_u128(9))))
}

pub(super) fn int(reply: &Reply) -> i64 {
    reply.int().unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn texts(reply: Reply) -> Vec<String> {
    match reply {
        Reply::Array(parts) => parts.iter().map(|part| part.text().expect("text").to_owned()).collect(),
        other => panic!("{other:?} is no array"),
    }
}

/// Whether the hold has the lock.
pub(super) fn is_held(acquired: &Acquired) -> bool {
    matches!(acquired, Acquired::Held { .. })
}

/// Whether the hold has a place, and had not lost another.
pub(super) fn is_placed(acquired: &Acquired) -> bool {
    matches!(acquired, Acquired::Placed { moved: false, .. })
}
