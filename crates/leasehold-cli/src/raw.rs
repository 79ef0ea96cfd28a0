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
    /// Connects to the client's server, or to the reachable primaries of a cluster.
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

    /// Returns the standalone server, or the primaries of a cluster, sorted by address.
    pub(crate) fn primaries(&self) -> &[Node] {
        &self.nodes
    }

    /// Deletes the keys that outlive test locks: a semaphore's counter, the register of fencing tokens, and a queue's
    /// marks. Stops after a timeout.
    pub(crate) async fn remove(&self, options: &ServerOptions, name: &str) {
        let name = format!("{}{name}", connection::prefix(options));
        let removed = async {
            for key in [name.clone(), format!("redisson_lock_token:{{{name}}}"), format!("leasehold:1:fair:{{{name}}}")]
            {
                // A user without the right to DEL leaves three small keys. Cluster nodes refuse keys of other nodes.
                for node in &self.nodes {
                    let _ = node.ask::<i64>("DEL", &[&key]).await;
                }
            }
        };
        let _ = tokio::time::timeout(PATIENCE, removed).await;
    }
}

/// Sends `SENTINEL` with these arguments and the service name to each Sentinel in the URL. Returns address and reply of
/// each. Empty without Sentinels.
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
    /// The address, for a cluster node.
    pub(crate) address: Option<String>,
    connection: RawConnection,
}

impl Node {
    /// Sends a command, and returns the reply.
    ///
    /// # Errors
    ///
    /// The server refused the command, or did not reply.
    pub(crate) async fn ask<R: FromReply>(&self, command: &'static str, args: &[&str]) -> Result<R, String> {
        let reply = self.connection.ask(command, args).await?;
        R::from_reply(&reply).ok_or_else(|| format!("unexpected reply to {command}"))
    }

    /// Returns the host of the address.
    pub(crate) fn host(&self) -> &str {
        let address = self.connection.address();
        address.rsplit_once(':').map_or(address, |(host, _)| host)
    }

    /// Returns the fields of `INFO`.
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

/// A conversion from a reply.
pub(crate) trait FromReply: Sized {
    /// Converts the reply. `None` for a reply of another type.
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

/// Returns the elements of an array, or the keys and values of a map in order.
impl FromReply for Vec<String> {
    fn from_reply(reply: &Reply) -> Option<Self> {
        reply.array().ok()?.iter().map(String::from_reply).collect()
    }
}
