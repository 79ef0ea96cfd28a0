//! Server-sent events: the changes of a view for one browser.
//!
//! Each message is created from the current view, so a slow browser receives fewer messages instead of a backlog. Each
//! message contains the age of the view. The server sends one at least every second; without messages, the page shows a
//! warning (`page.js`).

use super::changes::Sent;
use super::view::View;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// Maximum interval between messages.
const TICK: Duration = Duration::from_secs(1);

/// A source of views, alive as long as the stream.
pub(super) trait Source: Send + 'static {
    /// Waits until the view may have changed.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Returns the current view. `None` before the first view.
    fn view(&mut self) -> Option<View>;
}

struct Listener<S> {
    source: S,
    sent: Sent,
    /// The time of the last message.
    at: Instant,
    ended: watch::Receiver<bool>,
}

/// Returns a response that streams changes until the browser disconnects or the program ends.
pub(super) fn stream(source: impl Source, ended: watch::Receiver<bool>) -> Response {
    let listener = Listener { source, sent: Sent::default(), at: Instant::now(), ended };
    Sse::new(unfold(listener, next)).into_response()
}

/// Returns the next message.
async fn next<S: Source>(mut listener: Listener<S>) -> Option<(Result<Event, Infallible>, Listener<S>)> {
    loop {
        if *listener.ended.borrow() {
            return None;
        }
        let view = listener.source.view();
        let changes = view.as_ref().and_then(|view| listener.sent.message(view));
        let (is_due, looked) = (listener.at.elapsed() >= TICK, view.and_then(|view| view.looked));
        if changes.is_some() || is_due {
            let mut message = changes.unwrap_or_default();
            if let Some(looked) = looked {
                message.insert("age".to_owned(), json!(looked.elapsed().as_millis() as u64));
            }
            listener.at = Instant::now();
            return Some((Ok(Event::default().data(Value::from(message).to_string())), listener));
        }
        tokio::select! {
            () = listener.source.changed() => {}
            () = sleep(TICK.saturating_sub(listener.at.elapsed())) => {}
            _ = listener.ended.wait_for(|ended| *ended) => return None,
        }
    }
}
