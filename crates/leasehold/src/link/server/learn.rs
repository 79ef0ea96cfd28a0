//! Identifies a server: its product, its role, and its eviction policy.

use super::connection::word;
use super::connection_slot::ConnectionSlot;
use super::error::ConnectError;
use super::settings::Publish;
use super::shared::LinkShared;
use leasehold_core::link::ServerInfo;
use leasehold_core::wire::Frame;

/// Identifies the server once.
pub(super) async fn learn(shared: &LinkShared, connection_slot: &ConnectionSlot) -> Result<ServerInfo, ConnectError> {
    let server = connection_slot.label();
    let lost = |error| ConnectError::of_loss(&server, error);
    let connection = connection_slot.current().map_err(lost)?;
    let timeout = Some(shared.settings.attempt());
    let ask = async |command: &'static str, words: [&'static str; 2]| {
        let words = words.into_iter().filter(|word| !word.is_empty());
        connection.send(command, words.map(word).collect(), timeout).await.map_err(lost)
    };
    // INFO first: the user has this permission for the server's run id, and managed services forbid CONFIG.
    let eviction_policy = match reported_policy(&ask("INFO", ["memory", ""]).await?) {
        Some(policy) => Some(policy),
        None => configured(&ask("CONFIG", ["GET", "maxmemory-policy"]).await?),
    };
    if connection.about.is_active_replica {
        return Err(ConnectError::ActiveActive { server: server.clone(), kind: "KeyDB with active-replica" });
    }
    if connection.about.is_keydb {
        // INFO replication reveals it only while a primary exists.
        for (setting, kind) in
            [("active-replica", "KeyDB with active-replica"), ("multi-master", "KeyDB with multi-master")]
        {
            if configured(&ask("CONFIG", ["GET", setting]).await?).as_deref() == Some("yes") {
                return Err(ConnectError::ActiveActive { server: server.clone(), kind });
            }
        }
    }
    if has_crdt(&ask("INFO", ["modules", ""]).await?) {
        return Err(ConnectError::ActiveActive {
            server: server.clone(),
            kind: "an Active-Active database of Redis Enterprise",
        });
    }
    let cluster = shared.slots.is_some();
    let sharded_notices = match shared.settings.publish {
        Publish::Classic => false,
        Publish::Sharded => true,
        Publish::Auto if cluster => {
            let words = vec![word("SHARDNUMSUB"), word("0")];
            connection.send("PUBSUB", words, timeout).await.map_err(lost)?.error().is_none()
        }
        Publish::Auto => false,
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

/// Whether `INFO modules` lists the CRDT module of Redis Enterprise.
fn has_crdt(answer: &Frame) -> bool {
    let is_crdt = |line: &str| line.split(&[':', ','][..]).any(|word| word.trim() == "name=crdt");
    answer.text().is_some_and(|info| info.lines().any(is_crdt))
}

/// The value of the only setting in the reply.
fn configured(answer: &Frame) -> Option<String> {
    match answer {
        Frame::Map(entries) => entries.first()?.1.text(),
        Frame::Array(parts) => parts.get(1)?.text(),
        _ => None,
    }
    .map(str::to_owned)
}

fn reported_policy(answer: &Frame) -> Option<String> {
    let mut lines = answer.text()?.lines();
    lines.find_map(|line| line.strip_prefix("maxmemory_policy:")).map(|policy| policy.trim().to_owned())
}
