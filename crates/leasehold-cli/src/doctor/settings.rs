//! The settings that matter for locks and are not in `INFO`.

use super::Finding;
use crate::raw::Node;
use std::collections::BTreeMap;

/// The requested settings. Some servers lack some of these settings.
const ASKED: [&str; 8] = [
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "timeout",
    "client-output-buffer-limit",
    "busy-reply-threshold",
    "lua-time-limit",
    "min-replicas-max-lag",
    "notify-keyspace-events",
];

/// Minimum `timeout` in seconds. Between renewals, connections are idle for a third of a lease, by default 10 s.
const SHORT_TIMEOUT: u64 = 30;

/// Minimum output buffer. A short pause of a waiting client must not fill its connection's buffer.
const SMALL_BUFFER: u64 = 1 << 20;

/// Minimum script time limit. A leasehold script takes under a millisecond, but more on a busy machine.
const SHORT_THRESHOLD: u64 = 100;

/// Maximum `min-replicas-max-lag`: the seconds for which an isolated primary continues to grant locks.
const MOST_LAG: u64 = 10;

/// Checks the settings of a server.
pub(super) async fn judge(node: &Node, has_log: bool) -> Vec<Finding> {
    let mut known = BTreeMap::new();
    for name in ASKED {
        match node.ask::<Vec<String>>("CONFIG", &["GET", name]).await {
            Ok(pair) => known.extend(pair.into_iter().nth(1).map(|value| (name, value))),
            Err(why) => {
                let text = format!("CONFIG GET failed: {why}");
                return vec![Finding::note(
                    "settings",
                    text,
                    "grant CONFIG GET to this user, or check the configuration file",
                )];
            }
        }
    }
    Settings(known).judge(has_log)
}

