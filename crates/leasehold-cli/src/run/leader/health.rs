//! The state of a candidate, and the responses to health checks.

use crate::run::hold::Held;
use crate::run::record::escaped_label;
use crate::run::target::Target;
use axum::Router;
use axum::extract::State as Extracted;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use leasehold::fence::FencingToken;
use leasehold::{Client, HoldToken};
use serde_json::json;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Interval between inspections of the leader.
const LOOK: Duration = Duration::from_secs(1);

/// Timeout of a reply. A candidate without a reply cannot take over.
const REPLY: Duration = Duration::from_secs(2);

/// The state that a candidate reports.
pub(super) struct Health {
    name: String,
    state: Mutex<State>,
    is_stopping: Arc<AtomicBool>,
}

enum State {
    /// The candidate has not received a reply from the server yet.
    Starting,
    /// The candidate campaigns, and the server replies.
    Following { leader: Option<String> },
    /// The candidate leads.
    Leading { hold: HoldToken, token: Option<FencingToken> },
    /// The server does not reply, or refuses the election.
    Failing { why: String },
}

/// The state at the time of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    Starting,
    Following,
    Leading,
    /// The leadership is lost or about to end, and `leasehold` stops the command.
    Stopping,
    Failing,
}

impl Now {
    const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Following => "following",
            Self::Leading => "leading",
            Self::Stopping => "stopping",
            Self::Failing => "failing",
        }
    }
}

impl Health {
    pub(super) fn new(name: &str, is_stopping: Arc<AtomicBool>) -> Self {
        Self { name: name.to_owned(), state: Mutex::new(State::Starting), is_stopping }
    }

    pub(super) fn fails(&self, why: String) {
        *self.state() = State::Failing { why };
    }

    pub(super) fn leads(&self, held: &Held) {
        *self.state() = State::Leading { hold: held.token(), token: held.fencing_token() };
    }

    /// Sets the state after a term. The next inspection shows whether the server replies.
    pub(super) fn campaigns(&self) {
        *self.state() = State::Starting;
    }

    /// Follows the leader while this candidate campaigns. Never completes.
    pub(super) async fn look(&self, client: &Client, target: &Target<'_>) -> Infallible {
        let lock = client.fenced_lock(&self.name);
        loop {
            let state = match timeout(REPLY, lock.inspect()).await {
                // The server refuses every grant, for example because it is out of memory.
                Ok(Ok(None)) if target.trouble.borrow().is_some() => {
                    State::Failing { why: target.trouble.borrow().clone().unwrap_or_default() }
                }
                Ok(Ok(holder)) => State::Following { leader: holder.map(|holder| holder.id.into_string()) },
                // The campaign ends if this user may not acquire the lock.
                Ok(Err(leasehold::Error::Refused { refusal, .. })) if !refusal.is_transient() => {
                    State::Following { leader: None }
                }
                Ok(Err(error)) => State::Failing { why: error.to_string() },
                Err(_) => State::Failing { why: format!("the server did not reply within {REPLY:?}") },
            };
            *self.state() = state;
            sleep(LOOK).await;
        }
    }

    /// Returns the routes of the health checks.
    pub(super) fn router(self: Arc<Self>) -> Router {
        let path =
            |is_well: fn(Now) -> bool| get(async move |Extracted(health): Extracted<Arc<Self>>| health.answer(is_well));
        Router::new()
            .route("/healthz", path(|_| true))
            .route("/ready", path(|now| matches!(now, Now::Following | Now::Leading)))
            .route("/leading", path(|now| now == Now::Leading))
            .route("/following", path(|now| now == Now::Following))
            .route("/metrics", get(async move |Extracted(health): Extracted<Arc<Self>>| health.metrics()))
            .with_state(self)
    }

    fn answer(&self, is_well: fn(Now) -> bool) -> Response {
        let (now, body) = self.report();
        let status = if is_well(now) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        (status, headers, format!("{body}\n")).into_response()
    }

    fn metrics(&self) -> Response {
        let (now, _) = self.report();
        let label = escaped_label(&self.name);
        let text = [
            ("leading", "Whether this process leads by its local clock.", now == Now::Leading),
            ("ready", "Whether this process leads or follows.", matches!(now, Now::Leading | Now::Following)),
        ]
        .map(|(name, help, is)| {
            let name = format!("leasehold_leader_{name}");
            format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name}{{lock=\"{label}\"}} {}\n", u8::from(is))
        });
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.concat()).into_response()
    }

    fn report(&self) -> (Now, serde_json::Value) {
        let state = self.state();
        let (now, token, leader, error) = match &*state {
            State::Starting => (Now::Starting, None, None, None),
            State::Following { leader } => (Now::Following, None, leader.as_ref(), None),
            // The token reads the clock, so it also detects a loss during a pause of this process.
            State::Leading { hold, .. } if hold.is_cancelled() || self.is_stopping.load(Ordering::Acquire) => {
                (Now::Stopping, None, None, None)
            }
            State::Leading { token, .. } => (Now::Leading, token.as_ref(), None, None),
            State::Failing { why } => (Now::Failing, None, None, Some(why)),
        };
        let token = token.map(|token| u64::from(*token));
        let body = json!({ "name": self.name, "state": now.word(), "token": token, "leader": leader, "error": error });
        (now, body)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
