//! The handshake of a connection: authentication, identification of the server, and the lookup in Sentinel.

use super::about::{About, is_active_replica, is_read_only};
use super::address;
use super::connection::{Connection, StandIn, word};
use super::credentials::Credentials;
use super::error::ConnectError;
use super::settings::LinkSettings;
use super::target::{Endpoint, Sentinels, Server, ServerTarget};
use bytes::Bytes;
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::wire::Frame;
use std::sync::Arc;
use std::time::Duration;

/// The name of this library in `CLIENT LIST`.
const LIBRARY: [(&str, &str); 2] = [("LIB-NAME", "leasehold"), ("LIB-VER", env!("CARGO_PKG_VERSION"))];

/// The advice for a user whose greeting had no answer but the end of the connection.
const HUNG_UP: &str = "it closed the connection without an answer: a proxy that does not know HELLO may need ?protocol=resp2 in the URL, and \
                       one that does not know SUBSCRIBE, such as twemproxy, cannot be used";

/// The result of the handshake.
pub(super) enum Greeted {
    /// The server is identified and usable.
    Known { id: Option<i64>, about: About },
    /// The server, or a proxy in front of it, does not know `HELLO`: use RESP2.
    NoHello,
}

/// Authenticates, selects the database, and identifies the server, in one round trip.
///
/// # Errors
///
/// The server's refusal, with its error message.
pub(super) async fn greet(
    connection: &Connection,
    target: &ServerTarget,
    patience: Duration,
    resp3: bool,
) -> Result<Greeted, ConnectError> {
    let server = &connection.server;
    let lost = |error| match connection.malformed() {
        Some(malformed) => ConnectError::of_malformed(server, malformed),
        None => {
            let lost = ConnectError::of_loss(server, error).secure(target.secure());
            if connection.was_hung_up_on() { lost.with_advice(HUNG_UP) } else { lost }
        }
    };
    let begin = |command: &'static str, args: &[Bytes]| connection.begin(command, args).map_err(lost);
    let answered = async |sent| connection.answered(sent, Some(patience)).await.map_err(lost);
    let credentials = target.credentials(server, patience).await?;
    let login = login(credentials.as_ref(), resp3).map(|(command, args)| begin(command, &args)).transpose()?;
    let database = target.database().map(|database| begin("SELECT", &[database.to_string().into()])).transpose()?;
    let id = begin("CLIENT", &[word("ID")])?;
    let own = begin("CLIENT", &[word("INFO")])?;
    let ping = begin("PING", &[])?;
    let info = begin("INFO", &[word("server")])?;
    let role = begin("INFO", &[word("replication")])?;
    // Operators see the name in CLIENT LIST. A named user may lack the right, and each refusal would add an entry to
    // the server's ACL log.
    let is_default = credentials.as_ref().and_then(|known| known.user.as_deref()).is_none_or(|user| user == "default");
    let mut named = Vec::new();
    for (what, text) in LIBRARY.into_iter().filter(|_| is_default) {
        named.push(begin("CLIENT", &[word("SETINFO"), word(what), word(text)])?);
    }
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
    let own = answered(own).await?;
    // A server that loads its data answers INFO but refuses PING. A user without PING may still call scripts. So may
    // all users of a server that cannot save its data, although it refuses each call.
    let is_answer = |refusal: &&ServerError| matches!(refusal.code(), "NOPERM" | "MISCONF");
    let ping = answered(ping).await?.error().filter(|refusal| !is_answer(refusal)).cloned();
    if let Some(refusal) = ping.or(database) {
        return Err(ConnectError::of_refusal(server, &refusal));
    }
    let mut about = answered(info).await?.text().map(About::parse).unwrap_or_default();
    about.address = own.text().zip(id).and_then(|(line, id)| server_address(line, id));
    let role = answered(role).await?;
    about.is_read_only = role.text().is_some_and(is_read_only);
    about.is_active_replica = role.text().is_some_and(is_active_replica);
    for named in named {
        // Servers before 7.2 do not know this command.
        answered(named).await?;
    }
    Ok(Greeted::Known { id, about })
}

/// The command that authenticates and selects RESP3.
fn login(credentials: Option<&Credentials>, resp3: bool) -> Option<(&'static str, Vec<Bytes>)> {
    if !resp3 {
        return credentials.map(|credentials| ("AUTH", auth(credentials)));
    }
    let mut args = vec![word("3")];
    if let Some(Credentials { user, password }) = credentials {
        let user = user.clone().unwrap_or_else(|| "default".to_owned());
        args.extend([word("AUTH"), user.into(), password.clone().into()]);
    }
    Some(("HELLO", args))
}

