//! Managed services and Redis-compatible servers: their signs and their limits.

use super::{Finding, Verdict};
use crate::raw::Node;
use leasehold::raw::Reply;
use std::collections::BTreeMap;

/// A managed service or a Redis-compatible server.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: &'static str,
    /// Suffixes of its host names.
    hosts: &'static [&'static str],
    /// `INFO` fields, or words in `INFO` values, that identify the service.
    info: &'static [&'static str],
    /// Words in the `HELLO` reply that identify the service.
    hello: &'static [&'static str],
    /// The `INFO` field with the product's version. `redis_version` then only names the emulated version.
    pub(super) version: Option<&'static str>,
    pub(super) writes: Writes,
    /// The limits that matter for locks.
    limit: &'static str,
    advice: &'static str,
}

/// Where an acknowledged write persists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// As the server's settings define, which `doctor` reads.
    Settings,
    /// On replicas, which may lack the latest writes after a failover.
    Replicas,
    /// In a log in several zones, written before the reply.
    Log,
}

const UNKNOWN: Service = Service {
    name: "",
    hosts: &[],
    info: &[],
    hello: &[],
    version: None,
    writes: Writes::Settings,
    limit: "",
    advice: "see docs/servers.md",
};

/// The known services. The first match counts.
const KNOWN: &[Service] = &[
    Service {
        name: "Amazon MemoryDB",
        hosts: &[".memorydb.amazonaws.com"],
        info: &["memorydb"],
        writes: Writes::Log,
        limit: "a failover loses no grant",
        advice: "",
        ..UNKNOWN
    },
    Service {
        name: "Amazon ElastiCache Serverless",
        hosts: &[".serverless.cache.amazonaws.com"],
        writes: Writes::Replicas,
        limit: "no WAIT, so no Acquire::durable; a failover can lose grants",
        advice: "use a URL with rediss-cluster://; see docs/servers.md",
        ..UNKNOWN
    },
    Service {
        name: "Amazon ElastiCache",
        hosts: &[".cache.amazonaws.com"],
        info: &["elasticache"],
        writes: Writes::Replicas,
        limit: "its default policy volatile-lru evicts locks; a failover can lose grants",
        advice: "set maxmemory-policy noeviction; see docs/servers.md",
        ..UNKNOWN
    },
    Service {
        name: "Azure Managed Redis",
        hosts: &[".redis.azure.net", ".redisenterprise.cache.azure.net"],
        writes: Writes::Replicas,
        limit: "its proxies assign their own connection ids, so a lock can stay busy for one lease after a lost reply",
        ..UNKNOWN
    },
    Service {
        name: "Azure Cache for Redis",
        hosts: &[".redis.cache.windows.net"],
        writes: Writes::Replicas,
        limit: "a failover can lose grants",
        ..UNKNOWN
    },
    Service {
        name: "Redis Enterprise",
        hosts: &[".redislabs.com", ".redis-cloud.com", ".rlrcp.com"],
        info: &["rlec_version"],
        hello: &["/enterprise-managed"],
        writes: Writes::Replicas,
        limit: "its proxies assign their own connection ids, so a lock can stay busy for one lease after a lost reply",
        ..UNKNOWN
    },
    Service {
        name: "Google Memorystore",
        hello: &["google"],
        writes: Writes::Replicas,
        limit: "its default policy volatile-lru evicts locks; a failover can lose grants",
        advice: "set maxmemory-policy noeviction; see docs/servers.md",
        ..UNKNOWN
    },
    Service {
        name: "Upstash",
        hosts: &[".upstash.io"],
        info: &["upstash_version"],
        version: Some("upstash_version"),
        writes: Writes::Replicas,
        limit: "replicas merge by the last write, so a partition can give one lock to two holders",
        advice: "protect the data with fencing tokens; see docs/servers.md",
        ..UNKNOWN
    },
    Service {
        name: "OCI Cache",
        hosts: &[".oci.oraclecloud.com"],
        writes: Writes::Replicas,
        limit: "a sharded cluster runs no scripts",
        advice: "use a cluster that is not sharded; see docs/servers.md",
        ..UNKNOWN
    },
    Service {
        name: "Alibaba Cloud Tair",
        hosts: &[".rds.aliyuncs.com", ".kvstore.aliyuncs.com"],
        writes: Writes::Replicas,
        limit: "a cluster instance refuses scripts that keep keys in variables",
        advice: "use a standard instance, or set script_check_enable to 0; see docs/servers.md",
        ..UNKNOWN
    },
    Service {
        name: "Dragonfly",
        hosts: &[".dragonflydb.cloud"],
        info: &["dragonfly_version"],
        version: Some("dragonfly_version"),
        limit: "no WAIT, so no Acquire::durable; it refuses the read-write locks of JVMs",
        ..UNKNOWN
    },
    Service {
        name: "Kvrocks",
        info: &["kvrocks_version"],
        version: Some("kvrocks_version"),
        limit: "not tested with leasehold",
        ..UNKNOWN
    },
    Service {
        name: "Garnet",
        info: &["garnet_version"],
        hello: &["garnet_version"],
        version: Some("garnet_version"),
        limit: "no WAIT, so no Acquire::durable; scripts need the option --lua",
        ..UNKNOWN
    },
    Service {
        name: "KeyDB",
        info: &["keydb"],
        limit: "not tested with leasehold; never use it with active-replica",
        ..UNKNOWN
    },
];

