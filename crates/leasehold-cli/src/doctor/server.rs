//! The fields of `INFO` that matter for locks.

use super::service::{Service, Writes};
use super::{Finding, cluster, pace, settings};
use crate::duration::show;
use crate::raw::Node;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum used share of a limit.
const NEARLY_FULL: f64 = 0.9;

/// Maximum memory of cached scripts. More memory means that some program generates scripts.
const MANY_SCRIPTS: u64 = 64 << 20;

/// Maximum lag of a replica in seconds. A failover to a replica that lags more loses locks.
const MOST_LAG: u64 = 10;

/// Maximum duration of a fork, which blocks the server.
const LONG_FORK: Duration = Duration::from_millis(100);

/// The default command timeout, after which clients treat their connections as dead.
const FORK_TOO_LONG: Duration = Duration::from_secs(1);

/// Checks a server by its `INFO`.
pub(super) async fn judge(node: &Node) -> Vec<Finding> {
    let fields = match node.info().await {
        Ok(fields) => {
            let service = Service::of(node, &fields).await;
            Info { fields, service }
        }
        Err(why) => {
            return vec![Finding::note("server", format!("INFO failed: {why}"), "grant INFO to this user")];
        }
    };
    let mut findings = fields.judge();
    findings.extend(settings::judge(node, fields.number("aof_enabled") == Some(1)).await);
    findings.push(pace::judge(node).await);
    if fields.number("cluster_enabled") == Some(1) {
        findings.push(cluster::judge(node).await);
    }
    findings
}

/// The facts about a server.
struct Info {
    /// The fields of `INFO`.
    fields: BTreeMap<String, String>,
    /// The managed service or the Redis-compatible server, if recognised.
    service: Option<&'static Service>,
}

impl Info {
    fn text(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.text(field).parse().ok()
    }

    fn judge(&self) -> Vec<Finding> {
        let mut findings: Vec<_> = self.service.map(Service::judge).into_iter().collect();
        findings.extend([self.version(), self.eviction(), self.memory(), self.persistence()]);
        findings.extend(self.replicas());
        findings.extend([self.clients(), self.scripts(), self.keys()]);
        findings.extend(self.forks());
        findings
    }

    fn writes(&self) -> Writes {
        self.service.map_or(Writes::Settings, |service| service.writes)
    }

    fn version(&self) -> Finding {
        if let Some((service, version)) = self.service.and_then(|service| Some((service, service.version?))) {
            return Finding::good("version", format!("{} {}", service.name, self.text(version)));
        }
        let valkey = self.text("valkey_version");
        let (name, version) =
            if valkey.is_empty() { ("Redis", self.text("redis_version")) } else { ("Valkey", valkey) };
        let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
        let known = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        // A restart is the usual cause of lost locks.
        let up = show(Duration::from_secs(self.number("uptime_in_seconds").unwrap_or_default()));
        let text = format!("{name} {version}, up for {up}");
        if known >= (6, 2) {
            return Finding::good("version", text);
        }
        Finding::fault("version", text, "upgrade to Redis 6.2 or later, or to Valkey")
    }

    fn eviction(&self) -> Finding {
        let policy = self.text("maxmemory_policy");
        match (policy, self.number("maxmemory")) {
            ("noeviction", _) => Finding::good("eviction", "maxmemory-policy is noeviction"),
            ("", _) => Finding::note("eviction", "INFO does not contain maxmemory-policy", "it must be noeviction"),
            (_, Some(0)) => Finding::note(
                "eviction",
                format!("maxmemory-policy is {policy}, without effect while maxmemory is 0"),
                "set maxmemory-policy noeviction before you set maxmemory",
            ),
            _ => Finding::fault(
                "eviction",
                format!("maxmemory-policy is {policy}, which can evict a held lock"),
                "set maxmemory-policy noeviction, or use a dedicated server for locks",
            ),
        }
    }

