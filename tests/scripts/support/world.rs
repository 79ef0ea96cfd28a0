//! A name on a server, under which locks of several kinds meet, with replies and commands as texts.

use super::{Bench, Ear, LEASE, Lock, ms, named, show};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::{Acquired, Keys, Kind, Renewed};
use leasehold_core::name::LockName;
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use std::ops::Deref;

/// The server, and the name.
pub(crate) struct World {
    bench: Bench,
    pub(crate) name: LockName,
    pub(crate) settings: Settings,
}

/// The wishes of an acquire beside hold and count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) lease: u64,
    pub(crate) beside: Option<&'a str>,
    pub(crate) not_after: Option<u64>,
    pub(crate) waits: bool,
    pub(crate) prefer: Option<u64>,
}

impl Default for Wish<'_> {
    fn default() -> Self {
        Self { lease: LEASE.as_millis() as u64, beside: None, not_after: None, waits: true, prefer: None }
    }
}

/// Runs a test on the embedded engine, and on each server program of this machine. The servers are shared, so the name of the
/// lock must be the test's own.
pub(crate) fn each(name: &str, test: impl Fn(&World)) {
    Bench::everywhere(|bench| test(&World::new(bench.clone(), name)));
}

impl Deref for World {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl World {
    /// On the embedded engine, with a clock that stands still.
    pub(crate) fn embedded(name: &str) -> Self {
        Self::new(Bench::embedded(), name)
    }

    fn new(bench: Bench, name: &str) -> Self {
        Self { bench, name: LockName::new("", name).expect("the name is valid"), settings: Settings::default() }
    }

    /// The reply to a command, shown; `{}` in its words stands for the name of the lock.
    #[track_caller]
    pub(crate) fn command(&self, words: &str) -> String {
        show(&self.reply(words))
    }

    /// The reply to a command.
    #[track_caller]
    pub(crate) fn reply(&self, words: &str) -> Reply {
        let words = words.replace("{}", self.name.as_str());
        self.bench.command(&words.split_whitespace().map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Commands, one a line, each with its reply after `=>`.
    #[track_caller]
    pub(crate) fn check(&self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (words, expected) = line.split_once("=>").expect("a line is a command, `=>` and a reply");
            assert_eq!(self.command(words), expected.trim(), "{words}");
        }
    }

    pub(crate) fn keys(&self, kind: Kind) -> Keys {
        kind.protocol().keys(&self.name, &ClientId::new(uuid::Uuid::nil()))
    }

    fn call(&self, kind: Kind, build: impl FnOnce(Lock<'_>) -> Call) -> Call {
        build(Lock { kind, name: &self.name, keys: &self.keys(kind), settings: &self.settings })
    }

    pub(crate) fn acquire_call(&self, kind: Kind, field: &str, count: u32, wish: Wish<'_>) -> Call {
        let beside = wish.beside.map(|beside| Bytes::from(beside.to_owned()));
        self.call(kind, |lock| {
            lock.ask(&named(field), |ask| {
                (ask.count, ask.lease, ask.beside) = (count, ms(wish.lease), beside.as_ref());
                (ask.not_after, ask.waits, ask.prefer_writers) = (wish.not_after, wish.waits, wish.prefer.map(ms));
            })
        })
    }

    /// The reply to an acquire, shown without the server's time: `[1, 30000]`.
    #[track_caller]
    pub(crate) fn acquire(&self, kind: Kind, field: &str, count: u32, wish: Wish<'_>) -> String {
        let reply = self.run(&self.acquire_call(kind, field, count, wish));
        kind.protocol().acquired(&reply).unwrap_or_else(|error| panic!("{error}"));
        let Reply::Array(mut parts) = reply else { panic!("an acquire answers with an array") };
        if parts.len() > 2 {
            parts.remove(2);
        }
        show(&Reply::Array(parts))
    }

    /// The outcome of an acquire.
    #[track_caller]
    pub(crate) fn acquired(&self, kind: Kind, field: &str, count: u32, wish: Wish<'_>) -> Acquired {
        let reply = self.run(&self.acquire_call(kind, field, count, wish));
        kind.protocol().acquired(&reply).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The outcome of a first acquire or a re-entry with a lease, with its token.
    #[track_caller]
    pub(crate) fn token(&self, kind: Kind, field: &str, count: u32) -> u64 {
        match self.acquired(kind, field, count, Wish::default()) {
            Acquired::Held { token: Some(token), .. } => token,
            other => panic!("no grant with a token, but {other:?}"),
        }
    }

    pub(crate) fn release_call(&self, kind: Kind, field: &str, count: u32) -> Call {
        self.call(kind, |lock| lock.give(&named(field), count, true))
    }

    /// The code by which a release is answered.
    #[track_caller]
    pub(crate) fn release(&self, kind: Kind, field: &str, count: u32) -> i64 {
        let reply = self.run(&self.release_call(kind, field, count));
        kind.protocol().released(&reply).unwrap_or_else(|error| panic!("{error}"));
        reply.int().expect("a release answers with an integer")
    }

    /// The same, of a release that leaves the lock busy for so many milliseconds.
    #[track_caller]
    pub(crate) fn keep_call(&self, kind: Kind, field: &str, count: u32, keep: u64) -> Call {
        self.call(kind, |lock| lock.give_and_keep(&named(field), count, true, ms(keep)))
    }

    pub(crate) fn release_and_keep(&self, kind: Kind, field: &str, count: u32, keep: u64) -> i64 {
        self.run(&self.keep_call(kind, field, count, keep)).int().expect("a release answers with an integer")
    }

    pub(crate) fn renew_call(&self, kind: Kind, holds: &[(&str, u64)]) -> Call {
        self.call(kind, |lock| lock.renewal(holds.iter().map(|(field, lease)| (named(field), ms(*lease)))))
    }

    /// Renews, each hold by its own lease, and shows the reply.
    #[track_caller]
    pub(crate) fn renew(&self, kind: Kind, holds: &[(&str, u64)]) -> String {
        let reply = self.run(&self.renew_call(kind, holds));
        Renewed::decode(&reply, holds.len()).unwrap_or_else(|error| panic!("{error}"));
        show(&reply)
    }

    /// Listens where the releases of a kind are announced.
    pub(crate) fn listen_to(&self, kind: Kind) -> Ear {
        self.listen(&self.keys(kind).channel.expect("this kind has a channel"))
    }
}
