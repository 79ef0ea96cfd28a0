//! The server's description of itself at connect.

use leasehold_core::plain::Plain;

/// The server's `INFO server`, and its end of the connection in `CLIENT INFO`, if the user may read them.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) run_id: Option<String>,
    /// The server's end of the connection, as the server sees it in `CLIENT INFO`.
    pub(super) address: Option<String>,
    pub(super) flavor: String,
    pub(super) version: String,
    pub(super) is_cluster: bool,
    /// The server is a read-only replica.
    pub(super) is_read_only: bool,
    /// The server is a replica that accepts writes, as its primary does.
    pub(super) is_active_replica: bool,
    /// The server is KeyDB, which supports such replicas.
    pub(super) is_keydb: bool,
    /// The server's compare-and-delete.
    pub(super) delete: Option<Plain>,
}

impl About {
    pub(super) fn parse(info: &str) -> Self {
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
            address: None,
            delete: Plain::delete_of(&flavor, &version),
            flavor,
            version,
            is_read_only: false,
            is_active_replica: false,
            is_keydb: field("executable").is_some_and(|program| program.contains("keydb")),
            is_cluster: field("redis_mode").or_else(|| field("server_mode")).is_some_and(|mode| mode == "cluster"),
        }
    }
}

/// Whether `INFO replication` describes a read-only replica.
pub(super) fn is_read_only(info: &str) -> bool {
    let has = |line: &str| info.lines().any(|other| other.trim() == line);
    has("role:slave") && has("slave_read_only:1")
}

/// Whether `INFO replication` describes a KeyDB server with `active-replica`, which accepts writes as its primary does.
pub(super) fn is_active_replica(info: &str) -> bool {
    info.lines().any(|line| line.trim() == "role:active-replica")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_replica_is_not_read_only() {
        assert!(is_read_only("# Replication\r\nrole:slave\r\nslave_read_only:1\r\n"));
        assert!(!is_read_only("# Replication\r\nrole:slave\r\nslave_read_only:0\r\n"));
        assert!(!is_read_only("# Replication\r\nrole:master\r\n"));
    }

    #[test]
    fn replica_that_takes_writes_beside_its_primary_is_known() {
        assert!(is_active_replica("# Replication\r\nrole:active-replica\r\nmaster_host:b\r\n"));
        assert!(!is_active_replica("# Replication\r\nrole:slave\r\nslave_read_only:0\r\n"));
        assert!(About::parse("redis_version:6.3.4\r\nexecutable:/usr/bin/keydb-server\r\n").is_keydb);
        assert!(!About::parse("redis_version:7.0.15\r\nexecutable:/usr/bin/redis-server\r\n").is_keydb);
    }

    #[test]
    fn servers_are_told_apart() {
        let redis = About::parse("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:abc\r\n");
        assert_eq!((redis.flavor.as_str(), redis.version.as_str(), redis.is_cluster), ("redis", "7.0.15", false));
        assert_eq!(redis.run_id.as_deref(), Some("abc"));
        let info = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:cluster\r\n";
        let valkey = About::parse(info);
        assert_eq!((valkey.flavor.as_str(), valkey.version.as_str(), valkey.is_cluster), ("valkey", "9.1.2", true));
    }
}
