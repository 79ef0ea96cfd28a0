//! The handshake of a connection: login, identification of the server, and the lookup in Sentinel.

use super::connection::{Connection, word};
use super::error::ConnectError;
use super::pool::ConnectionManager;
use super::shared::{LinkSettings, LinkShared};
use super::target;
use super::target::{Credentials, Endpoint, Sentinels, Server, ServerTarget};
use crate::PublishCommand;
use bytes::Bytes;
use leasehold_core::link::{LinkError, ServerError, ServerInfo};
use leasehold_core::plain::Plain;
use leasehold_core::reply::Reply;
use std::sync::Arc;
use std::time::Duration;

const LIBRARY: [(&str, &str); 2] = [("LIB-NAME", "leasehold"), ("LIB-VER", env!("CARGO_PKG_VERSION"))];

/// The advice if the server closes the connection after the greeting.
const HUNG_UP: &str = "it closed the connection without a reply: a proxy without HELLO may need ?protocol=resp2 in the URL; \
                       a proxy without SUBSCRIBE, such as twemproxy, does not work";

/// Logs in, selects the database, and identifies the server, in one round trip. `None`: `HELLO` is unknown.
pub(super) async fn greet(
    connection: &Connection,
    target: &ServerTarget,
    timeout: Duration,
    resp3: bool,
) -> Result<Option<About>, ConnectError> {
    let server = &connection.server;
    let lost = |error| {
        let lost = lost(connection, error).secure(target.secure);
        if connection.was_hung_up_on() { lost.with_advice(HUNG_UP) } else { lost }
    };
    let begin = |command: &'static str, args: &[Bytes]| connection.begin(command, args).map_err(lost);
    let answered = async |sent| connection.answered(sent, timeout).await.map_err(lost);
    let credentials = target.credentials(server, timeout).await?;
    let login = login(credentials.as_ref(), resp3).map(|(command, args)| begin(command, &args)).transpose()?;
    let database = target.database().map(|database| begin("SELECT", &[database.to_string().into()])).transpose()?;
    let id = begin("CLIENT", &[word("ID")])?;
    let own = begin("CLIENT", &[word("INFO")])?;
    let ping = begin("PING", &[])?;
    let info = begin("INFO", &[word("server")])?;
    let role = begin("INFO", &[word("replication")])?;
    // A named user may lack the right to set a name, and each refusal would add an entry to the server's ACL log.
    let is_default = credentials.as_ref().and_then(|known| known.user.as_deref()).is_none_or(|user| user == "default");
    let mut named = Vec::new();
    for (what, text) in LIBRARY.into_iter().filter(|_| is_default) {
        named.push(begin("CLIENT", &[word("SETINFO"), word(what), word(text)])?);
    }
    let mut greeted = None;
    if let Some(login) = login {
        let reply = answered(login).await?;
        match reply.error() {
            Some(refusal) if resp3 && is_unknown(refusal) => return Ok(None),
            Some(refusal) => return Err(ConnectError::of_refusal(server, refusal)),
            None => greeted = id_in_greeting(&reply),
        }
    }
    let database = match database {
        Some(database) => answered(database).await?.error().cloned(),
        None => None,
    };
    let id = answered(id).await?.int().ok().or(greeted);
    let own = answered(own).await?;
    // A server that loads its data answers INFO but refuses PING. A user without PING may still call scripts. So may
    // all users of a server that cannot save its data, although it refuses each call.
    let is_answer = |refusal: &&ServerError| matches!(refusal.code(), "NOPERM" | "MISCONF");
    let ping = answered(ping).await?.error().filter(|refusal| !is_answer(refusal)).cloned();
    if let Some(refusal) = ping.or(database) {
        return Err(ConnectError::of_refusal(server, &refusal));
    }
    let (info, role) = (answered(info).await?, answered(role).await?);
    let mut about = About::parse(info.text().unwrap_or_default(), role.text().unwrap_or_default());
    about.id = id;
    about.address = own.text().ok().zip(id).and_then(|(line, id)| server_address(line, id));
    for named in named {
        // Servers before 7.2 lack this command.
        answered(named).await?;
    }
    Ok(Some(about))
}

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

fn is_unknown(refusal: &ServerError) -> bool {
    refusal.code() == "NOPROTO" || refusal.text().contains("unknown command")
}

fn id_in_greeting(reply: &Reply) -> Option<i64> {
    let (entries, _) = reply.array().ok()?.as_chunks();
    entries.iter().find(|[key, _]| key.text() == Ok("id"))?[1].int().ok()
}

/// The server's own address in the reply to `CLIENT INFO`, if the reply is about the connection with this id.
fn server_address(line: &str, id: i64) -> Option<String> {
    let field = |name: &str| line.split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let is_own = field("id")?.parse() == Ok(id);
    field("laddr").filter(|address| is_own && !address.is_empty()).map(str::to_owned)
}

