//! docs/tasks/web-handler.md: a lock within a handler, and a lock around a handler.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Router, routing::post};
use leasehold::{Client, Error};
use leasehold_tower::{LockLayer, header};
use std::time::Duration;

/// Waits for at most two seconds for the lock of an article.
async fn reserve(State(client): State<Client>, Path(article): Path<String>) -> Result<String, (StatusCode, String)> {
    let lock = client.lock(format!("stock:{article}"));
    let left = lock.with(async |_held| 99 /* read, decide, write */).await.map_err(Error::from);
    let left = left.map_err(|error| {
        let status = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, error.to_string())
    })?;
    Ok(format!("{left} left\n"))
}

/// Runs under the lock of its `idempotency-key`, which the layer acquires.
async fn order() -> &'static str {
    tokio::time::sleep(Duration::from_secs(1)).await; // look the key up, order, write the key down
    "ordered\n"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder()
        .default_wait(Duration::from_secs(2)) // limits every acquire
        .command_timeout(Duration::from_millis(500))
        .unreachable_after(Duration::from_secs(1)) // fails fast if the server is down
        .connect_from_env()
        .await?;
    let layer = LockLayer::new(header(&client, "idempotency-key", "orders:")).require_key();
    let routes = Router::new()
        .route("/orders", post(order).layer(layer))
        .route("/articles/{article}", post(reserve))
        .with_state(client.clone());
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    let ended = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, routes).with_graceful_shutdown(ended).await?;
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
