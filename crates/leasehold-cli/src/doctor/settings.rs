//! The settings of the server that `INFO` does not tell, and their meaning for locks.

use super::Finding;
use crate::raw::Node;
use std::collections::BTreeMap;

/// The settings that are asked for. A server need not know all of them.
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

/// Connections of clients rest for up to a third of a lease, which is 30 s by default, between two renewals.
const SHORT_TIMEOUT: u64 = 30;

/// Waiters get messages of some bytes each, and a moment in which they do not read must not end their connections.
const SMALL_BUFFER: u64 = 1 << 20;

/// A script of leasehold takes less than a millisecond, and a busy machine may stop it for some time more.
const SHORT_THRESHOLD: u64 = 100;

/// A primary that is cut off from its replicas goes on to grant locks for so many seconds.
const MOST_LAG: u64 = 10;

/// Judges the settings of a server.
pub(super) async fn judge(node: &Node, has_log: bool) -> Vec<Finding> {
    let mut known = BTreeMap::new();
    for name in ASKED {
        match node.ask::<Vec<String>>("CONFIG", &["GET", name]).await {
            Ok(pair) => known.extend(pair.into_iter().nth(1).map(|value| (name, value))),
            Err(why) => {
                let text = format!("CONFIG GET was not answered: {why}");
                return vec![Finding::note(
                    "settings",
                    text,
                    "allow CONFIG GET to this user, or look at the server's file",
                )];
            }
        }
    }
    Settings(known).judge(has_log)
}

/// The settings that the server knows.
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
            findings.push(Finding::good("settings", "none of them hinders locks"));
        }
        findings
    }

    fn sync(&self) -> Option<Finding> {
        let advice = "set appendfsync always if a crash of the machine must not free locks that are held";
        match self.text("appendfsync") {
            "no" => Some(Finding::fault(
                "appendfsync",
                "appendfsync is no: a machine that crashes has forgotten the locks of the last half minute or so",
                "set appendfsync everysec, or always",
            )),
            "everysec" if self.text("no-appendfsync-on-rewrite") == "yes" => Some(Finding::note(
                "appendfsync",
                "no-appendfsync-on-rewrite is yes: a machine that crashes during a rewrite has forgotten the locks since its begin",
                "set no-appendfsync-on-rewrite no",
            )),
            "everysec" => Some(Finding::note(
                "appendfsync",
                "appendfsync is everysec: a machine that crashes has forgotten the locks of the last second",
                advice,
            )),
            _ => None,
        }
    }

    fn timeout(&self) -> Option<Finding> {
        let seconds = self.number("timeout").filter(|seconds| *seconds > 0)?;
        let text = format!("timeout is {seconds}: connections that rest for {seconds} s are closed");
        let advice = "set timeout 0; tcp-keepalive finds clients that are gone";
        Some(if seconds < SHORT_TIMEOUT {
            Finding::fault("timeout", format!("{text}, as those of holders do between two renewals"), advice)
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
            "client-output-buffer-limit is {}: a burst of replies or release notices ends connections",
            small.join(" ")
        );
        Some(Finding::fault("buffers", text, "set client-output-buffer-limit \"normal 0 0 0 pubsub 32mb 8mb 60\""))
    }

    fn threshold(&self) -> Option<Finding> {
        // The newer name stands for the older one on servers that have both.
        let name = ["busy-reply-threshold", "lua-time-limit"].into_iter().find(|name| self.number(name).is_some())?;
        let millis = self.number(name).filter(|millis| (1..SHORT_THRESHOLD).contains(millis))?;
        let text =
            format!("{name} is {millis}: a script that takes {millis} ms has all other clients refused with BUSY");
        Some(Finding::fault("busy", text, "set it to 5000, which is the default"))
    }

    fn lag(&self) -> Option<Finding> {
        let seconds = self.number("min-replicas-max-lag").filter(|seconds| *seconds > MOST_LAG)?;
        let text = format!(
            "min-replicas-max-lag is {seconds}: a primary that is cut off goes on to grant locks for {seconds} s"
        );
        Some(Finding::note("max-lag", text, "set min-replicas-max-lag 1"))
    }

    fn events(&self) -> Option<Finding> {
        let flags = self.text("notify-keyspace-events");
        let text = format!("notify-keyspace-events is {flags}: each change of a lock is published once more");
        (!flags.is_empty()).then(|| Finding::note("events", text, "set it to \"\" unless a program listens"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    /// The defaults of Redis 7.0 with a log.
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
        assert_eq!(without_log[0].verdict, Verdict::Good, "there is nothing to sync: {without_log:?}");
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
