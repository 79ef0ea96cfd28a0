//! The first words on a connection: who we are, who the server is, and where Sentinel sends us.

use super::connection::{About, Connection, is_active_replica, is_read_only, word};
use super::error::ConnectError;
use super::settings::LinkSettings;
use super::stream::Endpoint;
use super::target::{self, ServerTarget};
use bytes::Bytes;
use fred::types::config::{Server, ServerConfig};
use leasehold_core::link::ServerError;
use leasehold_core::wire::Frame;
use std::time::Duration;

/// How a server answered the greeting.
pub(super) enum Greeted {
    /// It is known, and can be used.
    Known { id: Option<i64>, about: About },
    /// It, or a proxy before it, does not know `HELLO`, so it speaks RESP2.
    NoHello,
}

/// Authenticates, chooses the database, and asks who the server is: one round trip.
///
/// # Errors
///
/// What the server refused, in its words.
pub(super) async fn greet(
    connection: &Connection,
    target: &ServerTarget,
    patience: Duration,
    resp3: bool,
) -> Result<Greeted, ConnectError> {
    let server = &connection.server;
    let lost = |error| match connection.malformed() {
        Some(malformed) => ConnectError::of_malformed(server, malformed),
        None => ConnectError::of_loss(server, error).secure(target.secure()),
    };
    let begin = |command: &'static str, args: &[Bytes]| connection.begin(command, args).map_err(lost);
    let answered = async |sent| connection.answered(sent, Some(patience)).await.map_err(lost);
    let login = login(target, resp3).map(|(command, args)| begin(command, &args)).transpose()?;
    let database = target.database().map(|database| begin("SELECT", &[database.to_string().into()])).transpose()?;
    let id = begin("CLIENT", &[word("ID")])?;
    let ping = begin("PING", &[])?;
    let info = begin("INFO", &[word("server")])?;
    let role = begin("INFO", &[word("replication")])?;
    let mut greeted = None;
    if let Some(login) = login {
        let reply = answered(login).await?;
        match reply.error() {
            Some(refusal) if resp3 && is_unknown(refusal) => return Ok(Greeted::NoHello),
            Some(refusal) => return Err(ConnectError::of_refusal(server, refusal)),
            None => greeted = id_in_greeting(&reply),
        }
    }
    let database = match database {
        Some(database) => answered(database).await?.error().cloned(),
        None => None,
    };
    let id = answered(id).await?.int().or(greeted);
    // A server that loads its data answers INFO, and refuses PING. A user who may not PING may still call scripts.
    let ping = answered(ping).await?.error().filter(|refusal| refusal.code() != "NOPERM").cloned();
    if let Some(refusal) = ping.or(database) {
        return Err(ConnectError::of_refusal(server, &refusal));
    }
    let mut about = answered(info).await?.text().map(About::parse).unwrap_or_default();
    let role = answered(role).await?;
    about.is_read_only = role.text().is_some_and(is_read_only);
    about.is_active_replica = role.text().is_some_and(is_active_replica);
    Ok(Greeted::Known { id, about })
}

/// The command that authenticates, and that chooses RESP3.
fn login(target: &ServerTarget, resp3: bool) -> Option<(&'static str, Vec<Bytes>)> {
    let credentials = target.credentials();
    if resp3 {
        let mut args = vec![word("3")];
        if let Some((user, password)) = credentials {
            let user = user.unwrap_or_else(|| "default".to_owned());
            args.extend([word("AUTH"), user.into(), password.into()]);
        }
        return Some(("HELLO", args));
    }
    // Before ACLs there was no user.
    let (user, password) = credentials?;
    Some(("AUTH", user.into_iter().chain([password]).map(Bytes::from).collect()))
}

/// Whether the refusal is that of a server without `HELLO`, or without RESP3.
fn is_unknown(refusal: &ServerError) -> bool {
    refusal.code() == "NOPROTO" || refusal.text().contains("unknown command")
}

/// The id of the connection in the reply to `HELLO`.
fn id_in_greeting(reply: &Frame) -> Option<i64> {
    let Frame::Map(entries) = reply else { return None };
    entries.iter().find(|(key, _)| key.text() == Some("id"))?.1.int()
}

/// The socket to connect to. Sentinels are asked for it.
///
/// # Errors
///
/// No Sentinel names a primary. The first that answered says why; otherwise the last that did not.
pub(super) async fn endpoint(
    target: &ServerTarget,
    server: &ServerConfig,
    settings: &LinkSettings,
) -> Result<Endpoint, ConnectError> {
    let (hosts, service, username, password) = match server {
        ServerConfig::Centralized { server } => return Ok(Endpoint::Tcp(server.clone())),
        ServerConfig::Unix { path } => return Ok(Endpoint::Unix(path.clone())),
        ServerConfig::Clustered { .. } => {
            return Err(ConnectError::Address("a cluster is no single server".to_owned()));
        }
        ServerConfig::Sentinel { hosts, service_name, username, password } => (hosts, service_name, username, password),
    };
    let (mut answered, mut silent) = (None, None);
    for host in hosts {
        let sentinel = Endpoint::Tcp(host.clone());
        let label = sentinel.label();
        let asked = async {
            let (connection, router) = Connection::open(target, &sentinel, label.clone(), settings, 1, false).await?;
            let primary = primary(&connection, service, username.as_ref(), password.as_ref(), settings.attempt()).await;
            connection.end();
            router.abort();
            primary
        };
        match asked.await {
            Ok(primary) => return Ok(primary),
            Err(error @ ConnectError::Unreachable { .. } | error @ ConnectError::Dns { .. }) => silent = Some(error),
            Err(error) => drop(answered.get_or_insert(error)),
        }
    }
    Err(answered.or(silent).unwrap_or_else(|| ConnectError::silent(target::label(server))))
}

/// The address that a Sentinel names.
async fn primary(
    sentinel: &Connection,
    service: &str,
    username: Option<&String>,
    password: Option<&String>,
    patience: Duration,
) -> Result<Endpoint, ConnectError> {
    let lost = |error| match sentinel.malformed() {
        Some(malformed) => ConnectError::of_malformed(&sentinel.server, malformed),
        None => ConnectError::of_loss(&sentinel.server, error),
    };
    let ask = |command: &'static str, args: Vec<Bytes>| sentinel.send(command, args, Some(patience));
    if let Some(password) = password {
        let words = username.into_iter().chain([password]).map(|word| Bytes::from(word.clone())).collect();
        if let Some(refusal) = ask("AUTH", words).await.map_err(lost)?.error() {
            return Err(ConnectError::of_refusal(&sentinel.server, refusal));
        }
    }
    let asked = vec![word("get-master-addr-by-name"), Bytes::from(service.to_owned())];
    let answer = ask("SENTINEL", asked).await.map_err(lost)?;
    if let Some(refusal) = answer.error() {
        return Err(ConnectError::of_refusal(&sentinel.server, refusal));
    }
    let address = match answer.array() {
        Some([host, port]) => host.text().zip(port.text().and_then(|port| port.parse().ok())),
        _ => None,
    };
    match address {
        Some((host, port)) => Ok(Endpoint::Tcp(Server::new(host, port))),
        None => Err(ConnectError::Address(format!(
            "the Sentinel at {} knows no primary by the name {service:?}; correct sentinelServiceName",
            sentinel.server
        ))),
    }
}