    fn memory(&self) -> Finding {
        let used = self.number("used_memory").unwrap_or_default();
        let megabytes = used >> 20;
        match self.number("maxmemory") {
            Some(most @ 1..) if share(used, most) > NEARLY_FULL => Finding::fault(
                "memory",
                format!("{megabytes} MB of {} MB used", most >> 20),
                "a full server refuses every acquire; free memory or raise maxmemory",
            ),
            Some(most @ 1..) => Finding::good("memory", format!("{megabytes} MB of {} MB used", most >> 20)),
            _ => Finding::good("memory", format!("{megabytes} MB used, without a limit")),
        }
    }

    fn persistence(&self) -> Finding {
        let failed = |field: &str| !matches!(self.text(field), "ok" | "");
        if failed("aof_last_write_status") || failed("rdb_last_bgsave_status") {
            return Finding::fault(
                "persistence",
                "the last write to the disk failed",
                "the server may refuse all writes; see its log",
            );
        }
        if self.number("aof_enabled") == Some(1) {
            return Finding::good("persistence", "appendonly is on");
        }
        match self.writes() {
            Writes::Log => Finding::good("persistence", "the service logs every write before it replies"),
            // Without a replica, the service has no failover.
            Writes::Replicas if self.number("connected_slaves") != Some(0) => Finding::note(
                "persistence",
                "appendonly is off: a failover of the service loses the grants that its replica lacks",
                "protect the data with fencing tokens; see docs/servers.md",
            ),
            _ => Finding::fault(
                "persistence",
                "appendonly is off: a restart of the server loses held locks",
                "set appendonly yes",
            ),
        }
    }

    fn replicas(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !matches!(self.text("role"), "master" | "") {
            let text = format!("this server is a {}", self.text("role"));
            findings.push(Finding::fault("role", text, "connect to the primary"));
        }
        let Some(replicas) = self.number("connected_slaves") else { return findings };
        if replicas == 0 {
            findings.push(Finding::note("replicas", "no replicas: an outage of this server blocks all locks", ""));
            return findings;
        }
        let behind = (0..replicas).filter(|at| {
            let replica = self.text(&format!("slave{at}"));
            let field = |name| replica.split(',').find_map(|part| part.strip_prefix(name)).unwrap_or_default();
            field("state=") != "online" || field("lag=").parse().is_ok_and(|lag: u64| lag > MOST_LAG)
        });
        let behind = behind.count();
        findings.push(if behind > 0 {
            let text = format!("{behind} of {replicas} lag or are offline");
            Finding::fault("replicas", text, "a failover to such a replica loses locks; see INFO replication")
        } else {
            Finding::good("replicas", format!("{replicas}, all in sync"))
        });
        // Only servers with `min-replicas-to-write` report this field.
        findings.push(match self.number("min_slaves_good_slaves") {
            Some(0) => Finding::fault(
                "min-replicas",
                "no replica counts as good, so the server refuses all writes",
                "see min-replicas-to-write and min-replicas-max-lag",
            ),
            Some(good) => Finding::good(
                "min-replicas",
                format!("min-replicas-to-write is set, and {good} replicas count as good"),
            ),
            None if self.writes() != Writes::Settings => return findings,
            None => Finding::fault(
                "min-replicas",
                "min-replicas-to-write is 0: an isolated primary continues to grant locks",
                "set min-replicas-to-write 1 and min-replicas-max-lag 1",
            ),
        });
        findings
    }

    fn clients(&self) -> Finding {
        let (now, most) =
            (self.number("connected_clients").unwrap_or_default(), self.number("maxclients").unwrap_or(0));
        let text = format!("{now} of {most} connections used");
        if most > 0 && share(now, most) > NEARLY_FULL {
            return Finding::fault(
                "connections",
                text,
                "raise maxclients; a client uses one or two connections, and up to five more for durable locks",
            );
        }
        if let Some(rejected @ 1..) = self.number("rejected_connections") {
            let text = format!("{text}; {rejected} connections above the limit rejected since the start");
            return Finding::note(
                "connections",
                text,
                "raise maxclients; a client uses one or two connections, and up to five more for durable locks",
            );
        }
        Finding::good("connections", text)
    }

