//! docs/tasks/inventory.md: fifty buyers, twenty units.

use leasehold::Client;
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions};
use std::time::Duration;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Sells a unit. Returns `false` if the stock is empty.
async fn buy(client: &Client, db: &SqlitePool, item: i64) -> Result<bool, Failed> {
    let lock = client.fair_lock(format!("item:{item}"));
    let bought = lock.acquire().wait(Duration::from_secs(20)).with(async |_held| {
        let units = sqlx::query_scalar("SELECT units FROM item WHERE id = ?1").bind(item);
        let units: i64 = units.fetch_one(db).await?;
        if units == 0 {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(2)).await; // charge the customer
        let sell = sqlx::query("UPDATE item SET units = ?2 WHERE id = ?1").bind(item).bind(units - 1);
        sell.execute(db).await?;
        Ok(true)
    });
    bought.await?
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let client = Client::from_env().await?;
    // One connection, because this database is in memory.
    let db = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE item (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)").execute(&db).await?;
    sqlx::query("INSERT INTO item VALUES (1, 20)").execute(&db).await?;
    let buyers: Vec<_> = (0..50)
        .map(|_| {
            let (client, db) = (client.clone(), db.clone());
            tokio::spawn(async move { buy(&client, &db, 1).await })
        })
        .collect();
    let mut sold = 0;
    for buyer in buyers {
        sold += u32::from(buyer.await??);
    }
    println!("sold {sold} of 20 units to 50 buyers");
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
