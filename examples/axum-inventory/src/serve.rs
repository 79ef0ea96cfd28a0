//! The service: routes, metrics, and a shutdown that releases all locks.

use crate::sale::{Sale, Shop};
use crate::store::Store;
use crate::{Failed, variable};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use leasehold::Client;
use leasehold::telemetry::BUCKETS_SECONDS;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use serde::Serialize;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// The lease of a lock: how long a dead process blocks other processes. A live process renews its leases.
const LEASE: Duration = Duration::from_secs(3);

/// The default database.
pub const SQLITE: &str = "sqlite://inventory.db?mode=rwc";

/// Serves until SIGTERM or SIGINT.
pub async fn run() -> Result<(), Failed> {
    // Install the recorder before the first client, which registers its series.
    let metrics = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS_SECONDS)?
        .install_recorder()?;
    let store = Store::open(&variable("DATABASE_URL").unwrap_or_else(|| SQLITE.to_owned())).await?;
    store.stock(1, 100).await?;
    let url = variable("LEASEHOLD_URL").unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let locks = settings().connect(&url).await?;
    let with_locks = variable("INVENTORY_LOCKS").is_none_or(|value| value != "none");

    let shop = Shop { locks: locks.clone(), store, with_locks };
    let routes = Router::new()
        .route("/items/{item}/orders/{order}", post(order))
        .with_state(shop)
        .route("/metrics", get(async move || metrics.render()));
    let listener = TcpListener::bind(variable("ADDRESS").as_deref().unwrap_or("127.0.0.1:8080")).await?;
    println!("http://{}", listener.local_addr()?);
    let mut terminated = signal(SignalKind::terminate())?;
    let ended = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    axum::serve(listener, routes).with_graceful_shutdown(ended).await?;
    // All responses are sent, so no order holds a lock.
    locks.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// Requests need shorter timeouts than jobs.
fn settings() -> leasehold::ClientBuilder {
    Client::builder()
        .lease(LEASE)
        .command_timeout(Duration::from_millis(500))
        .unreachable_after(Duration::from_secs(2))
        .announce("axum-inventory")
}

/// Responds to an order.
#[derive(Serialize)]
struct Answer {
    order: String,
    sold: bool,
}

async fn order(State(shop): State<Shop>, Path((item, order)): Path<(i64, String)>) -> (StatusCode, Json<Answer>) {
    let (status, sold) = match shop.order(item, &order).await {
        Ok(Sale::Sold) => (StatusCode::CREATED, true),
        Ok(Sale::SoldOut) => (StatusCode::GONE, false),
        Err(failure) => {
            eprintln!("order {order}: {failure}");
            (failure.status(), false)
        }
    };
    (status, Json(Answer { order, sold }))
}
