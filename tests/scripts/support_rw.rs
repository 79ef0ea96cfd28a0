//! A server, and short ways to ask it as one client and to look at it as another.

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
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A server, seen by one test under one name of a lock.
pub(crate) struct World {
    engine: Engine,
    pub(crate) name: LockName,
    pub(crate) settings: Settings,
}

enum Engine {
    Embedded(EmbeddedServer, ManualClock),
    Real(&'static Server),
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
        Self { lease: 30_000, beside: None, not_after: None, waits: true, prefer: None }
    }
}

/// Runs a test on the embedded engine, and on each server program of this machine. The servers are shared, so the name of the
/// lock must be the test's own.
pub(crate) fn each(name: &str, test: impl Fn(&World)) {
    test(&World::embedded(name));
    static SERVERS: OnceLock<Vec<Server>> = OnceLock::new();
    let start = || match &binaries()[..] {
        // Says which command gets one.
        [] => vec![Server::start()],
        binaries => binaries.iter().map(|binary| Server::builder().binary(binary).start()).collect(),
    };
    for server in SERVERS.get_or_init(start) {
        test(&World::new(Engine::Real(server), name));
    }
}

impl World {
    /// On the embedded engine, with a clock that stands still.
    pub(crate) fn embedded(name: &str) -> Self {
        let clock = ManualClock::new();
        Self::new(Engine::Embedded(EmbeddedServer::with_clock(ServerClock::manual(&clock)), clock), name)
    }

    fn new(engine: Engine, name: &str) -> Self {
        let name = LockName::new("", name).expect("the name is valid");
        Self { engine, name, settings: Settings::default() }
    }

    /// Lets time pass, which only the embedded engine can.
    pub(crate) fn advance(&self, millis: u64) {
        let Engine::Embedded(_, clock) = &self.engine else { panic!("the time of a server is its own") };
        clock.advance(Duration::from_millis(millis));
    }

    /// The embedded engine.
    pub(crate) fn server(&self) -> &EmbeddedServer {
        let Engine::Embedded(server, _) = &self.engine else { panic!("this one is a server program") };
        server
    }

    /// The reply to a call, which must not be an error.
    #[track_caller]
    pub(crate) fn run(&self, call: &Call) -> Reply {
        match &self.engine {
            Engine::Embedded(server, _) => {
                server.execute(call).unwrap_or_else(|error| panic!("{}: {error}", call.script().name()))
            }
            Engine::Real(server) => reply(server.command(&eval(call.script().source(), call.keys(), call.args())))
                .unwrap_or_else(|error| panic!("{}: {error}", call.script().name())),
        }
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
        let words: Vec<&[u8]> = words.split_whitespace().map(str::as_bytes).collect();
        match &self.engine {
            Engine::Embedded(server, _) => server.command(&words).unwrap_or_else(|error| panic!("{error}")),
            Engine::Real(server) => reply(server.command(&words)).unwrap_or_else(|error| panic!("{error}")),
        }
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
        kind.verbs().keys(&self.name, &ClientId::new(uuid::Uuid::nil()))
    }

    pub(crate) fn acquire_call(&self, kind: Kind, field: &str, count: u32, wish: Wish<'_>) -> Call {
        let beside = wish.beside.map(|beside| Bytes::from(beside.to_owned()));
        kind.verbs().acquire(&Ask {
            name: &self.name,
            keys: &self.keys(kind),
            hold: &hold(field),
            beside: beside.as_ref(),
            count,
            lease: Duration::from_millis(wish.lease),
            not_after: wish.not_after,
            waits: wish.waits,
            placed: false,
            prefer_writers: wish.prefer.map(Duration::from_millis),
            settings: &self.settings,
        })
    }

    /// The reply to an acquire, shown without the server's time: `[1, 30000]`.
    #[track_caller]
    pub(crate) fn acquire(&self, kind: Kind, field: &str, count: u32, wish: Wish<'_>) -> String {
        let reply = self.run(&self.acquire_call(kind, field, count, wish));
        kind.verbs().acquired(&reply).unwrap_or_else(|error| panic!("{error}"));
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
        kind.verbs().acquired(&reply).unwrap_or_else(|error| panic!("{error}"))
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
        kind.verbs().release(&Give {
            name: &self.name,
            keys: &self.keys(kind),
            hold: &hold(field),
            count,
            granted: true,
            settings: &self.settings,
        })
    }