/// The settings from the server's replies.
struct Settings(BTreeMap<&'static str, String>);

impl Settings {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    fn judge(&self, has_log: bool) -> Vec<Finding> {
        let mut findings: Vec<Finding> = [
            if has_log { self.sync() } else { None },
            self.timeout(),
            self.buffers(),
            self.threshold(),
            self.lag(),
            self.events(),
        ]
        .into_iter()
        .flatten()
        .collect();
        if findings.is_empty() {
            findings.push(Finding::good("settings", "no setting hinders locks"));
        }
        findings
    }

    fn sync(&self) -> Option<Finding> {
        let advice = "set appendfsync always if a crash of the machine must not lose locks";
        match self.text("appendfsync") {
            "no" => Some(Finding::fault(
                "appendfsync",
                "appendfsync is no: a crash of the machine loses up to half a minute of locks",
                "set appendfsync everysec or always",
            )),
            "everysec" if self.text("no-appendfsync-on-rewrite") == "yes" => Some(Finding::note(
                "appendfsync",
                "no-appendfsync-on-rewrite is yes: a crash of the machine during a rewrite loses the locks since its start",
                "set no-appendfsync-on-rewrite no",
            )),
            "everysec" => Some(Finding::note(
                "appendfsync",
                "appendfsync is everysec: a crash of the machine loses the last second of locks",
                advice,
            )),
            _ => None,
        }
    }

    fn timeout(&self) -> Option<Finding> {
        let seconds = self.number("timeout").filter(|seconds| *seconds > 0)?;
        let text = format!("timeout is {seconds}: the server closes connections that are idle for {seconds} s");
        let advice = "set timeout 0; tcp-keepalive detects dead clients";
        Some(if seconds < SHORT_TIMEOUT {
            Finding::fault("timeout", format!("{text}, such as those of holders between renewals"), advice)
        } else {
            Finding::note("timeout", text, advice)
        })
    }

    fn buffers(&self) -> Option<Finding> {
        let words: Vec<_> = self.text("client-output-buffer-limit").split_whitespace().collect();
        let small = words.chunks_exact(4).find(|class| {
            let limit = |at: usize| class[at].parse().unwrap_or(0_u64);
            let is_small = |limit: u64| (1..SMALL_BUFFER).contains(&limit);
            matches!(class[0], "normal" | "pubsub") && (is_small(limit(1)) || is_small(limit(2)))
        })?;
        let text = format!(
            "client-output-buffer-limit is {}: a burst of replies or release notices closes connections",
            small.join(" ")
        );
        Some(Finding::fault("buffers", text, "set client-output-buffer-limit \"normal 0 0 0 pubsub 32mb 8mb 60\""))
    }

    fn threshold(&self) -> Option<Finding> {
        // Servers with both names use the newer name.
        let name = ["busy-reply-threshold", "lua-time-limit"].into_iter().find(|name| self.number(name).is_some())?;
        let millis = self.number(name).filter(|millis| (1..SHORT_THRESHOLD).contains(millis))?;
        let text = format!("{name} is {millis}: after {millis} ms of a script, other clients get BUSY errors");
        Some(Finding::fault("busy", text, "set the default, 5000"))
    }

    fn lag(&self) -> Option<Finding> {
        let seconds = self.number("min-replicas-max-lag").filter(|seconds| *seconds > MOST_LAG)?;
        let text =
            format!("min-replicas-max-lag is {seconds}: an isolated primary continues to grant locks for {seconds} s");
        Some(Finding::note("max-lag", text, "set min-replicas-max-lag 1"))
    }

    fn events(&self) -> Option<Finding> {
        let flags = self.text("notify-keyspace-events");
        let text = format!("notify-keyspace-events is {flags}: the server publishes each change of a lock twice");
        (!flags.is_empty())
            .then(|| Finding::note("events", text, "set notify-keyspace-events \"\" unless a program needs the events"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    /// The defaults of Redis 7.0, with `appendonly`.
    const DEFAULTS: [(&str, &str); 8] = [
        ("appendfsync", "everysec"),
        ("no-appendfsync-on-rewrite", "no"),
        ("timeout", "0"),
        ("client-output-buffer-limit", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
        ("busy-reply-threshold", "5000"),
        ("lua-time-limit", "5000"),
        ("min-replicas-max-lag", "10"),
        ("notify-keyspace-events", ""),
    ];

    fn judged(changed: &[(&'static str, &str)]) -> Vec<(Verdict, &'static str)> {
        let all = DEFAULTS.iter().chain(changed).map(|(name, value)| (*name, (*value).to_owned()));
        Settings(all.collect()).judge(true).iter().map(|one| (one.verdict, one.check)).collect()
    }

    #[test]
    fn defaults_are_no_fault() {
        assert_eq!(judged(&[]), [(Verdict::Note, "appendfsync")]);
        assert_eq!(judged(&[("appendfsync", "always")]), [(Verdict::Good, "settings")]);
        let defaults = DEFAULTS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let without_log = Settings(defaults).judge(false);
        assert_eq!(without_log[0].verdict, Verdict::Good, "without a log, appendfsync has no effect: {without_log:?}");
    }

    #[test]
    fn settings_that_hinder_locks_are_found() {
        for (changed, verdict, check) in [
            (("appendfsync", "no"), Verdict::Fault, "appendfsync"),
            (("timeout", "1"), Verdict::Fault, "timeout"),
            (("timeout", "300"), Verdict::Note, "timeout"),
            (("client-output-buffer-limit", "normal 0 0 0 slave 0 0 0 pubsub 4096 0 0"), Verdict::Fault, "buffers"),
            (("client-output-buffer-limit", "normal 0 4096 1 slave 0 0 0 pubsub 0 0 0"), Verdict::Fault, "buffers"),
            (("busy-reply-threshold", "5"), Verdict::Fault, "busy"),
            (("min-replicas-max-lag", "60"), Verdict::Note, "max-lag"),
            (("notify-keyspace-events", "KEA"), Verdict::Note, "events"),
        ] {
            let found = judged(&[("appendfsync", "always"), changed]);
            assert_eq!(found, [(verdict, check)], "{changed:?}");
        }
    }
}
