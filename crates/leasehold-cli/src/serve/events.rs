//! Server-sent events: the changes of a view for one browser.
//!
//! A slow browser gets fewer messages instead of a queue, because each message is created from the current view. Each
//! message has the age of the view, and there is a message at least every second: a page that hears nothing for longer
//! shows a warning (`page.js`).

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

/// Maximum interval of messages.
const TICK: Duration = Duration::from_secs(1);

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
    /// The time of the last message.
    at: Instant,
    ended: watch::Receiver<bool>,
}

/// A response that streams each change until the browser or the program ends.
pub(super) fn stream(source: impl Source, ended: watch::Receiver<bool>) -> Response {
    let listener = Listener { source, sent: Sent::default(), at: Instant::now(), ended };
    Sse::new(unfold(listener, next)).into_response()
}

/// The next message.
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
