//! Server-sent events: the changes of a view for one browser.
//!
//! A slow browser gets fewer messages instead of a queue, because each message is created from the current view.

use super::changes::Sent;
use super::view::View;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Update interval of ages.
const TICK: Duration = Duration::from_secs(1);

/// The interval of keep-alive messages. A page without a message for much longer shows a warning (`page.js`).
const SILENCE: Duration = Duration::from_secs(3);

/// A source of views, alive as long as the stream.
pub(super) trait Source: Send + 'static {
    /// Waits until there may be another view.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// The current view. `None` before the first view.
    fn view(&mut self) -> Option<View>;
}

struct Listener<S> {
    source: S,
    sent: Sent,
    ended: watch::Receiver<bool>,
}

/// A response that streams each change until the browser or the program ends.
pub(super) fn stream(source: impl Source, ended: watch::Receiver<bool>) -> Response {
    let listener = Listener { source, sent: Sent::default(), ended };
    let alive = KeepAlive::new().interval(SILENCE).event(Event::default().event("alive").data("{}"));
    Sse::new(unfold(listener, next)).keep_alive(alive).into_response()
}

/// The next message.
async fn next<S: Source>(mut listener: Listener<S>) -> Option<(Result<Event, Infallible>, Listener<S>)> {
    loop {
        if *listener.ended.borrow() {
            return None;
        }
        if let Some(message) = listener.source.view().and_then(|view| listener.sent.message(&view)) {
            return Some((Ok(Event::default().data(message)), listener));
        }
        tokio::select! {
            () = listener.source.changed() => {}
            () = sleep(TICK) => {}
            _ = listener.ended.wait_for(|ended| *ended) => return None,
        }
    }
}
