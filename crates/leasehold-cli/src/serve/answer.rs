//! Responses.

use super::page;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response as AnyResponse, StatusCode};
use axum::response::Response;

pub(super) const HTML: &str = "text/html; charset=utf-8";

/// Returns a page with one sentence.
pub(super) fn sentence(status: StatusCode, text: &str) -> Response {
    answer(status, HTML, page::of_sentence(text, text, None))
}

/// Returns a response.
pub(super) fn answer(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = AnyResponse::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
