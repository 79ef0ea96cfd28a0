//! A shop that uses leasehold: an axum handler under a lock, a configurable kind of lock, and a fencing token that the
//! database checks.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use leasehold::fence::sql;
use leasehold::kind::Fenced;
use leasehold::{AnyLock, Client, Error, Guard};
use sqlx::{PgPool, SqlitePool};
use std::time::Duration;

/// The state of a handler.
#[derive(Clone)]
pub struct Shop {
    /// The client that acquires the locks.
    pub locks: Client,
    /// The database of the stock.
    pub stock: SqlitePool,
}

/// Why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// The item is sold out.
    SoldOut,
    /// A later holder has registered its token in the database.
    StaleToken,
    /// An error from the lock.
    Lock(Error),
    /// An error from the database.
    Store(sqlx::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// The response to the request.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::SoldOut => StatusCode::GONE,
            Self::Lock(error) if error.is_contention() => StatusCode::CONFLICT,
            Self::Lock(error) if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
            Self::StaleToken | Self::Lock(_) | Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The routes of the shop.
pub fn routes(shop: Shop) -> Router {
    Router::new().route("/buy/{item}", post(buy)).with_state(shop)
}

async fn buy(State(shop): State<Shop>, Path(item): Path<i64>) -> Result<String, StatusCode> {
    sell(&shop, item).await.map(|left| left.to_string()).map_err(|failure| failure.status())
}

/// Sells a unit. Returns the number of units left.
pub async fn sell(shop: &Shop, item: i64) -> Result<i64, Failure> {
    let lock = shop.locks.fenced_lock(format!("stock:{item}"));
    let guard = lock.acquire().wait(Duration::from_secs(10)).await?;
    let left = take_one(&shop.stock, item, &guard).await;
    guard.release().await?;
    left
}

/// Reads and writes the stock, after the database has admitted the token.
async fn take_one(stock: &SqlitePool, item: i64, guard: &Guard<Fenced>) -> Result<i64, Failure> {
    let mut change = stock.begin().await?;
    let admit = sqlx::query(sql::SQLITE_ADMIT).bind(format!("stock:{item}"));
    let admit = admit.bind(guard.fencing_token().as_i64()).bind(guard.holder_id().into_string());
    if admit.execute(&mut *change).await?.rows_affected() == 0 {
        return Err(Failure::StaleToken);
    }
    let left: i64 =
        sqlx::query_scalar("SELECT units FROM stock WHERE item = ?1").bind(item).fetch_one(&mut *change).await?;
    if left == 0 {
        // Commit the registration of the token, which prevents writes by older holders.
        change.commit().await?;
        return Err(Failure::SoldOut);
    }
    sqlx::query("UPDATE stock SET units = ?2 WHERE item = ?1").bind(item).bind(left - 1).execute(&mut *change).await?;
    change.commit().await?;
    Ok(left - 1)
}

/// Admits a fencing token in a PostgreSQL database.
pub async fn admit_on_postgres(pool: &PgPool, name: &str, guard: &Guard<Fenced>) -> Result<(), Failure> {
    let mut change = pool.begin().await?;
    let admit =
        sqlx::query(sql::ADMIT).bind(name).bind(guard.fencing_token().as_i64()).bind(guard.holder_id().into_string());
    if admit.execute(&mut *change).await?.rows_affected() == 0 {
        return Err(Failure::StaleToken);
    }
    change.commit().await?;
    Ok(())
}

/// Returns the kind of lock that a setting names.
pub fn lock_of(client: &Client, kind: &str, name: &str) -> Option<AnyLock> {
    Some(match kind {
        "reentrant" => client.lock(name).into(),
        "fair" => client.fair_lock(name).into(),
        "fenced" => client.fenced_lock(name).into(),
        "write" => client.read_write_lock(name).write().into(),
        _ => return None,
    })
}
