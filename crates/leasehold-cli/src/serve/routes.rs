//! The routes, and the headers of all responses.

use super::answer::{HTML, answer, sentence};
use super::app::{App, MOST_LISTENERS};
use super::details::{self, Followed};
use super::events::{self, Source};
use super::on_view::Shown;
use super::query::{Query, value};
use super::sample::Sample;
use super::sampler::fresh;
use super::view::View;
use super::viewers::Viewer;
use super::waits::{self, Following};
use super::{json, lock, metrics, page, past, unlock};
use crate::overview::journal::Past;
use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::header::{ACCEPT, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use leasehold::Error;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// The headers of every response: only the page's own script, no frames, no cache.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // URLs contain lock names, which other sites must not receive. The unlock form still sends its origin.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("cache-control", "no-store"),
];

/// The headers of live updates, which a proxy must neither buffer nor compress.
const OF_EVENTS: [(&str, &str); 2] = [("x-accel-buffering", "no"), ("cache-control", "no-store, no-transform")];

/// Returns all routes below a path that begins and ends with a slash.
pub(super) fn router(app: Arc<App>, path: &str) -> Router {
    let at = |name: &str| format!("{path}{name}");
    let mut router = Router::new()
        .route(path, get(table))
        .route(&at("locks.json"), get(async |state, uri| table(state, uri, as_json()).await))
        .route(&at("lock"), get(one_lock))
        .route(&at("lock.json"), get(async |state, uri| one_lock(state, uri, as_json()).await))
        .route(&at("waits"), get(all_waits))
        .route(&at("waits.json"), get(async |state| all_waits(state, as_json()).await))
        .route(&at("history"), get(history))
        .route(&at("history.json"), get(async |state, uri| history(state, uri, as_json()).await))
        .route(&at("events"), get(listen))
        .route(&at("metrics"), get(figures))
        .route(&at("healthz"), get(async || answer(StatusCode::OK, PLAIN, "ok\n")))
        .route(&at("unlock"), post(unlock::unlock))
        .route(
            &at("page.js"),
            get(async || answer(StatusCode::OK, "text/javascript; charset=utf-8", include_str!("page.js"))),
        )
        .route(
            &at("page.css"),
            get(async || answer(StatusCode::OK, "text/css; charset=utf-8", include_str!("page.css"))),
        );
    if path != "/" {
        let to = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
        let redirect = async move || {
            let mut response = sentence(StatusCode::PERMANENT_REDIRECT, "the URL of the page ends with a slash");
            response.headers_mut().insert(LOCATION, to);
            response
        };
        router = router.route(path.trim_end_matches('/'), get(redirect));
    }
    router
        .fallback(async || sentence(StatusCode::NOT_FOUND, "page not found"))
        .method_not_allowed_fallback(async || sentence(StatusCode::METHOD_NOT_ALLOWED, "method not allowed"))
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// The media type of plain text.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Rejects requests for other hosts, and adds the headers.
async fn guard(
    State(app): State<Arc<App>>,
    Extension(came_to): Extension<IpAddr>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = if app.hosts.are_meant(request.uri(), request.headers(), came_to) {
        next.run(request).await
    } else {
        let text = "unknown Host header; allow it with leasehold serve --host";
        sentence(StatusCode::MISDIRECTED_REQUEST, text)
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The headers of a request for JSON.
fn as_json() -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(JSON))])
}

const JSON: &str = "application/json";

/// Returns whether a request wants JSON. A browser also accepts HTML.
fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let accept: Vec<_> = accept.map(str::to_ascii_lowercase).collect();
    let has = |kind: &str| accept.iter().any(|accept| accept.contains(kind));
    has(JSON) && !has("text/html")
}

fn document(status: StatusCode, document: &Value) -> Response {
    answer(status, JSON, format!("{document}\n"))
}

async fn table(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let query = Query::of(uri.query());
    let sample = fresh(&app.samples, &app.viewers).await;
    if wants_json(&headers) {
        return document(StatusCode::OK, &json::of_table(&app, &sample, &query));
    }
    let view = app.views.of_table(&sample, &query, app.every, &app.journal);
    answer(StatusCode::OK, HTML, page::of_table(&view, &query, &app.place))
}

async fn one_lock(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let Some(name) = value(uri.query(), "name") else {
        return sentence(StatusCode::BAD_REQUEST, "the URL has no lock name");
    };
    let (status, detail) = match details::look(&app.client, &app.prefix, &name).await {
        Ok(detail) => (StatusCode::OK, detail),
        Err(error @ Error::Invalid(_)) => return sentence(StatusCode::BAD_REQUEST, &error.to_string()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, details::away(None, &name, &error)),
    };
    let past = past_of(&app, &name);
    if wants_json(&headers) {
        return document(status, &json::of_lock(&detail, &past));
    }
    let view = lock::view(&detail, &past, &app.prefix);
    answer(status, HTML, page::of_lock(&view, &detail, &app.place, app.token.is_some()))
}

fn past_of(app: &App, name: &str) -> Vec<Arc<Past>> {
    app.journal.lock().unwrap_or_else(PoisonError::into_inner).of_lock(name)
}

