//! A [tower](https://docs.rs/tower) layer that takes a distributed lock by a key of the request: an idempotency key, the number of an account,
//! the path of a file. It is generic over bodies, and so serves axum, hyper and tonic alike.
//!
//! | the request | its answer |
//! |---|---|
//! | has no key | the inner service's; with [`LockLayer::require_key`] 400 |
//! | has the lock | the inner service's, once the lock is released |
//! | finds the lock busy | 423 at once, or after the time of [`LockLayer::wait`]; [`Http::busy`] chooses another status, such as 409 |
//! | loses its lock | 500, and the inner service is polled no more; or [its own answer, marked](OnLoss::Mark) |
//! | cannot have the lock, because the server is out of reach | 503 |
//!
//! # Examples
//!
//! Two requests with one idempotency key meet, on the engine inside the process:
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
//! // The lock is free again. It does not remember that the order was made: see below.
//! assert_eq!(service.oneshot(click()).await?.status(), StatusCode::OK);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! A fenced lock by a part of the path, for which requests wait. The handler shows the token to its database:
//!
//! ```
//! use axum::{Extension, Router, routing::post};
//! use leasehold::Client;
//! use leasehold_tower::{HeldLock, LockLayer};
//! use std::time::Duration;
//!
//! async fn withdraw(Extension(held): Extension<HeldLock>) -> String {
//!     let token = held.fencing_token().expect("the lock is a fenced one");
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
//! It keeps requests of one key from running at the same time. It does **not** remember that a key was served: a service that must do a
//! thing once writes the key down beside what it did, and looks there first, under the lock. A lock is held for as long as a handler runs,
//! so long work belongs into a job. And a lease alone cannot refuse the write of a holder that was paused beyond it: take a fenced lock where
//! that matters.
//!
//! The lock ends with the response and not with its body: a handler that streams its body holds no lock while the body is sent.
//!
//! The key comes from outside. Put what is known of the caller in front of it, such as the account, so that no caller can occupy the keys of
//! another. A key that cannot be the name of a lock, because it is empty or too long, is answered with 400.
//!
//! # Readiness and limits
//!
//! The layer is always ready. It asks the inner service to be ready once it has the lock, so that requests that wait for a busy key occupy no
//! place of a concurrency limit below it. Put a limit above the layer to bound how many requests wait.
//!
//! # Settings of the client
//!
//! Requests are less patient than jobs. Give their client a short `command_timeout` and `unreachable_after`, of half a second and a second for
//! instance, so that a server which is down costs a request no more than that.

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
