//! The profiles.

use super::{Ids, Keys, Outcome, Profile, Refusal, Shape};

/// A server that refuses nothing.
const PLAIN: Profile = Profile {
    name: "",
    source: "",
    shape: Shape::Standalone,
    refused: &[],
    refusal: Refusal::Unknown,
    keys: Keys::Any,
    ids: Ids::OfServer,
    resp2: false,
    info: &[],
    outcome: Outcome::Works,
};

/// The commands that a proxy without connections of its clients to one server refuses.
const REFUSED_BY_A_PROXY: &[&str] =
    &["CLIENT", "CONFIG", "INFO", "HELLO", "PUBSUB", "SCRIPT", "SUBSCRIBE", "SSUBSCRIBE", "SELECT", "WAIT", "CLUSTER"];

pub(super) const ALL: &[Profile] = &[
    Profile {
        name: "elasticache",
        source: "docs.aws.amazon.com/AmazonElastiCache/latest/dg/ClientConfig.RestrictedCommands.html",
        refused: &["CONFIG", "DEBUG", "BGSAVE", "BGREWRITEAOF", "REPLICAOF", "SLAVEOF", "WAITAOF"],
        info: &[("os", "Amazon ElastiCache"), ("aof_enabled", "0"), ("executable", "")],
        ..PLAIN
    },
    Profile {
        name: "elasticache-serverless",
        source: "docs.aws.amazon.com/AmazonElastiCache/latest/dg/SupportedCommands.html, BestPractices.Clients.Redis.LuaScripts.html; \
                 the tracker of Redisson",
        shape: Shape::OneNode,
        refused: &["WAIT", "WAITAOF", "CONFIG", "CLIENT KILL", "DEBUG", "SLOWLOG", "PUBSUB NUMPAT", "CLUSTER NODES"],
        keys: Keys::OneDeclared,
        ids: Ids::OfProxy,
        info: &[("run_id", ""), ("aof_enabled", ""), ("executable", "")],
        ..PLAIN
    },
    Profile {
        name: "memorydb",
        source: "docs.aws.amazon.com/memorydb/latest/devguide: restrictedcommands.html, consistency.html",
        shape: Shape::OneNode,
        refused: &["CONFIG", "ACL SETUSER", "ACL DELUSER", "DEBUG", "BGSAVE", "BGREWRITEAOF", "WAITAOF"],
        info: &[("os", "Amazon MemoryDB"), ("aof_enabled", "0"), ("executable", "")],
        ..PLAIN
    },
    Profile {
        name: "memorystore-valkey",
        source: "docs.cloud.google.com/memorystore/docs/valkey/supported-commands",
        shape: Shape::OneNode,
        refused: &["CONFIG", "CLIENT SETINFO", "WAIT", "WAITAOF", "DEBUG", "ACL"],
        refusal: Refusal::NoPermission,
        ..PLAIN
    },
    Profile {
        name: "redis-enterprise",
        source: "redis.io/docs/latest/operate/rs/references/compatibility/commands",
        shape: Shape::Splitting,
        refused: &["CLIENT NO-EVICT", "CLUSTER", "WAITAOF", "PUBSUB SHARDNUMSUB"],
        ids: Ids::OfProxy,
        info: &[("executable", "")],
        ..PLAIN
    },
    Profile {
        name: "tair-proxy",
        source: "help.aliyun.com/en/redis/developer-reference/limits-on-commands-supported-by-cluster-and-read-write-splitting-instances; \
                 the tracker of Redisson",
        shape: Shape::Splitting,
        refused: &["CLIENT ID", "CLIENT INFO", "CLIENT KILL ID", "CLIENT SETINFO", "WAIT", "WAITAOF", "CONFIG"],
        ..PLAIN
    },
    Profile {
        name: "tencent-proxy",
        source: "www.tencentcloud.com/document/product/239/50381 and 77219",
        shape: Shape::Splitting,
        refused: &[
            "CLIENT ID",
            "CLIENT INFO",
            "CLIENT KILL",
            "CLIENT SETINFO",
            "WAIT",
            "WAITAOF",
            "CONFIG SET",
            "SLOWLOG",
        ],
        resp2: true,
        ..PLAIN
    },
    Profile {
        name: "dragonfly",
        source: "www.dragonflydb.io/docs/command-reference/compatibility, managing-dragonfly/scripting",
        refused: &["WAIT", "WAITAOF", "CLIENT INFO", "CLIENT NO-EVICT", "FCALL"],
        keys: Keys::Declared,
        info: &[("dragonfly_version", "df-v1.30.0"), ("executable", ""), ("run_id", "")],
        ..PLAIN
    },
    Profile {
        name: "upstash",
        source: "upstash.com/docs/redis/commands/overview",
        refused: &[
            "CLIENT KILL",
            "CLIENT NO-EVICT",
            "SSUBSCRIBE",
            "SPUBLISH",
            "PUBSUB SHARDNUMSUB",
            "SLOWLOG",
            "CLUSTER",
        ],
        info: &[("run_id", ""), ("executable", ""), ("maxmemory_policy", "")],
        ..PLAIN
    },
    Profile {
        name: "garnet",
        source: "microsoft.github.io/garnet/docs/commands/api-compatibility",
        refused: &["WAIT", "WAITAOF", "FCALL", "PUBSUB SHARDNUMSUB", "CLIENT NO-EVICT"],
        info: &[("garnet_version", "2.2.8"), ("executable", "")],
        ..PLAIN
    },
    Profile {
        name: "kvrocks",
        source: "kvrocks.apache.org/docs/supported-commands, and its tracker",
        refused: &["WAITAOF", "CLIENT SETINFO", "SPUBLISH"],
        info: &[("redis_version", "4.0.0"), ("kvrocks_version", "2.16.0"), ("maxmemory_policy", "")],
        ..PLAIN
    },
    Profile {
        name: "oci-cache-sharded",
        source: "docs.oracle.com/iaas/Content/ocicache/restrictedcommands.htm",
        shape: Shape::OneNode,
        refused: &["EVAL", "EVALSHA", "SCRIPT", "FUNCTION", "FCALL", "ACL", "CONFIG SET"],
        outcome: Outcome::Fails("locks need EVALSHA and EVAL"),
        ..PLAIN
    },
    Profile {
        name: "envoy",
        source: "github.com/envoyproxy/envoy: source/extensions/filters/network/common/redis/supported_commands.h",
        shape: Shape::Splitting,
        refused: REFUSED_BY_A_PROXY,
        outcome: Outcome::Polls,
        ..PLAIN
    },
    Profile {
        name: "twemproxy",
        source: "github.com/twitter/twemproxy: notes/redis.md",
        shape: Shape::Splitting,
        refused: REFUSED_BY_A_PROXY,
        refusal: Refusal::HangsUp,
        outcome: Outcome::Fails("twemproxy"),
        ..PLAIN
    },
];