    /// The code by which a release is answered.
    #[track_caller]
    pub(crate) fn release(&self, kind: Kind, field: &str, count: u32) -> i64 {
        let reply = self.run(&self.release_call(kind, field, count));
        let _: Released = kind.verbs().released(&reply).unwrap_or_else(|error| panic!("{error}"));
        reply.int().expect("a release answers with an integer")
    }

    pub(crate) fn renew_call(&self, kind: Kind, holds: &[(&str, u64)]) -> Call {
        let mut renewal = Renewal { publish: self.settings.publish.clone(), ..Renewal::default() };
        for (field, lease) in holds {
            let lease = Duration::from_millis(*lease);
            kind.verbs().renew(&mut renewal, &self.name, &self.keys(kind), &hold(field), lease);
        }
        Call::new(kind.verbs().renewal().expect("this kind is renewed"), renewal.keys, renewal.args)
    }

    /// Renews, each hold by its own lease, and shows the reply.
    #[track_caller]
    pub(crate) fn renew(&self, kind: Kind, holds: &[(&str, u64)]) -> String {
        let reply = self.run(&self.renew_call(kind, holds));
        Renewed::decode(&reply, holds.len()).unwrap_or_else(|error| panic!("{error}"));
        show(&reply)
    }

    /// Listens to a channel from now on.
    pub(crate) fn listen(&self, channel: &Bytes) -> Listener {
        match &self.engine {
            Engine::Embedded(server, _) => {
                let link = server.link();
                now(link.subscribe(channel.clone())).expect("the link is up");
                Listener::Embedded(link)
            }
            Engine::Real(server) => {
                let mut connection = server.connect().expect("the server is up");
                connection.command(&[&b"SUBSCRIBE"[..], channel]).expect("it can be subscribed to");
                Listener::Real(connection)
            }
        }
    }

    /// Listens where the releases of a kind are announced.
    pub(crate) fn listen_to(&self, kind: Kind) -> Listener {
        self.listen(&self.keys(kind).channel.expect("this kind has a channel"))
    }
}

/// A listener of a channel.
pub(crate) enum Listener {
    Embedded(EmbeddedLink),
    Real(Connection),
}

impl Listener {
    /// Checks the messages that have come since the last time, put together: `01`. The embedded engine tells that there was one and
    /// not what it said, so there it is their number that is checked.
    #[track_caller]
    pub(crate) fn hears(&mut self, expected: &str) {
        let heard = self.heard();
        match self {
            Self::Embedded(_) => assert_eq!(heard.len(), expected.len(), "messages, expected {expected:?}"),
            Self::Real(_) => assert_eq!(heard, expected, "messages"),
        }
    }

    /// Whether anything has come since the last time.
    pub(crate) fn hears_any(&mut self) -> bool {
        !self.heard().is_empty()
    }

    fn heard(&mut self) -> String {
        let mut heard = String::new();
        match self {
            Self::Embedded(link) => {
                while let Poll::Ready(Some(event)) = poll(link.event()) {
                    assert!(matches!(event, LinkEvent::Notice { .. }), "{event:?}");
                    heard.push('.');
                }
            }
            Self::Real(connection) => {
                // Its answer comes after all that was published before.
                connection.send(&["PING"]).expect("the server is up");
                loop {
                    let message = connection.receive().expect("the server is up");
                    match message.elements() {
                        [kind, _, payload] if kind.as_str() == Some("message") => {
                            heard.push_str(payload.as_str().expect("a text"));
                        }
                        _ => break,
                    }
                }
            }
        }
        heard
    }
}

/// The name of a hold.
pub(crate) fn hold(field: &str) -> HoldKey {
    HoldKey { field: Bytes::from(field.to_owned()), permits: 1 }
}

/// A reply in few characters: `nil`, `3`, `"text"`, `[1, "a"]`.
pub(crate) fn show(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Int(value) => value.to_string(),
        Reply::Bulk(text) => format!("\"{}\"", String::from_utf8_lossy(text)),
        Reply::Array(parts) => format!("[{}]", parts.iter().map(show).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn now<F: Future>(future: F) -> F::Output {
    match poll(future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits"),
    }
}
