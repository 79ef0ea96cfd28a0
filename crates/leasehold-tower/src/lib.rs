//! A [tower](https://docs.rs/tower) layer that acquires a distributed lock for each request, by a key of the request: an idempotency key, an account
//! number, the path of a file. It is generic over bodies, so it works with axum, hyper and tonic.
//!
//! | the request | the response |
//! |---|---|
//! | has no key | that of the inner service; with [`LockLayer::require_key`] 400 |
//! | acquires the lock | that of the inner service, after the release of the lock |
//! | finds the lock busy | 423 at once, or after [`LockLayer::wait`]; [`Http::busy`] sets another status, such as 409 |
//! | loses its lock | 500, and the layer drops the inner future; or [that of the inner service, marked](OnLoss::Mark) |
//! | cannot acquire the lock, because the server is unreachable | 503 |
//!
//! # Examples
//!
//! Two concurrent requests with one idempotency key, on the in-process engine:
//!
//! ```
//! use axum::Router;
//! use axum::body::Body;
//! use axum::http::{Request, StatusCode};
//! use axum::routing::post;
//! use leasehold::Client;
//! use leasehold_tower::{LockLayer, header};
//! use std::time::Duration;
//! use tower::ServiceExt;
//!
//! async fn order() -> &'static str {
//!     tokio::time::sleep(Duration::from_millis(50)).await; // reads, decides, writes
//!     "ordered"
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let client = Client::embedded(); // Client::connect("redis://127.0.0.1:6379").await? in a service
//! let layer = LockLayer::new(header(&client, "idempotency-key", "orders:")).require_key();
//! let service = Router::new().route("/orders", post(order)).layer(layer);
//!
//! let click = || Request::post("/orders").header("idempotency-key", "7f3a").body(Body::empty()).unwrap();
//! let (first, second) = tokio::join!(service.clone().oneshot(click()), service.clone().oneshot(click()));
//! assert_eq!([first?.status(), second?.status()], [StatusCode::OK, StatusCode::LOCKED]);
//!
//! // The lock is free again. It does not remember the order: see below.
//! assert_eq!(service.oneshot(click()).await?.status(), StatusCode::OK);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! A fenced lock named by a part of the path, with a wait. The handler passes the token to its database:
//!
//! ```
//! use axum::{Extension, Router, routing::post};
//! use leasehold::Client;
//! use leasehold_tower::{HeldLock, LockLayer};
//! use std::time::Duration;
//!
//! async fn withdraw(Extension(held): Extension<HeldLock>) -> String {
//!     let token = held.fencing_token().expect("the lock is fenced");
//!     format!("UPDATE account SET … WHERE token <= {}", token.as_i64())
//! }
//!
//! # fn routes(client: Client) -> Router {
//! let account = move |request: &http::request::Parts| {
//!     let account = request.uri.path().strip_prefix("/accounts/")?;
//!     Some(client.fenced_lock(format!("account:{account}")).class("account"))
//! };
//! Router::new()
//!     .route("/accounts/{id}", post(withdraw))
//!     .layer(LockLayer::new(account).require_key().wait(Duration::from_secs(2)))
//! # }
//! # let _ = routes(Client::embedded());
//! ```
//!
//! # When to use it, and when not
//!
//! Use the layer to prevent concurrent requests with one key. It does **not** remember completed requests. For work
//! that must happen once, store the key with the result, and look up the key under the lock. A handler holds the lock
//! until it returns, so move long work into a job. A lease cannot stop the write of a holder that was paused beyond its
//! lease: use a fenced lock if a late write does harm.
//!
//! The layer releases the lock before it returns the response, so a handler that streams its body does not hold the lock while the body is sent.
//!
//! The key is untrusted input. Prefix it with the identity of the caller, such as the account, to separate the keys of
//! different callers. The response to an invalid key, such as an empty or too long key, is 400.
//!
//! # Readiness and limits
//!
//! The layer is always ready. It polls the readiness of the inner service after it has acquired the lock. Requests that
//! wait for a busy key therefore do not count towards a concurrency limit below the layer. To bound the waiting
//! requests, put a limit above the layer.
//!
//! # Settings of the client
//!
//! Requests need shorter timeouts than jobs. Set a short `command_timeout` and `unreachable_after`, such as half a
//! second and a second. Both limit the delay of a request while the server is down.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod held;
mod key;
mod layer;
mod refusal;
mod service;
mod settings;

pub use held::{HeldLock, LostLock, OnLoss};
pub use key::header;
pub use layer::LockLayer;
pub use refusal::{Grpc, Http, Refusal, Refuse};
pub use service::{LockService, ResponseFuture};
