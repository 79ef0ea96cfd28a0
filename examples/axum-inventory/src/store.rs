//! The database: PostgreSQL or SQLite, with statements that run on both.

use crate::Failed;
use leasehold::fence::sql;
use sqlx::any::AnyPoolOptions;
use sqlx::{Any, AnyPool, Transaction};
use std::time::Duration;

/// The units left of each item.
const ITEMS: &str = "CREATE TABLE IF NOT EXISTS item (id BIGINT PRIMARY KEY, units BIGINT NOT NULL)";

/// One row for each sold unit. A retried order finds its row.
const PURCHASES: &str =
    "CREATE TABLE IF NOT EXISTS purchase (order_id TEXT PRIMARY KEY, item BIGINT NOT NULL, token BIGINT NOT NULL)";

/// The database of the shop.
#[derive(Clone)]
pub struct Store(AnyPool);

/// The fencing token of the holder of an item's lock, for the database.
pub struct Fence {
    pub token: i64,
    pub holder: String,
}

/// The state of an item for an order.
pub enum Found {
    /// An earlier attempt has served the order.
    Ordered,
    /// The number of units left.
    Left(i64),
    /// A later holder of the lock has registered its token.
    StaleToken,
    /// The item does not exist.
    Nothing,
}

/// The outcome of a sale.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// The order has bought the unit.
    Sold,
    /// A later holder of the lock has registered its token.
    StaleToken,
}

impl Store {
    /// Connects, and creates missing tables.
    pub async fn open(url: &str) -> Result<Self, Failed> {
        sqlx::any::install_default_drivers();
        let pool =
            AnyPoolOptions::new().max_connections(8).acquire_timeout(Duration::from_secs(10)).connect(url).await?;
        if url.starts_with("sqlite:") {
            // WAL allows concurrent readers beside one writer, across processes.
            sqlx::query("PRAGMA journal_mode = WAL").execute(&pool).await?;
        }
        for table in [sql::CREATE_TABLE, ITEMS, PURCHASES] {
            sqlx::query(table).execute(&pool).await?;
        }
        Ok(Self(pool))
    }

    /// Adds an item with its units, unless the item exists.
    pub async fn stock(&self, item: i64, units: i64) -> Result<(), sqlx::Error> {
        let insert = "INSERT INTO item (id, units) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
        sqlx::query(insert).bind(item).bind(units).execute(&self.0).await?;
        Ok(())
    }

    /// Empties the shop, and adds one item with its units.
    pub async fn restock(&self, item: i64, units: i64) -> Result<(), sqlx::Error> {
        let mut change = self.0.begin().await?;
        sqlx::query("DELETE FROM purchase").execute(&mut *change).await?;
        sqlx::query("DELETE FROM item").execute(&mut *change).await?;
        // Another lock server may have issued greater tokens.
        sqlx::query("DELETE FROM leasehold_fence").execute(&mut *change).await?;
        let insert = sqlx::query("INSERT INTO item (id, units) VALUES ($1, $2)");
        insert.bind(item).bind(units).execute(&mut *change).await?;
        change.commit().await
    }

    /// Reads an item under a lock. This first read registers the token, which prevents later writes by older holders.
    pub async fn find(&self, item: i64, order: &str, fence: Option<&Fence>) -> Result<Found, sqlx::Error> {
        let mut change = self.0.begin().await?;
        let admitted = admit(&mut change, item, fence).await?;
        let units = sqlx::query_scalar::<_, i64>("SELECT units FROM item WHERE id = $1").bind(item);
        let found = match units.fetch_optional(&mut *change).await? {
            None => Found::Nothing,
            Some(_) if !admitted => Found::StaleToken,
            Some(units) => {
                let ordered = sqlx::query("SELECT 1 FROM purchase WHERE order_id = $1").bind(order);
                if ordered.fetch_optional(&mut *change).await?.is_some() { Found::Ordered } else { Found::Left(units) }
            }
        };
        change.commit().await?;
        Ok(found)
    }

    /// Writes a sale under the lock. `left` is the result of [`Store::find`] minus one, so only the lock prevents a
    /// lost update.
    pub async fn sell(&self, item: i64, order: &str, left: i64, fence: Option<&Fence>) -> Result<Written, sqlx::Error> {
        let mut change = self.0.begin().await?;
        if !admit(&mut change, item, fence).await? {
            return Ok(Written::StaleToken); // dropping the transaction rolls back
        }
        let update = sqlx::query("UPDATE item SET units = $2 WHERE id = $1");
        update.bind(item).bind(left).execute(&mut *change).await?;
        let insert = sqlx::query("INSERT INTO purchase (order_id, item, token) VALUES ($1, $2, $3)");
        let token = fence.map_or(0, |fence| fence.token);
        insert.bind(order).bind(item).bind(token).execute(&mut *change).await?;
        change.commit().await?;
        Ok(Written::Sold)
    }

    /// Returns the numbers of remaining and sold units.
    pub async fn count(&self, item: i64) -> Result<(i64, i64), sqlx::Error> {
        let left = sqlx::query_scalar("SELECT units FROM item WHERE id = $1").bind(item).fetch_one(&self.0).await?;
        let sold = sqlx::query_scalar("SELECT COUNT(*) FROM purchase WHERE item = $1").bind(item);
        Ok((left, sold.fetch_one(&self.0).await?))
    }
}

/// Registers the token in the database, which then refuses older tokens. This first statement of a transaction locks
/// the row until the end of the transaction. Without a lock there is no token.
async fn admit(change: &mut Transaction<'_, Any>, item: i64, fence: Option<&Fence>) -> Result<bool, sqlx::Error> {
    let Some(Fence { token, holder }) = fence else { return Ok(true) };
    let shown = sqlx::query(sql::ADMIT).bind(format!("item:{item}")).bind(*token).bind(holder);
    Ok(shown.execute(&mut **change).await?.rows_affected() == 1)
}
