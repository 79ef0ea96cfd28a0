//! Raw commands for `doctor` and `bench`.

use crate::args::ServerOptions;
use crate::connection;
use leasehold::raw::{RawConnection, Reply};
use std::collections::BTreeMap;
use std::time::Duration;

/// Timeout of a command.
const PATIENCE: Duration = Duration::from_secs(2);

/// Raw connections to the primaries.
pub(crate) struct Raw {
    nodes: Vec<Node>,
}

impl Raw {
    /// Connects to the servers of the locks' client: to the only server, or to the reachable primaries of a cluster.
    ///
    /// # Errors
    ///
    /// The reason, without a password.
    pub(crate) async fn connect(options: &ServerOptions) -> Result<Self, String> {
        let (builder, url) = connection::raw(options, PATIENCE).map_err(|failure| failure.to_string())?;
        let connected = builder.connect_raw(&url).await.map_err(|error| error.to_string())?;
        let is_cluster = url.split("://").next().is_some_and(|scheme| scheme.ends_with("-cluster"));
        let node = |connection: RawConnection| Node {
            address: is_cluster.then(|| connection.address().to_owned()),
            connection,
        };
        Ok(Self { nodes: connected.into_iter().map(node).collect() })
    }

    /// The standalone server, or the primaries of a cluster in the order of their addresses.
    pub(crate) fn primaries(&self) -> &[Node] {
        &self.nodes
    }

    /// Deletes the keys that outlive test locks: the counter of a semaphore, the register of fencing tokens, and the marks
    /// of a queue. Gives up after a timeout.
    pub(crate) async fn remove(&self, options: &ServerOptions, name: &str) {
        let name = format!("{}{name}", connection::prefix(options));
        let removed = async {
            for key in [name.clone(), format!("redisson_lock_token:{{{name}}}"), format!("leasehold:1:fair:{{{name}}}")]
            {
                // Without this right the user leaves three small keys. Cluster nodes that do not own the key refuse.
                for node in &self.nodes {
                    let _ = node.ask::<i64>("DEL", &[&key]).await;
                }
            }
        };
        let _ = tokio::time::timeout(PATIENCE, removed).await;
    }
}

/// The reply of each Sentinel of the URL to `SENTINEL` with these arguments and the service name, with its address.
/// Empty without Sentinels.
pub(crate) async fn ask_sentinels(options: &ServerOptions, word: &str) -> Vec<(String, Result<String, String>)> {
    let Ok((builder, url)) = connection::raw(options, PATIENCE) else { return Vec::new() };
    let Ok(Some((service, all))) = builder.connect_sentinels(&url).await else { return Vec::new() };
    let mut answers = Vec::new();
    for (address, connected) in all {
        let answer = match connected {
            Ok(connection) => Node { address: None, connection }.ask("SENTINEL", &[word, &service]).await,
            Err(why) => Err(format!("unreachable: {why}")),
        };
        answers.push((address, answer));
    }
    answers
}

/// A raw connection to a server.
pub(crate) struct Node {
    /// The address of a cluster node.
    pub(crate) address: Option<String>,
    connection: RawConnection,
}

impl Node {
    /// The reply to a command.
    ///
    /// # Errors
    ///
    /// The server refused the command, or did not answer.
    pub(crate) async fn ask<R: FromReply>(&self, command: &'static str, args: &[&str]) -> Result<R, String> {
        let reply = self.connection.ask(command, args).await?;
        R::from_reply(&reply).ok_or_else(|| format!("unexpected reply to {command}"))
    }

    /// The host of the address.
    pub(crate) fn host(&self) -> &str {
        let address = self.connection.address();
        address.rsplit_once(':').map_or(address, |(host, _)| host)
    }

    /// The fields of `INFO`.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    pub(crate) async fn info(&self) -> Result<BTreeMap<String, String>, String> {
        let text: String = self.ask("INFO", &["all"]).await?;
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Ok(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// A type that a reply converts to.
pub(crate) trait FromReply: Sized {
    /// Converts the reply. `None` for another type.
    fn from_reply(reply: &Reply) -> Option<Self>;
}

impl FromReply for Reply {
    fn from_reply(reply: &Reply) -> Option<Self> {
        Some(reply.clone())
    }
}

impl FromReply for i64 {
    fn from_reply(reply: &Reply) -> Option<Self> {
        reply.int().ok()
    }
}

impl FromReply for String {
    fn from_reply(reply: &Reply) -> Option<Self> {
        reply.text().ok().map(str::to_owned)
    }
}

/// The elements of an array, or the keys and values of a map in order.
impl FromReply for Vec<String> {
    fn from_reply(reply: &Reply) -> Option<Self> {
        reply.array().ok()?.iter().map(String::from_reply).collect()
    }
}
