//! The shop's data: lists on the server of the locks, or on the in-process engine. The store is deliberately simple. A
//! sale reads the stock and appends an entry with separate commands. Only the lock makes the sale atomic.

use super::support::{Place, Stage};
use leasehold::Client;
use leasehold::embedded::EmbeddedServer;
use leasehold::raw::RawConnection;
use std::sync::Arc;

/// Lists of strings that all clients share.
#[derive(Clone)]
pub(crate) enum Store {
    /// A connection for plain commands. An application uses a separate client for its data.
    Server(Arc<RawConnection>),
    Process(EmbeddedServer),
}

/// The error of the store.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Store {
    /// Opens the store on the server or engine of the example.
    pub(crate) async fn open(stage: &Stage) -> Result<Self, Failed> {
        match &stage.place {
            Place::Server(url) => Self::connect(url).await,
            Place::Process(server) => Ok(Self::Process(server.clone())),
        }
    }

    /// Opens the store on a server.
    pub(crate) async fn connect(url: &str) -> Result<Self, Failed> {
        let connection = Client::builder().connect_raw(url).await?.pop().ok_or("no server")?;
        Ok(Self::Server(Arc::new(connection)))
    }

    /// Appends an entry to a list.
    pub(crate) async fn append(&self, list: &str, what: &str) -> Result<(), Failed> {
        self.number("RPUSH", &[list, what]).await.map(drop)
    }

    /// Returns the length of a list.
    pub(crate) async fn length(&self, list: &str) -> Result<usize, Failed> {
        Ok(usize::try_from(self.number("LLEN", &[list]).await?)?)
    }

    /// Returns all entries of a list.
    pub(crate) async fn all(&self, list: &str) -> Result<Vec<String>, Failed> {
        match self {
            Self::Server(connection) => {
                let reply = connection.ask("LRANGE", &[list, "0", "-1"]).await?;
                let all = reply.array().unwrap_or_default().iter().filter_map(|part| part.text().ok());
                Ok(all.map(str::to_owned).collect())
            }
            Self::Process(server) => {
                let reply = server.command(&[b"LRANGE", list.as_bytes(), b"0", b"-1"])?;
                Ok(reply.array()?.iter().map(|part| part.text().map(str::to_owned)).collect::<Result<_, _>>()?)
            }
        }
    }

    /// Deletes a list.
    pub(crate) async fn remove(&self, list: &str) -> Result<(), Failed> {
        self.number("DEL", &[list]).await.map(drop)
    }

    async fn number(&self, verb: &'static str, words: &[&str]) -> Result<i64, Failed> {
        match self {
            Self::Server(connection) => Ok(connection.ask(verb, words).await?.int().map_err(|_| "no number")?),
            Self::Process(server) => {
                // Yields like a reply over a network, so that races can happen.
                tokio::task::yield_now().await;
                let words: Vec<_> = std::iter::once(&verb).chain(words).map(|word| word.as_bytes()).collect();
                Ok(server.command(&words)?.int()?)
            }
        }
    }
}
