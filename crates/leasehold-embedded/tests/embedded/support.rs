//! Short ways to ask and to show.

use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::script::Script;
use leasehold_embedded::{EmbeddedServer, ManualClock, ServerClock};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// A server on a clock that stands at zero, which is 1 800 000 000 000 ms of wall time.
pub(crate) fn server() -> (EmbeddedServer, ManualClock) {
    let clock = ManualClock::new();
    (EmbeddedServer::with_clock(ServerClock::manual(&clock)), clock)
}

/// Runs the words of one command, separated by blanks, and shows the reply.
pub(crate) fn command(server: &EmbeddedServer, words: &str) -> String {
    let words: Vec<&[u8]> = words.split_whitespace().map(str::as_bytes).collect();
    show(&server.command(&words))
}

/// Checks many commands, one a line, each with its reply after `=>`.
pub(crate) fn check(server: &EmbeddedServer, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (words, expected) = line.split_once("=>").expect("a line is a command, `=>` and a reply");
        assert_eq!(command(server, words), expected.trim(), "{words}");
    }
}

/// Runs Lua without keys and arguments and shows the reply.
pub(crate) fn eval(server: &EmbeddedServer, source: &str) -> String {
    show(&server.eval(source, &[], &[]))
}

/// A call with keys and arguments separated by blanks.
pub(crate) fn call(script: &'static Script, keys: &str, args: &str) -> Call {
    Call::new(script, keys.split_whitespace(), args.split_whitespace())
}

/// Runs a script and shows the reply.
pub(crate) fn run(server: &EmbeddedServer, script: &'static Script, keys: &str, args: &str) -> String {
    show(&server.execute(&call(script, keys, args)))
}

/// A reply in few characters: `nil`, `3`, `"text"`, `[1, "a"]`, `!ERROR text`.
pub(crate) fn show(reply: &Result<Reply, ServerError>) -> String {
    match reply {
        Ok(reply) => show_reply(reply),
        Err(error) => format!("!{}", error.text()),
    }
}

/// The same for what a caller sees: `?` where the outcome is unknown, `-` where nothing was sent.
pub(crate) fn show_result(result: &Result<Reply, LinkError>) -> String {
    match result {
        Ok(reply) => show_reply(reply),
        Err(LinkError::Refused(error)) => format!("!{}", error.text()),
        Err(LinkError::Unknown(_)) => "?".into(),
        Err(LinkError::NotSent(_)) => "-".into(),
    }
}

fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Int(value) => value.to_string(),
        Reply::Bulk(text) => format!("\"{}\"", String::from_utf8_lossy(text)),
        Reply::Array(parts) => format!("[{}]", parts.iter().map(show_reply).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

/// Polls once.
pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The output of a future that does not wait.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match poll(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits"),
    }
}
