//! One order: its lock, the reads and writes under the lock, and the response.

use crate::store::{Fence, Found, Store, Written};
use axum::http::StatusCode;
use leasehold::{Client, Error, WithError};
use std::fmt;
use std::time::Duration;

/// Maximum time that an order waits for the lock.
const WAIT: Duration = Duration::from_secs(20);

/// Duration of the payment. It happens outside the database, so no transaction can protect it.
const PAYMENT: Duration = Duration::from_millis(2);

/// The shop of one process.
#[derive(Clone)]
pub struct Shop {
    pub locks: Client,
    pub store: Store,
    /// `false` makes the shop oversell, as the load test shows.
    pub with_locks: bool,
}

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sale {
    Sold,
    SoldOut,
}

/// Why an order failed.
#[derive(Debug)]
pub enum Failure {
    NoSuchItem,
    /// A later holder has the lock. This process was paused beyond its lease, and its write was refused.
    StaleToken,
    Lock(Error),
    Store(sqlx::Error),
}

impl Failure {
    /// Returns the status of the response. Callers retry after 423 and 503.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchItem => StatusCode::NOT_FOUND,
            Self::StaleToken | Self::Lock(Error::Lost { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Lock(error) => StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchItem => f.write_str("the item does not exist"),
            Self::StaleToken => f.write_str("a later holder of the lock has written; nothing was changed"),
            Self::Lock(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error)
    }
}

impl Shop {
    /// Serves an order, in the order of arrival over all processes.
    pub async fn order(&self, item: i64, order: &str) -> Result<Sale, Failure> {
        if !self.with_locks {
            return self.order_under(item, order, None).await;
        }
        let lock = self.locks.fair_lock(format!("item:{item}")).fenced().class("item");
        let served = lock.acquire().wait(WAIT).with(async |held| {
            let fence = Fence { token: held.fencing_token().as_i64(), holder: held.holder_id().into_string() };
            self.order_under(item, order, Some(&fence)).await
        });
        match served.await {
            Ok(sale) => sale,
            // The sale is valid: the database has admitted its token before every later holder's token.
            Err(WithError::NotReleased { value, .. }) => value,
            Err(error) => Err(Failure::Lock(error.into())),
        }
    }

    /// Reads, charges the payment, and writes. The store checks the token at the read and at the write.
    async fn order_under(&self, item: i64, order: &str, fence: Option<&Fence>) -> Result<Sale, Failure> {
        let left = match self.store.find(item, order, fence).await? {
            Found::Ordered => return Ok(Sale::Sold),
            Found::Left(units) if units > 0 => units - 1,
            Found::Left(_) => return Ok(Sale::SoldOut),
            Found::StaleToken => return Err(Failure::StaleToken),
            Found::Nothing => return Err(Failure::NoSuchItem),
        };
        tokio::time::sleep(PAYMENT).await;
        match self.store.sell(item, order, left, fence).await? {
            Written::Sold => Ok(Sale::Sold),
            Written::StaleToken => Err(Failure::StaleToken),
        }
    }
}
