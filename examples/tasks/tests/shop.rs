//! The shop on the server in `LEASEHOLD_URL`.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use leasehold::Client;
use sqlx::sqlite::SqlitePoolOptions;
use std::time::Duration;
use tasks::{Failure, Shop, lock_of, routes, sell};
use tower::ServiceExt as _;

async fn client() -> Client {
    let url = std::env::var("LEASEHOLD_URL").expect("LEASEHOLD_URL names a server");
    Client::builder().prefix(format!("newcomer:{}:", std::process::id())).connect(&url).await.expect("a client")
}

async fn shop(units: i64) -> Shop {
    // Use one connection, because each connection has its own in-memory database.
    let stock = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.expect("a database");
    for statement in
        [leasehold::fence::sql::CREATE_TABLE, "CREATE TABLE stock (item INTEGER PRIMARY KEY, units INTEGER)"]
    {
        sqlx::query(statement).execute(&stock).await.expect("a table");
    }
    sqlx::query("INSERT INTO stock VALUES (1001, ?1)").bind(units).execute(&stock).await.expect("the stock");
    Shop { locks: client().await, stock }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_sell_what_there_is_and_no_more() {
    let shop = shop(20).await;
    let app = routes(shop.clone());
    let requests: Vec<_> = (0..50)
        .map(|_| {
            let request = Request::post("/buy/1001").body(Body::empty()).expect("a request");
            tokio::spawn(app.clone().oneshot(request))
        })
        .collect();
    let mut sold = 0;
    for request in requests {
        match request.await.expect("a task").expect("an answer").status() {
            StatusCode::OK => sold += 1,
            status => assert_eq!(status, StatusCode::GONE),
        }
    }
    assert_eq!(sold, 20);
    assert!(matches!(sell(&shop, 1001).await, Err(Failure::SoldOut)));
    shop.locks.shutdown(Duration::from_secs(5)).await.expect("nothing is held");
}

#[tokio::test]
async fn an_acquire_is_spawned_and_a_kind_is_chosen_at_run_time() {
    let client = client().await;
    for kind in ["reentrant", "fair", "fenced", "write"] {
        let lock = lock_of(&client, kind, kind).expect("a known kind");
        let held = lock.acquire().wait(Duration::from_secs(5)).await.expect("a free lock");
        assert_eq!(held.fencing_token().is_some(), kind == "fenced");
        let waiter = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().wait(Duration::from_secs(10)).await }
        });
        let worker = tokio::spawn(async move { lock.with(async |held| held.hold_count()).await });
        held.release().await.expect("a release");
        waiter.await.expect("a task").expect("the lock").release().await.expect("a release");
        assert_eq!(worker.await.expect("a task").expect("the lock"), 1);
    }
    assert!(lock_of(&client, "spin", "spin").is_none());
    client.shutdown(Duration::from_secs(5)).await.expect("nothing is held");
}