/// The arguments of `AUTH`. Servers without ACLs have no users.
fn auth(credentials: &Credentials) -> Vec<Bytes> {
    credentials.user.iter().chain([&credentials.password]).cloned().map(Bytes::from).collect()
}

/// Whether the server refuses `HELLO` or RESP3.
fn is_unknown(refusal: &ServerError) -> bool {
    refusal.code() == "NOPROTO" || refusal.text().contains("unknown command")
}

/// The id of the connection in the reply to `HELLO`.
fn id_in_greeting(reply: &Frame) -> Option<i64> {
    let Frame::Map(entries) = reply else { return None };
    entries.iter().find(|(key, _)| key.text() == Some("id"))?.1.int()
}

/// The server's own address in the reply to `CLIENT INFO`, if the reply is about the connection with this id.
fn server_address(line: &str, id: i64) -> Option<String> {
    let field = |name: &str| line.split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let is_own = field("id")?.parse() == Ok(id);
    field("laddr").filter(|address| is_own && !address.is_empty()).map(str::to_owned)
}

/// The address to connect to, from Sentinel if the target has Sentinels.
///
/// # Errors
///
/// No Sentinel returned a primary. The error is that of the first Sentinel that replied, otherwise of the last
/// Sentinel.
pub(super) async fn endpoint(
    target: &ServerTarget,
    server: &Server,
    settings: &LinkSettings,
) -> Result<Endpoint, ConnectError> {
    let sentinels = match server {
        Server::At(endpoint) => return Ok(endpoint.clone()),
        Server::OfSentinels(sentinels) => sentinels,
    };
    let (mut answered, mut silent) = (None, None);
    for host in &sentinels.hosts {
        let asked = async {
            let (connection, stand_in) = sentinel(target, &Endpoint::Tcp(host.clone()), sentinels, settings).await?;
            let primary = primary(&connection, target, &sentinels.service, settings.attempt()).await;
            connection.end();
            stand_in.abort();
            primary
        };
        match asked.await {
            Ok(primary) => return Ok(primary),
            Err(error @ ConnectError::Unreachable { .. } | error @ ConnectError::Dns { .. }) => silent = Some(error),
            Err(error) => drop(answered.get_or_insert(error)),
        }
    }
    Err(answered.or(silent).unwrap_or_else(|| ConnectError::silent(server.label())))
}

/// Connects to a Sentinel.
///
/// # Errors
///
/// The Sentinel is unreachable, or refuses the login.
pub(super) async fn sentinel(
    target: &ServerTarget,
    to: &Endpoint,
    sentinels: &Sentinels,
    settings: &LinkSettings,
) -> Result<(Connection, StandIn), ConnectError> {
    let (connection, stand_in) = Connection::open(target, to, to.label(), settings, &Arc::default(), false).await?;
    if let Some(credentials) = &sentinels.credentials {
        let answer = connection.send("AUTH", auth(credentials), Some(settings.attempt())).await;
        if let Some(refusal) = answer.map_err(|error| lost(&connection, error))?.error() {
            return Err(ConnectError::of_refusal(&connection.server, refusal));
        }
    }
    Ok((connection, stand_in))
}

fn lost(sentinel: &Connection, error: LinkError) -> ConnectError {
    match sentinel.malformed() {
        Some(malformed) => ConnectError::of_malformed(&sentinel.server, malformed),
        None => ConnectError::of_loss(&sentinel.server, error),
    }
}

/// The address in a Sentinel's reply.
async fn primary(
    sentinel: &Connection,
    target: &ServerTarget,
    service: &str,
    patience: Duration,
) -> Result<Endpoint, ConnectError> {
    let asked = vec![word("get-master-addr-by-name"), Bytes::copy_from_slice(service.as_bytes())];
    let answer = sentinel.send("SENTINEL", asked, Some(patience)).await.map_err(|error| lost(sentinel, error))?;
    if let Some(refusal) = answer.error() {
        return Err(ConnectError::of_refusal(&sentinel.server, refusal));
    }
    if answer == Frame::Nil {
        return Err(ConnectError::Address(format!(
            "the Sentinel at {} knows no primary by the name {service:?}; correct sentinelServiceName",
            sentinel.server
        )));
    }
    let address = match answer.array() {
        Some([host, port]) => host.text().zip(port.text().and_then(|port| port.parse().ok())),
        _ => None,
    };
    match address.filter(|(host, _)| address::is_host(host)) {
        Some((host, port)) => Ok(Endpoint::Tcp(target.announced(host, port))),
        None => Err(ConnectError::Protocol {
            server: sentinel.server.clone(),
            reason: "SENTINEL did not answer with an address".to_owned(),
            source: None,
        }),
    }
}