    fn scripts(&self) -> Finding {
        let bytes =
            self.number("used_memory_scripts_eval").or_else(|| self.number("used_memory_lua")).unwrap_or_default();
        let text = format!("{} kB for {} scripts", bytes >> 10, self.text("number_of_cached_scripts"));
        if bytes > MANY_SCRIPTS {
            let advice = "some program sends a new script with each EVAL; fix that program, and run SCRIPT FLUSH";
            return Finding::fault("scripts", text, advice);
        }
        Finding::good("scripts", text)
    }

    /// Reports a long pause of the last fork.
    fn forks(&self) -> Option<Finding> {
        let took = Duration::from_micros(self.number("latest_fork_usec").unwrap_or_default());
        let text = format!("the last fork, for a snapshot or rewrite, blocked the server for {took:.0?}");
        let advice = "disable transparent huge pages, or use a smaller dedicated server for locks";
        if took >= FORK_TOO_LONG {
            return Some(Finding::fault("forks", text, advice));
        }
        (took >= LONG_FORK).then(|| Finding::note("forks", text, advice))
    }

    fn keys(&self) -> Finding {
        let keys = |(field, value): (&String, &String)| {
            field.strip_prefix("db")?.parse::<u32>().ok()?;
            value.strip_prefix("keys=")?.split(',').next()?.parse::<u64>().ok()
        };
        Finding::good("keys", self.fields.iter().filter_map(keys).sum::<u64>().to_string())
    }
}

/// Returns the used share of a limit.
#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
fn share(used: u64, most: u64) -> f64 {
    used as f64 / most as f64
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    /// A healthy primary with one replica.
    const HEALTHY: [(&str, &str); 12] = [
        ("redis_version", "7.0.15"),
        ("maxmemory_policy", "noeviction"),
        ("maxmemory", "1000000000"),
        ("used_memory", "5000000"),
        ("aof_enabled", "1"),
        ("aof_last_write_status", "ok"),
        ("rdb_last_bgsave_status", "ok"),
        ("role", "master"),
        ("connected_slaves", "1"),
        ("slave0", "ip=10.0.0.2,port=6379,state=online,offset=1,lag=0"),
        ("min_slaves_good_slaves", "1"),
        ("maxclients", "10000"),
    ];

    fn faults(changed: &[(&str, &str)]) -> Vec<&'static str> {
        let all = HEALTHY.iter().chain(changed).map(|(field, value)| ((*field).to_owned(), (*value).to_owned()));
        let findings = Info { fields: all.collect(), service: None }.judge();
        findings.iter().filter(|one| one.verdict == Verdict::Fault).map(|one| one.check).collect()
    }

    #[test]
    fn healthy_server_has_no_fault() {
        assert_eq!(faults(&[]), [""; 0]);
        assert_eq!(faults(&[("valkey_version", "8.0.1"), ("redis_version", "5.0")]), [""; 0]);
        assert_eq!(faults(&[("connected_slaves", "0")]), [""; 0], "a server alone is a choice");
        assert_eq!(faults(&[("maxmemory_policy", "allkeys-lru"), ("maxmemory", "0")]), [""; 0]);
        assert_eq!(faults(&[("latest_fork_usec", "300000"), ("rejected_connections", "7")]), [""; 0], "notes");
    }

    #[test]
    fn every_planted_fault_is_found() {
        for (changed, check) in [
            (("redis_version", "5.0.14"), "version"),
            (("maxmemory_policy", "volatile-lru"), "eviction"),
            (("used_memory", "990000000"), "memory"),
            (("aof_enabled", "0"), "persistence"),
            (("aof_last_write_status", "err"), "persistence"),
            (("rdb_last_bgsave_status", "err"), "persistence"),
            (("role", "slave"), "role"),
            (("slave0", "ip=10.0.0.2,port=6379,state=wait_bgsave,offset=1,lag=0"), "replicas"),
            (("slave0", "ip=10.0.0.2,port=6379,state=online,offset=1,lag=60"), "replicas"),
            (("min_slaves_good_slaves", ""), "min-replicas"),
            (("min_slaves_good_slaves", "0"), "min-replicas"),
            (("connected_clients", "9999"), "connections"),
            (("used_memory_scripts_eval", "900000000"), "scripts"),
            (("latest_fork_usec", "1200000"), "forks"),
        ] {
            assert_eq!(faults(&[changed]), [check], "{changed:?}");
        }
    }
}
