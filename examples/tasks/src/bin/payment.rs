//! docs/tasks/double-payment.md: an order that arrives twice is charged once.

use leasehold::fence::sql;
use leasehold::kind::Fenced;
use leasehold::{Client, Guard};
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions};
use sqlx::{Sqlite, Transaction};
use std::time::Duration;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Charges an order unless it is already paid.
async fn pay(client: &Client, db: &SqlitePool, order: i64) -> Result<&'static str, Failed> {
    let lock = client.fenced_lock(format!("payment:{order}"));
    let paid = lock.acquire().wait(Duration::from_secs(10)).with(async |held| {
        let mut look = begin(db, order, held).await?;
        let row = sqlx::query("SELECT 1 FROM payment WHERE id = ?1").bind(order);
        let is_paid = row.fetch_optional(&mut *look).await?.is_some();
        look.commit().await?; // commits the token, even without another write
        if is_paid {
            return Ok("was paid before");
        }
        charge(order).await;
        let mut change = begin(db, order, held).await?;
        sqlx::query("INSERT INTO payment (id) VALUES (?1)").bind(order).execute(&mut *change).await?;
        change.commit().await?;
        Ok("charged")
    });
    paid.await?
}

/// Begins a transaction. Fails if a later holder of the lock has already begun a transaction.
async fn begin(db: &SqlitePool, order: i64, held: &Guard<Fenced>) -> Result<Transaction<'static, Sqlite>, Failed> {
    let mut change = db.begin().await?;
    let admit = sqlx::query(sql::SQLITE_ADMIT).bind(format!("payment:{order}"));
    let admit = admit.bind(held.fencing_token().as_i64()).bind(held.holder_id().into_string());
    if admit.execute(&mut *change).await?.rows_affected() == 0 {
        return Err("a later holder has this order".into());
    }
    Ok(change)
}

/// Calls the payment provider, with the order as its idempotency key.
async fn charge(order: i64) {
    println!("the provider charges order {order}");
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let client = Client::from_env().await?;
    // One connection, because this database is in memory.
    let db = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    for table in [sql::CREATE_TABLE, "CREATE TABLE payment (id INTEGER PRIMARY KEY)"] {
        sqlx::query(table).execute(&db).await?;
    }
    let (first, second) = tokio::join!(pay(&client, &db, 7), pay(&client, &db, 7));
    println!("{}; {}", first?, second?);
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
