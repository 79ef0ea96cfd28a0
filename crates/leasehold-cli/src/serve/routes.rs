//! The routes, and the headers of all responses.

use super::answer::{HTML, answer, sentence};
use super::app::{App, MOST_LISTENERS};
use super::details::{self, Followed};
use super::events::{self, Source};
use super::on_view::Shown;
use super::query::{Query, value};
use super::sample::Sample;
use super::sampler::fresh;
use super::view::{self, View};
use super::viewers::Viewer;
use super::{metrics, page, unlock};
use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use leasehold::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// The headers of every response: only our own script, no frames, no cache.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // URLs contain lock names, so other pages must not get them. Our own form still sends its origin.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("cache-control", "no-store"),
];

/// The headers of live changes, which a proxy must neither buffer nor compress.
const OF_EVENTS: [(&str, &str); 2] = [("x-accel-buffering", "no"), ("cache-control", "no-store, no-transform")];

/// All routes.
pub(super) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(table))
        .route("/lock", get(lock))
        .route("/events", get(listen))
        .route("/metrics", get(figures))
        .route("/unlock", post(unlock::unlock))
        .route(
            "/page.js",
            get(async || answer(StatusCode::OK, "text/javascript; charset=utf-8", include_str!("page.js"))),
        )
        .route("/page.css", get(async || answer(StatusCode::OK, "text/css; charset=utf-8", include_str!("page.css"))))
        .fallback(async || sentence(StatusCode::NOT_FOUND, "page not found"))
        .method_not_allowed_fallback(async || sentence(StatusCode::METHOD_NOT_ALLOWED, "method not allowed"))
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

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

async fn table(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let query = Query::of(uri.query());
    let sample = fresh(&app.samples, &app.viewers).await;
    let view = app.views.of_table(&sample, &query, app.every);
    answer(StatusCode::OK, HTML, page::of_table(&view, &query, &app.place))
}

async fn lock(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let Some(name) = value(uri.query(), "name") else {
        return sentence(StatusCode::BAD_REQUEST, "the URL has no lock name");
    };
    let (status, detail) = match details::look(&app.client, &name).await {
        Ok(detail) => (StatusCode::OK, detail),
        Err(error @ Error::Invalid(_)) => return sentence(StatusCode::BAD_REQUEST, &error.to_string()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, details::away(None, &name, &error)),
    };
    answer(status, HTML, page::of_lock(&view::of_lock(&detail), &name, &detail, app.token.is_some()))
}

async fn figures(State(app): State<Arc<App>>) -> Response {
    let sample = fresh(&app.samples, &app.viewers).await;
    let listeners = MOST_LISTENERS - app.listeners.available_permits();
    let text = metrics::text(&sample, listeners, &app.unlocks, Instant::now());
    answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

/// Live changes of the table, or of one lock.
async fn listen(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let Ok(place) = app.listeners.clone().try_acquire_owned() else {
        let mut response =
            sentence(StatusCode::SERVICE_UNAVAILABLE, "too many browsers with live changes; reload later");
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        return response;
    };
    let mut response = match value(uri.query(), "name") {
        Some(name) => events::stream(OneLock { followed: app.details.follow(&name), _place: place }, app.ended.clone()),
        None => {
            let (query, samples, viewer) = (Query::of(uri.query()), app.samples.clone(), app.viewers.join());
            let shown = app.on_view.open();
            let source = AllLocks { app: app.clone(), samples, query, shown, _viewer: viewer, _place: place };
            events::stream(source, app.ended.clone())
        }
    };
    for (name, value) in OF_EVENTS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// The table of one browser.
struct AllLocks {
    app: Arc<App>,
    samples: watch::Receiver<Sample>,
    query: Query,
    shown: Shown,
    _viewer: Viewer,
    _place: OwnedSemaphorePermit,
}

impl Source for AllLocks {
    async fn changed(&mut self) {
        if self.samples.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn view(&mut self) -> Option<View> {
        let sample = self.samples.borrow_and_update().clone();
        let view = self.app.views.of_table(&sample, &self.query, self.app.every);
        self.shown.are(&view.lines);
        Some(view)
    }
}

/// The lock page of one browser.
struct OneLock {
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
        self.followed.detail.borrow_and_update().as_deref().map(view::of_lock)
    }
}
