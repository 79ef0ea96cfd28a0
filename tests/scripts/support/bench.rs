//! A server that runs scripts, and a listener of its messages.

use super::{Desk, ms, unused};
use crate::eval::{eval, reply};
use bytes::Bytes;
use leasehold_core::batch::Batch;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::link::{Link, LinkEvent};
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, ManualClock, ServerClock};
use leasehold_test_support::{Connection, Resp, Server, binaries};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

#[derive(Clone)]
pub(crate) enum Bench {
    Embedded(EmbeddedServer, ManualClock),
    Real(Arc<Server>),
    /// A server that gets each call as a batch of one, where its script allows it.
    Batching(Arc<Server>),
}

impl Bench {
    /// The embedded engine, on a clock that stands at 1 800 000 000 000 ms of wall time.
    pub(crate) fn embedded() -> Self {
        let clock = ManualClock::new();
        Self::Embedded(EmbeddedServer::with_clock(ServerClock::manual(&clock)), clock)
    }

    /// A server of each program of this machine, which no other test uses.
    pub(crate) fn started() -> Vec<Self> {
        let start = |server: Server| Self::Real(Arc::new(server));
        match &binaries()[..] {
            // Says which command gets one.
            [] => vec![start(Server::start())],
            binaries => binaries.iter().map(|binary| start(Server::builder().binary(binary).start())).collect(),
        }
    }

    /// Runs a test on the embedded engine and on every server of this machine. The servers are shared, so the test needs names of its own.
    pub(crate) fn everywhere(test: impl Fn(&Self)) {
        static SERVERS: OnceLock<Vec<Bench>> = OnceLock::new();
        test(&Self::embedded());
        for bench in SERVERS.get_or_init(Self::started) {
            test(bench);
            test(&bench.batching());
        }
    }

    /// As [`Bench::everywhere`], on servers that no other test uses.
    pub(crate) fn apart(test: impl Fn(&Self)) {
        test(&Self::embedded());
        Self::started().iter().for_each(&test);
        Self::started().iter().for_each(|bench| test(&bench.batching()));
    }

    /// The same server, which gets each call in a batch.
    fn batching(&self) -> Self {
        match self {
            Self::Real(server) => Self::Batching(Arc::clone(server)),
            other => other.clone(),
        }
    }

    /// The embedded engine.
    pub(crate) fn server(&self) -> &EmbeddedServer {
        let Self::Embedded(server, _) = self else { panic!("this one is a server program") };
        server
    }

    /// Lets time pass, which only the embedded engine can.
    pub(crate) fn advance(&self, millis: u64) {
        let Self::Embedded(_, clock) = self else { panic!("the time of a server is its own") };
        clock.advance(ms(millis));
    }

    /// Whether memory is full, of a server that no other test uses.
    pub(crate) fn set_full(&self, full: bool) {
        match self {
            Self::Embedded(server, _) => server.deny_growth(full),
            Self::Real(server) | Self::Batching(server) => {
                let set = server.command(&["CONFIG", "SET", "maxmemory", if full { "1" } else { "0" }]);
                assert_eq!(set.as_str(), Some("OK"));
            }
        }
    }

    /// Runs a script; the text of the server's refusal is an error.
    pub(crate) fn try_run(&self, call: &Call) -> Result<Reply, String> {
        match self {
            Self::Embedded(server, _) => server.execute(call).map_err(|error| error.text().to_owned()),
            Self::Real(server) => reply(eval_on(server, call)),
            Self::Batching(server) => {
                let Some(batch) = Batch::of(call.script()) else { return reply(eval_on(server, call)) };
                let args = [Bytes::from(batch.plan([call].into_iter()))].into_iter().chain(call.args().to_vec());
                let replies = eval_on(server, &Call::new(batch.script(), call.keys(), args));
                match replies.elements() {
                    [own] => reply(own.clone()),
                    _ => reply(replies),
                }
            }
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
            Self::Real(server) | Self::Batching(server) => reply(server.command(words)),
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
        Desk::new(self, kind, self.name("seats"), Settings::default())
    }

    /// Listens to a channel from now on.
    pub(crate) fn listen(&self, channel: &Bytes) -> Ear {
        match self {
            Self::Embedded(server, _) => {
                let link = server.link();
                let subscribed = polled(link.subscribe(channel.clone()));
                assert!(matches!(subscribed, Poll::Ready(Ok(()))), "the link is up");
                Ear::Embedded(link)
            }
            Self::Real(server) | Self::Batching(server) => {
                let mut connection = server.connect().expect("the server is up");
                connection.command(&[b"SUBSCRIBE".as_slice(), channel]).expect("a subscription");
                Ear::Real(connection)
            }
        }
    }
}

/// A listener of a channel.
pub(crate) enum Ear {
    Embedded(EmbeddedLink),
    Real(Connection),
}

impl Ear {
    /// The messages since the last look are these. The embedded engine tells that there was one, and not what it said, so there it is
    /// their number that is checked.
    #[track_caller]
    pub(crate) fn hears(&mut self, expected: &[&str]) {
        let heard = self.heard();
        match self {
            Self::Embedded(_) => assert_eq!(heard.len(), expected.len(), "messages, expected {expected:?}"),
            Self::Real(_) => assert_eq!(heard, expected, "messages"),
        }
    }

    /// Whether anything has come since the last look.
    pub(crate) fn hears_any(&mut self) -> bool {
        !self.heard().is_empty()
    }

    fn heard(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        match self {
            Self::Embedded(link) => {
                while let Poll::Ready(Some(event)) = polled(link.event()) {
                    assert!(
                        matches!(
                            event,
                            LinkEvent::Notice { .. } | LinkEvent::Offered { .. } | LinkEvent::Wanted { .. }
                        ),
                        "{event:?}"
                    );
                    heard.push(String::new());
                }
            }
            Self::Real(connection) => {
                // A server answers in order, so what was published before comes before the answer.
                connection.send(&["PING"]).expect("the server is up");
                while let [kind, _, text] = connection.receive().expect("the server is up").elements()
                    && kind.as_str() == Some("message")
                {
                    heard.push(text.as_str().expect("a text").to_owned());
                }
            }
        }
        heard
    }
}

impl Drop for Ear {
    /// Waits until the server counts one listener fewer. A server notices a closed connection only later.
    fn drop(&mut self) {
        let Self::Real(connection) = self else { return };
        if connection.send(&["UNSUBSCRIBE"]).is_ok() {
            while let Ok(reply) = connection.receive()
                && reply.elements().first().and_then(Resp::as_str) != Some("unsubscribe")
            {}
        }
    }
}

fn eval_on(server: &Server, call: &Call) -> Resp {
    server.command(&eval(call.script().source(), &call.keys().to_vec(), &call.args().to_vec()))
}

fn polled<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