async fn all_waits(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let sample = fresh(&app.samples, &app.viewers).await;
    let Some(found) = app.waits.recent(app.every).await else {
        return sentence(
            StatusCode::SERVICE_UNAVAILABLE,
            "the search for waits takes too long; use leasehold deadlocks",
        );
    };
    if wants_json(&headers) {
        return document(StatusCode::OK, &waits::as_json(&found, &sample, &app.prefix));
    }
    answer(StatusCode::OK, HTML, page::of_waits(&waits::view(&found, &sample, &app.prefix), &app.place))
}

/// Returns the view of past holds.
fn view_of_past(app: &App, sample: &Sample, is_lost: bool) -> View {
    let past = app.journal.lock().unwrap_or_else(PoisonError::into_inner).recent(is_lost);
    let view = app.views.of_table(sample, &Query::of(None), app.every, &app.journal);
    let summary = format!("Last {}", crate::shown::counted(past.len() as u64, "hold"));
    View { summary, tables: vec![("past", Arc::new(past::lines(&past, true)))], ..view }
}

fn is_lost(uri: &Uri) -> bool {
    value(uri.query(), "show").is_some_and(|show| show == "lost")
}

async fn history(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let (sample, is_lost) = (fresh(&app.samples, &app.viewers).await, is_lost(&uri));
    if wants_json(&headers) {
        let past = app.journal.lock().unwrap_or_else(PoisonError::into_inner).recent(is_lost);
        return document(StatusCode::OK, &json::of_past(&past));
    }
    answer(StatusCode::OK, HTML, page::of_history(&view_of_past(&app, &sample, is_lost), is_lost, &app.place))
}

async fn figures(State(app): State<Arc<App>>) -> Response {
    let sample = fresh(&app.samples, &app.viewers).await;
    let listeners = MOST_LISTENERS - app.listeners.available_permits();
    let text = metrics::text(&sample, listeners, &app.unlocks, Instant::now());
    answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

/// Streams live updates of a view.
async fn listen(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let Ok(place) = app.listeners.clone().try_acquire_owned() else {
        let mut response =
            sentence(StatusCode::SERVICE_UNAVAILABLE, "too many browsers with live updates; reload later");
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        return response;
    };
    let (of, ended) = (value(uri.query(), "of").unwrap_or_default(), app.ended.clone());
    let table = |what, place| {
        let (samples, viewer) = (app.samples.clone(), app.viewers.join());
        Table { app: app.clone(), what, samples, _viewer: viewer, _place: place }
    };
    let mut response = match (value(uri.query(), "name"), of.as_str()) {
        (Some(name), _) => {
            let (followed, app) = (app.details.follow(&name), app.clone());
            events::stream(OneLock { app, name, followed, _place: place }, ended)
        }
        (None, "waits") => events::stream(table(What::Waits(app.waits.follow()), place), ended),
        (None, "history") => events::stream(table(What::Past { is_lost: is_lost(&uri) }, place), ended),
        (None, _) => {
            let what = What::Locks { query: Query::of(uri.query()), shown: app.on_view.open() };
            events::stream(table(what, place), ended)
        }
    };
    for (name, value) in OF_EVENTS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// A view of all locks, for one browser.
struct Table {
    app: Arc<App>,
    what: What,
    samples: watch::Receiver<Sample>,
    _viewer: Viewer,
    _place: OwnedSemaphorePermit,
}

enum What {
    Locks { query: Query, shown: Shown },
    Past { is_lost: bool },
    Waits(Following),
}

impl Source for Table {
    async fn changed(&mut self) {
        let is_over = match &mut self.what {
            What::Waits(following) => following.found.changed().await.is_err(),
            What::Locks { .. } | What::Past { .. } => self.samples.changed().await.is_err(),
        };
        if is_over {
            std::future::pending::<()>().await;
        }
    }

    fn view(&mut self) -> Option<View> {
        let Self { app, what, samples, .. } = self;
        let sample = samples.borrow_and_update().clone();
        match what {
            What::Locks { query, shown } => {
                let view = app.views.of_table(&sample, query, app.every, &app.journal);
                view.tables.iter().for_each(|(_, lines)| shown.are(lines));
                Some(view)
            }
            What::Past { is_lost } => Some(view_of_past(app, &sample, *is_lost)),
            What::Waits(following) => {
                let found = following.found.borrow_and_update().clone()?;
                Some(waits::view(&found, &sample, &app.prefix))
            }
        }
    }
}

/// The lock page as shown to one browser.
struct OneLock {
    app: Arc<App>,
    name: String,
    followed: Followed,
    _place: OwnedSemaphorePermit,
}

impl Source for OneLock {
    async fn changed(&mut self) {
        if self.followed.detail.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn view(&mut self) -> Option<View> {
        let detail = self.followed.detail.borrow_and_update().clone()?;
        Some(lock::view(&detail, &past_of(&self.app, &self.name), &self.app.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_json_and_browsers_html() {
        let wants =
            |accept: &'static str| wants_json(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]));
        assert!(wants("application/json") && wants("application/json, */*;q=0.1"));
        assert!(!wants("text/html,application/xhtml+xml,*/*;q=0.8") && !wants("*/*") && !wants_json(&HeaderMap::new()));
    }
}
