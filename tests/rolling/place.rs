//! The place at which clients of different versions meet: an engine or a server, on a wall clock that is moved by hand.

use crate::eval::{eval, reply};
use bytes::Bytes;
use leasehold_core::link::Link;
use leasehold_core::reply::Reply;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, ManualClock};
use leasehold_test_support::{Binary, Connection, Server, WallClock, binaries};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Wall time at the beginning, in milliseconds: that of an embedded server on a clock that is moved by hand.
const BEGINNING: i64 = 1_800_000_000_000;

/// An engine or a server, and a listener.
pub(crate) enum Place {
    Embedded { server: EmbeddedServer, clock: ManualClock, link: EmbeddedLink },
    Real { server: Box<Server>, clock: Arc<WallClock>, millis: AtomicI64, ear: Mutex<Connection> },
}

impl Place {
    pub(crate) fn embedded() -> Self {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        // The first look starts the log.
        server.take_messages();
        Self::Embedded { link: server.link(), server, clock }
    }

    fn real(binary: &Binary) -> Self {
        let clock = Arc::new(WallClock::at_micros(BEGINNING * 1_000));
        let server = Server::builder().binary(binary).clock(&clock).start();
        let ear = Mutex::new(server.connect().expect("the server is up"));
        Self::Real { server: Box::new(server), clock, millis: AtomicI64::new(BEGINNING), ear }
    }

    /// Runs a test on the embedded engine and on a server of every version of this machine.
    pub(crate) fn everywhere(test: impl Fn(&Self)) {
        test(&Self::embedded());
        let binaries = binaries();
        assert!(!binaries.is_empty(), "{:?}", Binary::any());
        binaries.iter().for_each(|binary| test(&Self::real(binary)));
    }

    /// Runs a text.
    #[track_caller]
    pub(crate) fn eval(&self, source: &str, keys: &[Bytes], args: &[Bytes]) -> Reply {
        match self {
            Self::Embedded { server, .. } => server.eval(source, keys, args).unwrap_or_else(|error| panic!("{error}")),
            Self::Real { server, .. } => {
                reply(server.command(&eval(source, keys, args))).unwrap_or_else(|error| panic!("{error}"))
            }
        }
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, duration: Duration) {
        match self {
            Self::Embedded { clock, .. } => clock.advance(duration),
            Self::Real { clock, millis, .. } => {
                let passed = i64::try_from(duration.as_millis()).expect("it is a moment");
                clock.set_micros((millis.fetch_add(passed, Ordering::Relaxed) + passed) * 1_000);
            }
        }
    }

    /// Listens to a channel from now on.
    pub(crate) fn listen(&self, channel: &Bytes) {
        match self {
            Self::Embedded { link, .. } => {
                let subscribed = pin!(link.subscribe(channel.clone())).poll(&mut Context::from_waker(Waker::noop()));
                assert!(matches!(subscribed, Poll::Ready(Ok(()))), "the link is up");
            }
            Self::Real { ear, .. } => {
                let mut ear = ear.lock().unwrap_or_else(PoisonError::into_inner);
                ear.command(&[b"SUBSCRIBE".as_slice(), channel]).expect("a subscription");
            }
        }
    }

    /// The texts of the messages since the last look.
    pub(crate) fn heard(&self) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Self::Embedded { server, .. } => server.take_messages().iter().map(|(_, said)| text(said)).collect(),
            Self::Real { ear, .. } => {
                let mut ear = ear.lock().unwrap_or_else(PoisonError::into_inner);
                // A server answers in order, so what was published before comes before the answer.
                ear.send(&["PING"]).expect("the server is up");
                let mut heard = Vec::new();
                loop {
                    let frame = ear.receive().expect("the server is up");
                    match frame.elements() {
                        [kind, _, said] if kind.as_str() == Some("message") => {
                            heard.push(text(said.as_bytes().unwrap_or_default()));
                        }
                        _ => return heard,
                    }
                }
            }
        }
    }
}