/// The address to connect to, from Sentinel if the target has Sentinels.
/// Fails with the error of the first Sentinel that replied, otherwise with that of the last Sentinel.
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
            let connection = sentinel(target, &Endpoint::Tcp(host.clone()), sentinels, settings).await?;
            let primary = primary(&connection, target, &sentinels.service, settings.attempt()).await;
            connection.end();
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

pub(super) async fn sentinel(
    target: &ServerTarget,
    to: &Endpoint,
    sentinels: &Sentinels,
    settings: &LinkSettings,
) -> Result<Connection, ConnectError> {
    let connection = Connection::open(target, to, settings, &Arc::default(), false).await?;
    if let Some(credentials) = &sentinels.credentials {
        let answer = connection.send("AUTH", auth(credentials), settings.attempt()).await;
        if let Some(refusal) = answer.map_err(|error| lost(&connection, error))?.error() {
            return Err(ConnectError::of_refusal(&connection.server, refusal));
        }
    }
    Ok(connection)
}

fn lost(connection: &Connection, error: LinkError) -> ConnectError {
    match connection.malformed() {
        Some(malformed) => ConnectError::of_malformed(&connection.server, malformed),
        None => ConnectError::of_loss(&connection.server, error),
    }
}

async fn primary(
    sentinel: &Connection,
    target: &ServerTarget,
    service: &str,
    timeout: Duration,
) -> Result<Endpoint, ConnectError> {
    let asked = vec![word("get-master-addr-by-name"), Bytes::copy_from_slice(service.as_bytes())];
    let answer = sentinel.send("SENTINEL", asked, timeout).await.map_err(|error| lost(sentinel, error))?;
    if let Some(refusal) = answer.error() {
        return Err(ConnectError::of_refusal(&sentinel.server, refusal));
    }
    if answer == Reply::Nil {
        return Err(ConnectError::Address(format!(
            "the Sentinel at {} knows no primary with the name {service:?}; correct sentinelServiceName",
            sentinel.server
        )));
    }
    let address = match answer.array() {
        Ok([host, port]) => host.text().ok().zip(port.text().ok().and_then(|port| port.parse().ok())),
        _ => None,
    };
    match address.filter(|(host, _)| target::is_announced_host(host)) {
        Some((host, port)) => Ok(Endpoint::Tcp(target.announced(host, port))),
        None => Err(ConnectError::Protocol {
            server: sentinel.server.clone(),
            reason: "the reply to SENTINEL is not an address".to_owned(),
            source: None,
        }),
    }
}

/// The server's `INFO server`, and its end of the connection in `CLIENT INFO`, if the user may read them.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// The connection's id on the server; `None` if the user may not read it.
    pub(super) id: Option<i64>,
    pub(super) run_id: Option<String>,
    /// The server's end of the connection, as the server sees it in `CLIENT INFO`.
    pub(super) address: Option<String>,
    pub(super) flavor: String,
    pub(super) version: String,
    pub(super) is_cluster: bool,
    pub(super) is_read_only: bool,
    /// The server is a replica that accepts writes, as its primary does.
    pub(super) is_active_replica: bool,
    /// The server is KeyDB, which supports such replicas.
    pub(super) is_keydb: bool,
    /// The server's compare-and-delete.
    pub(super) delete: Option<Plain>,
}

impl About {
    /// Parses `INFO server` and `INFO replication`.
    fn parse(info: &str, replication: &str) -> Self {
        let is_role = |line: &str| replication.lines().any(|other| other.trim() == line);
        let field = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
        };
        let valkey = field("valkey_version");
        let default = if valkey.is_some() { "valkey" } else { "redis" };
        let flavor = field("server_name").unwrap_or_else(|| default.to_owned());
        let version = valkey.or_else(|| field("redis_version")).unwrap_or_default();
        Self {
            run_id: field("run_id"),
            delete: Plain::delete_of(&flavor, &version),
            flavor,
            version,
            is_keydb: field("executable").is_some_and(|program| program.contains("keydb")),
            is_read_only: is_role("role:slave") && is_role("slave_read_only:1"),
            is_active_replica: is_role("role:active-replica"),
            is_cluster: field("redis_mode").or_else(|| field("server_mode")).is_some_and(|mode| mode == "cluster"),
            ..Self::default()
        }
    }
}

