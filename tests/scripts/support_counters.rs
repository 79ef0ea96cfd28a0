//! The place where scripts are run, and short ways to ask for something.

use crate::eval::{eval, reply};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::{Acquired, Ask, Give, HoldKey, Keys, Kind, Released, Renewal, Renewed};
use leasehold_core::link::{Link, LinkEvent};
use leasehold_core::name::LockName;
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, ManualClock, ServerClock};
use leasehold_test_support::{Connection, Server, binaries};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// One of each kind, for all tests; their keys have names of their own.
static SERVERS: OnceLock<Vec<Arc<Server>>> = OnceLock::new();

fn start() -> Vec<Arc<Server>> {
    let servers: Vec<_> = binaries().iter().map(|binary| Server::builder().binary(binary).start().into()).collect();
    // Without any, says which command gets one.
    if servers.is_empty() { vec![Server::start().into()] } else { servers }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

fn unused() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The lease of the tests.
pub(crate) const LEASE: Duration = Duration::from_millis(30_000);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The id of a hold, or of an operation, that is used once.
pub(crate) fn once() -> Bytes {
    Bytes::from(format!("6f0c0000-0000-4000-8000-000000000001:{}", unused()))
}

/// A hold that has not been used.
pub(crate) fn hold(permits: u32) -> HoldKey {
    HoldKey { field: once(), permits }
}

pub(crate) fn publish() -> Bytes {
    Bytes::from_static(b"PUBLISH")
}

/// A server that runs scripts.
pub(crate) enum Bench {
    Embedded(EmbeddedServer, ManualClock),
    Real(Arc<Server>),
}

impl Bench {
    /// The embedded engine, on a clock that stands at 1 800 000 000 000 ms of wall time.
    pub(crate) fn embedded() -> Self {
        let clock = ManualClock::new();
        Self::Embedded(EmbeddedServer::with_clock(ServerClock::manual(&clock)), clock)
    }

    /// Runs a test on the embedded engine and on every server of this machine.
    pub(crate) fn everywhere(test: impl Fn(&Self)) {
        test(&Self::embedded());
        for server in SERVERS.get_or_init(start) {
            test(&Self::Real(server.clone()));
        }
    }

    /// As [`Bench::everywhere`], on servers that no other test uses.
    pub(crate) fn apart(test: impl Fn(&Self)) {
        test(&Self::embedded());
        for server in start() {
            test(&Self::Real(server));
        }
    }

    /// Whether memory is full, of a server that no other test uses.
    pub(crate) fn set_full(&self, full: bool) {
        match self {
            Self::Embedded(server, _) => server.deny_growth(full),
            Self::Real(server) => {
                let set = server.command(&["CONFIG", "SET", "maxmemory", if full { "1" } else { "0" }]);
                assert_eq!(set.as_str(), Some("OK"));
            }
        }
    }

    pub(crate) fn advance(&self, millis: u64) {
        match self {
            Self::Embedded(_, clock) => clock.advance(ms(millis)),
            Self::Real(_) => panic!("the clock of a server cannot be moved"),
        }
    }

    /// Runs a script; the text of the server's refusal is an error.
    pub(crate) fn try_run(&self, call: &Call) -> Result<Reply, String> {
        match self {
            Self::Embedded(server, _) => server.execute(call).map_err(|error| error.text().to_owned()),
            Self::Real(server) => reply(server.command(&eval(call.script().source(), call.keys(), call.args()))),
        }
    }

    #[track_caller]
    pub(crate) fn run(&self, call: &Call) -> Reply {
        self.try_run(call).unwrap_or_else(|error| panic!("{}: {error}", call.script().name()))
    }

    /// Runs one command, as a client from outside.
    #[track_caller]
    pub(crate) fn command(&self, words: &[&[u8]]) -> Reply {
        let answer = match self {
            Self::Embedded(server, _) => server.command(words).map_err(|error| error.text().to_owned()),
            Self::Real(server) => reply(server.command(words)),
        };
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    pub(crate) fn on(&self, command: &str, key: &[u8], rest: &[&str]) -> Reply {
        let mut words = vec![command.as_bytes(), key];
        words.extend(rest.iter().map(|word| word.as_bytes()));
        self.command(&words)
    }

    /// A text on the server; nothing where the key is absent.
    #[track_caller]
    pub(crate) fn get(&self, key: &[u8]) -> String {
        match self.on("GET", key, &[]) {
            Reply::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
            Reply::Nil => String::new(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn exists(&self, key: &[u8]) -> bool {
        self.on("EXISTS", key, &[]) == Reply::Int(1)
    }

    /// A name that no other test has.
    pub(crate) fn name(&self, word: &str) -> LockName {
        LockName::new("", &format!("{word}-{}", unused())).expect("the name is valid")
    }

    /// A lock of this kind under a name that no other test has.
    pub(crate) fn desk(&self, kind: Kind) -> Desk<'_> {
        let name = self.name("seats");
        let keys = kind.verbs().keys(&name, &ClientId::new(uuid::Uuid::nil()));
        Desk { bench: self, kind, name, keys, settings: Settings::default() }
    }

    /// Listens to a channel.
    pub(crate) fn listen(&self, channel: &Bytes) -> Ear {
        match self {
            Self::Embedded(server, _) => {
                let link = server.link();
                match polled(link.subscribe(channel.clone())) {
                    Poll::Ready(Ok(())) => Ear::Embedded(link),
                    _ => panic!("the link is up"),
                }
            }
            Self::Real(server) => {
                let mut connection = server.connect().expect("the server is up");
                connection.command(&[b"SUBSCRIBE".as_slice(), channel]).expect("a subscription");
                Ear::Real(connection)
            }
        }
    }
}

fn polled<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A listener of a channel.
pub(crate) enum Ear {
    Embedded(EmbeddedLink),
    Real(Connection),
}

impl Ear {
    /// The messages since the last look are these. The embedded engine tells that there was one, and not what it said.
    #[track_caller]
    pub(crate) fn hears(&mut self, expected: &[&str]) {
        match self {
            Self::Embedded(link) => {
                let mut heard = 0;
                while let Poll::Ready(Some(event)) = polled(link.event()) {
                    heard += usize::from(matches!(event, LinkEvent::Notice { .. }));
                }
                assert_eq!(heard, expected.len(), "{expected:?}");
            }
            Self::Real(connection) => {
                let mut heard = Vec::new();
                // A server answers in order, so what was published before comes before the answer.
                connection.send(&["PING"]).expect("the server is up");
                loop {
                    let frame = connection.receive().expect("the server is up");
                    match frame.elements() {
                        [kind, _, text] if kind.as_str() == Some("message") => {
                            heard.push(text.as_str().expect("a text").to_owned());
                        }
                        _ => break,
                    }
                }
                assert_eq!(heard, expected);
            }
        }
    }
}

/// One lock, and whatever is asked of it.
pub(crate) struct Desk<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) kind: Kind,
    pub(crate) name: LockName,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
}

impl Desk<'_> {
    pub(crate) fn ask(&self, hold: &HoldKey, count: u32, lease: Duration, not_after: Option<u64>) -> Call {
        self.kind.verbs().acquire(&Ask {
            name: &self.name,
            keys: &self.keys,
            hold,
            beside: None,
            count,
            lease,
            not_after,
            waits: true,
            placed: false,
            prefer_writers: None,
            settings: &self.settings,
        })
    }

    pub(crate) fn give(&self, hold: &HoldKey, count: u32, granted: bool) -> Call {
        let give = Give { name: &self.name, keys: &self.keys, hold, count, granted, settings: &self.settings };
        self.kind.verbs().release(&give)
    }

    #[track_caller]
    pub(crate) fn acquired(&self, call: &Call) -> Acquired {
        self.kind.verbs().acquired(&self.bench.run(call)).expect("the reply is understood")
    }

    #[track_caller]
    pub(crate) fn acquire(&self, hold: &HoldKey) -> Acquired {
        self.acquired(&self.ask(hold, 1, LEASE, None))
    }

    #[track_caller]
    pub(crate) fn gets(&self, hold: &HoldKey) -> bool {
        matches!(self.acquire(hold), Acquired::Held { .. })
    }

    #[track_caller]
    pub(crate) fn release(&self, hold: &HoldKey) -> Released {
        self.released(&self.give(hold, 0, true))
    }

    /// Releases a hold that is not known to have been granted.
    #[track_caller]
    pub(crate) fn withdraw(&self, hold: &HoldKey) -> Released {
        self.released(&self.give(hold, 0, false))
    }

    #[track_caller]
    pub(crate) fn released(&self, call: &Call) -> Released {
        self.kind.verbs().released(&self.bench.run(call)).expect("the reply is understood")
    }

    #[track_caller]
    pub(crate) fn renew(&self, hold: &HoldKey, lease: Duration) -> Renewed {
        let mut renewal = Renewal::default();
        self.kind.verbs().renew(&mut renewal, &self.name, &self.keys, hold, lease);
        let script = self.kind.verbs().renewal().expect("holds have a lease");
        let reply = self.bench.run(&Call::new(script, renewal.keys, renewal.args));
        Renewed::decode(&reply, 1).expect("the reply is understood")[0]
    }

    pub(crate) fn channel(&self) -> &Bytes {
        self.keys.channel.as_ref().expect("the kind has a channel")
    }

    /// The number on the server.
    #[track_caller]
    pub(crate) fn number(&self) -> String {
        self.bench.get(self.name.key())
    }
}
