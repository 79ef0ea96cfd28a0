//! A buyer: one connection, which sends orders in sequence and retries orders without a response.

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;

/// Maximum number of attempts for an order.
const TRIES: usize = 50;

/// The pause before a retry.
const PAUSE: Duration = Duration::from_millis(50);

type Connection = SendRequest<Empty<Bytes>>;
type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A buyer, with the addresses of the shop in order of preference.
pub struct Buyer {
    addresses: Vec<String>,
    connection: Option<Connection>,
}

/// The outcome of an order for its buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Sold,
    SoldOut,
    /// No attempt received a response.
    Unanswered,
}

impl Buyer {
    pub fn new(mut addresses: Vec<String>, preferred: usize) -> Self {
        let turns = preferred % addresses.len();
        addresses.rotate_left(turns);
        Self { addresses, connection: None }
    }

    /// Sends an order until it receives a response. Also returns the number of attempts.
    pub async fn order(&mut self, item: i64, order: usize) -> (Seen, usize) {
        for tries in 1..=TRIES {
            match self.send(item, order).await {
                Ok(StatusCode::CREATED) => return (Seen::Sold, tries),
                Ok(StatusCode::GONE) => return (Seen::SoldOut, tries),
                Ok(_) => {}
                Err(_) => {
                    // The process died, perhaps before its response. Retry with the next process.
                    self.connection = None;
                    self.addresses.rotate_left(1);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        (Seen::Unanswered, TRIES)
    }

    async fn send(&mut self, item: i64, order: usize) -> Result<StatusCode, Failed> {
        let address = self.addresses[0].clone();
        let connection = match &mut self.connection {
            Some(open) => open,
            none => none.insert(connect(&address).await?),
        };
        connection.ready().await?;
        let request = Request::post(format!("/items/{item}/orders/{order}")).header("host", address);
        let response = connection.send_request(request.body(Empty::new())?).await?;
        let status = response.status();
        response.into_body().collect().await?;
        Ok(status)
    }
}

async fn connect(address: &str) -> Result<Connection, Failed> {
    let (connection, driver) = handshake(TokioIo::new(TcpStream::connect(address).await?)).await?;
    drop(tokio::spawn(driver));
    Ok(connection)
}