/// Identifies the server: its product, its role and its eviction policy.
pub(super) async fn server_info(shared: &LinkShared, manager: &ConnectionManager) -> Result<ServerInfo, ConnectError> {
    let server = manager.label();
    let lost = |error| ConnectError::of_loss(&server, error);
    let connection = manager.current().map_err(lost)?;
    let timeout = shared.settings.attempt();
    let ask = async |command: &'static str, words: &[&'static str]| {
        let words = words.iter().copied().map(word).collect();
        connection.send(command, words, timeout).await.map_err(lost)
    };
    let active_active = |kind| Err(ConnectError::ActiveActive { server: server.clone(), kind });
    // INFO first: the user has this permission for the server's run id, and managed services forbid CONFIG.
    let eviction_policy = match reported_policy(&ask("INFO", &["memory"]).await?) {
        Some(policy) => Some(policy),
        None => configured(&ask("CONFIG", &["GET", "maxmemory-policy"]).await?),
    };
    if connection.about.is_active_replica {
        return active_active("KeyDB with active-replica");
    }
    if connection.about.is_keydb {
        // INFO replication contains it only while a primary exists.
        for (setting, kind) in
            [("active-replica", "KeyDB with active-replica"), ("multi-master", "KeyDB with multi-master")]
        {
            if configured(&ask("CONFIG", &["GET", setting]).await?).as_deref() == Some("yes") {
                return active_active(kind);
            }
        }
    }
    if has_crdt(&ask("INFO", &["modules"]).await?) {
        return active_active("an Active-Active database of Redis Enterprise");
    }
    if shared.settings.fsync {
        // The server replies at once: this connection has written nothing.
        let reply = ask("WAITAOF", &["1", "0", "1"]).await?;
        if let Some(refusal) = reply.error() {
            return Err(without_fsync(server, refusal));
        }
    }
    let cluster = shared.slots.is_some();
    let sharded_notices = match shared.settings.publish {
        PublishCommand::Classic => false,
        PublishCommand::Sharded => true,
        PublishCommand::Auto if cluster => ask("PUBSUB", &["SHARDNUMSUB", "0"]).await?.error().is_none(),
        PublishCommand::Auto => false,
    };
    let mut info = ServerInfo::default();
    info.flavor.clone_from(&connection.about.flavor);
    info.version.clone_from(&connection.about.version);
    info.instance = connection.about.run_id.clone().unwrap_or_default();
    info.eviction_policy = eviction_policy;
    info.cluster = cluster;
    info.sharded_notices = sharded_notices;
    Ok(info)
}

fn without_fsync(server: String, refusal: &ServerError) -> ConnectError {
    let remedy = if refusal.text().contains("unknown command") {
        "use Redis 7.2 or later, or Valkey"
    } else if refusal.text().contains("appendonly") {
        "set appendonly yes on this server"
    } else {
        return ConnectError::of_refusal(&server, refusal);
    };
    ConnectError::NoFsync { server, remedy, reason: refusal.text().to_owned() }
}

/// Whether `INFO modules` lists the CRDT module of Redis Enterprise.
fn has_crdt(answer: &Reply) -> bool {
    let is_crdt = |line: &str| line.split(&[':', ','][..]).any(|word| word.trim() == "name=crdt");
    answer.text().is_ok_and(|info| info.lines().any(is_crdt))
}

fn configured(answer: &Reply) -> Option<String> {
    answer.array().ok()?.get(1)?.text().ok().map(str::to_owned)
}

fn reported_policy(answer: &Reply) -> Option<String> {
    let mut lines = answer.text().ok()?.lines();
    lines.find_map(|line| line.strip_prefix("maxmemory_policy:")).map(|policy| policy.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_replica_is_not_read_only() {
        let is_read_only = |replication: &str| About::parse("", replication).is_read_only;
        assert!(is_read_only("# Replication\r\nrole:slave\r\nslave_read_only:1\r\n"));
        assert!(!is_read_only("# Replication\r\nrole:slave\r\nslave_read_only:0\r\n"));
        assert!(!is_read_only("# Replication\r\nrole:master\r\n"));
    }

    #[test]
    fn replica_that_takes_writes_beside_its_primary_is_known() {
        let is_active_replica = |replication: &str| About::parse("", replication).is_active_replica;
        assert!(is_active_replica("# Replication\r\nrole:active-replica\r\nmaster_host:b\r\n"));
        assert!(!is_active_replica("# Replication\r\nrole:slave\r\nslave_read_only:0\r\n"));
        assert!(About::parse("redis_version:6.3.4\r\nexecutable:/usr/bin/keydb-server\r\n", "").is_keydb);
        assert!(!About::parse("redis_version:7.0.15\r\nexecutable:/usr/bin/redis-server\r\n", "").is_keydb);
    }

    #[test]
    fn servers_are_told_apart() {
        let redis = About::parse("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:abc\r\n", "");
        assert_eq!((redis.flavor.as_str(), redis.version.as_str(), redis.is_cluster), ("redis", "7.0.15", false));
        assert_eq!(redis.run_id.as_deref(), Some("abc"));
        let info = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:cluster\r\n";
        let valkey = About::parse(info, "");
        assert_eq!((valkey.flavor.as_str(), valkey.version.as_str(), valkey.is_cluster), ("valkey", "9.1.2", true));
    }
}
