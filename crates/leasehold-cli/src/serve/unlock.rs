//! The unlock request, the only request that changes a lock.
//!
//! The body contains the token, because browsers and proxies log URLs. The request names the displayed holder, so an
//! outdated page cannot end another hold.

use super::answer::{HTML, answer};
use super::app::App;
use super::page;
use super::query::value;
use crate::failure::{Exit, Failure};
use crate::look::{Kind, look};
use crate::output;
use crate::seen::Hold;
use crate::unlock::{Way, end};
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Maximum length of a request body in bytes.
const LONGEST: usize = 4096;

/// Timeout of a request body.
const PATIENCE: Duration = Duration::from_secs(5);

/// Delay after a wrong token. Delays of concurrent requests add up.
const PENALTY: Duration = Duration::from_millis(500);

/// A rejected request, with its reason.
struct Refused(StatusCode, String);

impl Refused {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self(status, text.into())
    }
}

/// Ends the hold of one holder.
pub(super) async fn unlock(State(app): State<Arc<App>>, request: Request) -> Response {
    let asked = request.uri().query().map(str::to_owned);
    let name = value(asked.as_deref(), "name").filter(|name| !name.is_empty());
    let holder = value(asked.as_deref(), "holder").filter(|holder| !holder.is_empty());
    let result = match may(&app, request).await {
        Err(refused) => Err(refused),
        Ok(()) => match (&name, &holder) {
            (Some(name), Some(holder)) => free(&app, name, holder).await,
            _ => Err(Refused::new(StatusCode::BAD_REQUEST, "the request lacks a lock or a holder")),
        },
    };
    let (status, text) = match result {
        Ok(text) => (StatusCode::OK, text),
        Err(Refused(status, text)) => (status, text),
    };
    let count = match status {
        StatusCode::OK => &app.unlocks.freed,
        status if status.is_client_error() => &app.unlocks.refused,
        _ => &app.unlocks.failed,
    };
    count.fetch_add(1, Ordering::Relaxed);
    answer(status, HTML, page::of_sentence("unlock", &text, name.as_deref()))
}

/// Checks that the request comes from our own page and contains the token.
async fn may(app: &App, request: Request) -> Result<(), Refused> {
    let Some(token) = &app.token else {
        return Err(Refused::new(
            StatusCode::FORBIDDEN,
            "unlocking is disabled; start leasehold serve with --allow-unlock",
        ));
    };
    if !is_from_our_page(request.headers()) {
        return Err(Refused::new(StatusCode::FORBIDDEN, "the request comes from another page"));
    }
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().unwrap_or_default().trim() != "application/x-www-form-urlencoded" {
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the request is not a form"));
    }
    let Ok(body) = timeout(PATIENCE, to_bytes(request.into_body(), LONGEST)).await else {
        return Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "the request timed out"));
    };
    let body = body.map_err(|_| Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long"))?;
    let given = std::str::from_utf8(&body).ok().and_then(|body| value(Some(body), "token")).unwrap_or_default();
    if !token.is(&given) {
        let _turn = app.penalty.lock().await;
        sleep(PENALTY).await;
        return Err(Refused::new(StatusCode::FORBIDDEN, "the token is wrong"));
    }
    Ok(())
}

/// Returns whether no header names another origin. Programs other than browsers send no origin headers.
fn is_from_our_page(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?").to_ascii_lowercase());
    let site = text(HeaderName::from_static("sec-fetch-site"));
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return false;
    }
    let (origin, host) = (text(ORIGIN), text(HOST));
    origin.is_none_or(|origin| origin.split_once("://").map(|(_, host)| host) == host.as_deref())
}

/// Ends the hold if it still exists. Returns the result as text.
async fn free(app: &App, name: &str, holder: &str) -> Result<String, Refused> {
    let Some(seen) = look(&app.client, name).await.map_err(|failure| failed(&failure))? else {
        return Err(Refused::new(StatusCode::NOT_FOUND, format!("{name}: already free")));
    };
    let hit: Vec<&Hold> = seen.holds.iter().filter(|hold| hold.holder.id == *holder).collect();
    if matches!(seen.kind, Kind::Permits | Kind::Counter) || hit.is_empty() {
        let text = format!("{holder} no longer holds {name}; nothing was freed");
        return Err(Refused::new(StatusCode::CONFLICT, text));
    }
    let mut freed = Vec::new();
    for hold in hit {
        match end(&app.client, name, &hold.holder.id, Way::of(&seen, hold)).await {
            Ok(true) => freed.push(hold.as_text()),
            Ok(false) => {}
            Err(error) => return Err(failed(&Failure::from(error))),
        }
    }
    if freed.is_empty() {
        let text = format!("{holder} no longer holds {name}; nothing was freed");
        return Err(Refused::new(StatusCode::CONFLICT, text));
    }
    let text = format!("{name}: freed; it was held by {}", freed.join(" and "));
    output::note(&text, app.json);
    Ok(text)
}

fn failed(failure: &Failure) -> Refused {
    let status = match failure.exit() {
        Exit::Usage => StatusCode::BAD_REQUEST,
        Exit::Conflict => StatusCode::CONFLICT,
        Exit::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        Exit::Refused => StatusCode::BAD_GATEWAY,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refused::new(status, failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_other_pages_are_told_apart() {
        let headers = |pairs: &[(&'static str, &str)]| {
            let pair =
                |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().expect("a value"));
            is_from_our_page(&pairs.iter().map(pair).collect())
        };
        let host = ("host", "localhost:8090");
        assert!(headers(&[host]));
        assert!(headers(&[host, ("origin", "http://localhost:8090"), ("sec-fetch-site", "same-origin")]));
        assert!(headers(&[("host", "Locks.example.org"), ("origin", "https://locks.example.org")]));
        for origin in ["http://evil.example", "null", "http://localhost:8091", "http://localhost:8090.evil.example"] {
            assert!(!headers(&[host, ("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(!headers(&[host, ("sec-fetch-site", site)]), "{site}");
        }
    }
}
