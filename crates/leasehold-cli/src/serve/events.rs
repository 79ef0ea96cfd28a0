//! Server-sent events: the changes of a view, as one browser needs them.
//!
//! A browser that reads slowly gets fewer messages and not a queue of them: each is made of the present view when there is room for it.

use super::changes::Sent;
use super::view::View;
use axum::body::{Body, Bytes};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// How often texts that have an age are made anew.
const TICK: Duration = Duration::from_secs(1);

/// How long a connection is silent at the most.
const SILENCE: Duration = Duration::from_secs(15);

/// A source of views. It keeps what the stream needs for as long as the stream lives.
pub(super) trait Source: Send + 'static {
    /// Waits until there may be another view.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// The present view; `None` before the first one.
    fn view(&mut self) -> Option<View>;
}

struct Listener<S> {
    source: S,
    sent: Sent,
    ended: watch::Receiver<bool>,
    silent_since: Instant,
}

/// The body of an answer that tells of each change until the browser leaves or the program ends.
pub(super) fn body(source: impl Source, ended: watch::Receiver<bool>) -> Body {
    let listener = Listener { source, sent: Sent::default(), ended, silent_since: Instant::now() };
    Body::from_stream(unfold(listener, next))
}

/// The next message.
async fn next<S: Source>(mut listener: Listener<S>) -> Option<(Result<Bytes, Infallible>, Listener<S>)> {
    loop {
        if *listener.ended.borrow() {
            return None;
        }
        let message = listener.source.view().and_then(|view| listener.sent.message(&view));
        let text = match message {
            Some(message) => format!("data: {message}\n\n"),
            // A line that means nothing shows whether the browser is there.
            None if listener.silent_since.elapsed() >= SILENCE => ":\n\n".to_owned(),
            None => {
                let silence = listener.silent_since + SILENCE;
                tokio::select! {
                    () = listener.source.changed() => {}
                    () = sleep(TICK) => {}
                    () = sleep_until(silence) => {}
                    _ = listener.ended.wait_for(|ended| *ended) => return None,
                }
                continue;
            }
        };
        listener.silent_since = Instant::now();
        return Some((Ok(Bytes::from(text)), listener));
    }
}
