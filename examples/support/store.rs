//! The shop's own data, beside the locks: lists, on the server of the locks or on the engine inside this process.
//!
//! It is deliberately simple. Reading the stock and selling a unit must be done as one. They are several commands here, and nothing but the
//! lock around them keeps them together.

use super::support::{Place, Stage};
use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::Config;
use fred::types::{Builder, ClusterHash, CustomCommand};
use leasehold::embedded::EmbeddedServer;

/// Lists of texts that all clients share.
#[derive(Clone)]
pub(crate) enum Store {
    Server(Client),
    Process(EmbeddedServer),
}

/// Why the store did not do what it was told.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Store {
    /// The store at the place of the story.
    pub(crate) async fn open(stage: &Stage) -> Result<Self, Failed> {
        match &stage.place {
            Place::Server(url) => Self::connect(url).await,
            Place::Process(server) => Ok(Self::Process(server.clone())),
        }
    }

    /// The store on a server.
    pub(crate) async fn connect(url: &str) -> Result<Self, Failed> {
        let client = Builder::from_config(Config::from_url(url)?).build()?;
        client.init().await?;
        Ok(Self::Server(client))
    }

    /// Adds to a list.
    pub(crate) async fn append(&self, list: &str, what: &str) -> Result<(), Failed> {
        self.number("RPUSH", &[list, what]).await.map(drop)
    }

    /// How long a list is.
    pub(crate) async fn length(&self, list: &str) -> Result<usize, Failed> {
        Ok(usize::try_from(self.number("LLEN", &[list]).await?)?)
    }

    /// All of a list.
    pub(crate) async fn all(&self, list: &str) -> Result<Vec<String>, Failed> {
        match self {
            Self::Server(client) => {
                Ok(client.custom(command("LRANGE"), [list, "0", "-1"].map(str::to_owned).to_vec()).await?)
            }
            Self::Process(server) => {
                let reply = server.command(&[b"LRANGE", list.as_bytes(), b"0", b"-1"])?;
                Ok(reply.array()?.iter().map(|part| part.text().map(str::to_owned)).collect::<Result<_, _>>()?)
            }
        }
    }

    /// Forgets a list.
    pub(crate) async fn remove(&self, list: &str) -> Result<(), Failed> {
        self.number("DEL", &[list]).await.map(drop)
    }

    async fn number(&self, verb: &'static str, words: &[&str]) -> Result<i64, Failed> {
        match self {
            Self::Server(client) => {
                let words = words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
                Ok(client.custom(command(verb), words).await?)
            }
            Self::Process(server) => {
                // No store answers at once: others get their chance to do harm here, as they do on a network.
                tokio::task::yield_now().await;
                let words: Vec<_> = std::iter::once(&verb).chain(words).map(|word| word.as_bytes()).collect();
                Ok(server.command(&words)?.int()?)
            }
        }
    }
}

const fn command(verb: &'static str) -> CustomCommand {
    CustomCommand {
        cmd: fred::bytes_utils::Str::from_static(verb),
        cluster_hash: ClusterHash::FirstKey,
        blocking: false,
    }
}