impl Service {
    /// Recognises the service by host name, `INFO` and `HELLO`.
    pub(super) async fn of(node: &Node, info: &BTreeMap<String, String>) -> Option<&'static Self> {
        let hello = node.ask::<Reply>("HELLO", &[]).await.map(|reply| format!("{reply:?}")).unwrap_or_default();
        recognised(node.host(), info, &hello)
    }

    /// Reports the limits that matter for locks.
    pub(super) fn judge(&self) -> Finding {
        let verdict = if self.writes == Writes::Log { Verdict::Good } else { Verdict::Note };
        let text = format!("{}: {}", self.name, self.limit);
        Finding { check: "service", server: None, verdict, text, advice: self.advice }
    }
}

fn recognised(host: &str, info: &BTreeMap<String, String>, hello: &str) -> Option<&'static Service> {
    let (host, hello) = (host.to_lowercase(), hello.to_lowercase());
    // Only these values name the product. Other values contain names from users.
    let values =
        ["os", "executable", "server_name", "redis_build_id"].map(|field| info.get(field).map(|v| v.to_lowercase()));
    let by_host = |ending: &&str| is_of(&host, ending);
    let by_info = |word: &&str| info.contains_key(*word) || values.iter().flatten().any(|value| value.contains(word));
    KNOWN.iter().find(|known| {
        known.hosts.iter().any(by_host)
            || known.info.iter().any(by_info)
            || known.hello.iter().any(|word| hello.contains(word))
    })
}

/// Returns whether a host is below a domain. Amazon and Oracle insert the region before their domain. Amazon in China
/// appends `.cn`.
fn is_of(host: &str, domain: &str) -> bool {
    let host = host.strip_suffix(".cn").unwrap_or(host);
    let is_regional = [".amazonaws.com", ".oraclecloud.com"]
        .iter()
        .find_map(|owner| domain.strip_suffix(owner).map(|service| (service, *owner)));
    match is_regional {
        None => host.ends_with(domain),
        Some((service, owner)) => host.strip_suffix(owner).is_some_and(|rest| {
            service.split('.').filter(|part| !part.is_empty()).all(|part| rest.split('.').any(|label| label == part))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str, info: &[(&str, &str)], hello: &str) -> Option<&'static str> {
        let info = info.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect();
        recognised(host, &info, hello).map(|service| service.name)
    }

    #[test]
    fn services_are_recognised_by_host_fields_and_greeting() {
        for (host, service) in [
            ("clustercfg.stock.abc123.memorydb.eu-central-1.amazonaws.com", "Amazon MemoryDB"),
            ("stock-abc123.serverless.euc1.cache.amazonaws.com", "Amazon ElastiCache Serverless"),
            ("master.stock.abc123.euc1.cache.amazonaws.com", "Amazon ElastiCache"),
            ("stock.abc123.0001.cnn1.cache.amazonaws.com.cn", "Amazon ElastiCache"),
            ("Stock.germanywestcentral.redis.azure.net", "Azure Managed Redis"),
            ("stock.redis.cache.windows.net", "Azure Cache for Redis"),
            ("redis-16781.c273.us-east-1-2.ec2.cloud.redislabs.com", "Redis Enterprise"),
            ("eu1-stock-1.upstash.io", "Upstash"),
            ("r-abc.redis.rds.aliyuncs.com", "Alibaba Cloud Tair"),
            ("abc-p.redis.eu-frankfurt-1.oci.oraclecloud.com", "OCI Cache"),
        ] {
            assert_eq!(name(host, &[], ""), Some(service), "{host}");
        }
        assert_eq!(name("db", &[("os", "Amazon ElastiCache")], ""), Some("Amazon ElastiCache"));
        assert_eq!(name("db", &[("dragonfly_version", "df-v1.40.1")], ""), Some("Dragonfly"));
        assert_eq!(name("db", &[("executable", "/usr/bin/keydb-server")], ""), Some("KeyDB"));
        assert_eq!(name("db", &[], "\"path\", \"/enterprise-managed\""), Some("Redis Enterprise"));
        for plain in ["127.0.0.1", "redis", "cache.amazonaws.com.example.org", "upstash.io.example.org"] {
            assert_eq!(
                name(plain, &[("redis_version", "7.0.15"), ("os", "Linux")], "\"server\", \"redis\""),
                None,
                "{plain}"
            );
        }
    }
}
