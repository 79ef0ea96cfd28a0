//! Trials: the rights of the user, release notices, latency, and the clock of the server.

use super::Finding;
use crate::failure::of_resources;
use crate::raw::Node;
use leasehold::{AnyLock, Client, Error};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::{sleep, timeout};

/// The name of the plain kind, which needs the fewest rights.
const PLAIN: &str = "lock";

/// Longer than a release notice takes, and shorter than a waiter's polling interval.
const NOTICE: Duration = Duration::from_secs(2);

/// Maximum number of measured pairs of acquire and release.
const PAIRS: usize = 50;

/// Maximum duration of the measurement.
const MEASURED: Duration = Duration::from_secs(2);

/// Maximum duration of a pair. Slower pairs leave too little time for renewals.
const SLOW: Duration = Duration::from_millis(250);

/// Duration of the comparison of the clocks.
const COMPARED: Duration = Duration::from_millis(1_000);

/// Maximum drift of the clocks during the comparison.
const MOST_DRIFT: Duration = Duration::from_millis(10);

/// Acquires a lock of each kind. The plain lock comes first and needs the fewest rights. A user may lack other rights
/// intentionally.
pub(super) async fn of_kinds(client: &Client, name: &str) -> Vec<Finding> {
    let locks: [(&str, AnyLock); 8] = [
        (PLAIN, client.lock(name).into()),
        ("fair", client.fair_lock(name).into()),
        ("fenced", client.fenced_lock(name).into()),
        ("fenced fair", client.fair_lock(name).fenced().into()),
        ("spin", client.spin_lock(name).into()),
        ("simple", client.simple_lock(name, Duration::from_secs(30)).into()),
        ("read", client.read_write_lock(name).read().into()),
        ("write", client.read_write_lock(name).write().into()),
    ];
    let mut refused: Vec<(&str, Error)> = Vec::new();
    for (kind, lock) in locks {
        if let Err(error) = pair(&lock).await {
            if kind == PLAIN {
                let advice = advice(&error, "docs/security.md lists the rights");
                return vec![Finding::fault("rights", format!("cannot acquire a lock: {error}"), advice)];
            }
            refused.push((kind, error));
        }
    }
    if let Err(error) = permits(client, name).await {
        refused.push(("semaphore", error));
    }
    if let Err(error) = client.count_down_latch(name).count().await {
        refused.push(("latch", error));
    }
    if refused.is_empty() {
        return vec![Finding::good("rights", "every kind of lock was acquired and released")];
    }
    let finding = |(kind, error): (&str, Error)| {
        let text = format!("cannot use the kind {kind}: {error}");
        Finding::note("rights", text, advice(&error, "grant the missing rights if a program uses this kind"))
    };
    refused.into_iter().map(finding).collect()
}

async fn pair(lock: &AnyLock) -> Result<(), Error> {
    lock.acquire().wait(NOTICE).await?.release().await
}

async fn permits(client: &Client, name: &str) -> Result<(), Error> {
    let semaphore = client.semaphore(name);
    semaphore.try_set_permits(1).await?;
    semaphore.acquire().wait(NOTICE).await?.release().await
}

/// Checks whether a release wakes a waiting client.
pub(super) async fn of_notices(client: &Client, waiter: &Client, name: &str) -> Finding {
    // The permits trial uses the bare name.
    let name = format!("{name}:notices");
    let waited = async {
        let guard = client.lock(&name).acquire().wait(NOTICE).await?;
        let lock = waiter.lock(&name);
        let waiting = lock.acquire().wait(NOTICE);
        let release = async {
            // If the SUBSCRIBE fails, the wait returns the error.
            let listens = async {
                while waiter.stats().subscriptions == 0 {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            let _ = timeout(NOTICE, listens).await;
            sleep(Duration::from_millis(50)).await;
            let begun = Instant::now();
            guard.release().await.map(|()| begun)
        };
        let (got, begun) = tokio::join!(waiting, release);
        let took = begun?.elapsed();
        got?.release().await?;
        Ok::<_, Error>(took)
    };
    let advice = "grant SUBSCRIBE and PUBLISH on the lock's channel; see docs/security.md";
    match waited.await {
        Ok(took) if took < NOTICE / 2 => Finding::good("notices", format!("a release woke a waiter after {took:.1?}")),
        Ok(took) => {
            let text = format!("a release did not wake a waiter, which polled after {took:.1?}");
            Finding::fault("notices", text, advice)
        }
        Err(error) => {
            let advice = self::advice(&error, advice);
            Finding::fault("notices", format!("a release did not wake a waiter: {error}"), advice)
        }
    }
}

/// The advice for an error.
fn advice(error: &Error, rights: &'static str) -> &'static str {
    let text = error.to_string();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["NOPERM", "unknown command", "unknown subcommand", "disabled"]) { rights } else { of_resources(&text) }
}

/// Sends a command with keys of two hash slots. If a server without cluster URL refuses the command, a proxy hides a
/// cluster.
pub(super) async fn of_slots(node: &Node, name: &str) -> Option<Finding> {
    let keys = [format!("{name}:1"), format!("{name}:2")];
    let refusal = node.ask::<i64>("EVAL", &["return #KEYS", "2", &keys[0], &keys[1]]).await.err()?;
    let text = "one command cannot use several hash slots, probably because of a proxy in front of a cluster: the client sends no batches, \
                and renews the locks of each slot separately";
    let advice = "use a URL with redis-cluster:// if the nodes are reachable; see docs/operations.md";
    refusal.contains("same slot").then(|| Finding::note("slots", text, advice))
}

/// Sets a key with an expiry, and returns its remaining time in milliseconds. Uses only commands that the plain lock
/// needs.
const EXPIRES: &str = "redis.call('HSET', KEYS[1], 'doctor', '1') redis.call('PEXPIRE', KEYS[1], ARGV[1])
local left = redis.call('PTTL', KEYS[1]) redis.call('DEL', KEYS[1]) return left";

/// A time to live that is not a whole number of seconds.
const LIFE: i64 = 1_500;

/// Checks whether the server stores times to live in milliseconds. Some servers round to seconds.
pub(super) async fn of_expiry(nodes: &[Node], key: &str) -> Finding {
    let mut refusal = String::new();
    for node in nodes {
        match node.ask::<i64>("EVAL", &[EXPIRES, "1", key, &LIFE.to_string()]).await {
            Ok(left) => return of_life(left),
            // Another cluster node owns the key.
            Err(why) if why.starts_with("MOVED ") => {}
            Err(why) => refusal = why,
        }
    }
    Finding::note("expiry", format!("cannot test times to live: {refusal}"), "")
}

fn of_life(left: i64) -> Finding {
    // The scheduler may suspend the server between the commands, but not for half a second.
    if (LIFE - 500 + 1..=LIFE).contains(&left) {
        return Finding::good("expiry", format!("a time to live of {LIFE} ms is {left} ms after it was set"));
    }
    let text = format!(
        "a time to live of {LIFE} ms is {left} ms after it was set: the server rounds it, so leases end early or late"
    );
    Finding::fault("expiry", text, "use a server with times to live in milliseconds; see docs/servers.md")
}

/// Measures an acquire and a release.
pub(super) async fn of_latency(client: &Client, name: &str) -> Finding {
    let lock = client.lock(format!("{name}:latency")).into();
    let (all, mut times) = (Instant::now(), Vec::with_capacity(PAIRS));
    while times.len() < PAIRS && (times.is_empty() || all.elapsed() < MEASURED) {
        let begun = Instant::now();
        if let Err(error) = pair(&lock).await {
            return Finding::fault("latency", format!("cannot acquire a lock: {error}"), advice(&error, ""));
        }
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let (pairs, middle) = (times.len(), times[times.len() / 2]);
    let text = format!("acquire and release: median {middle:.1?}, slowest of {pairs} {:.1?}", times[pairs - 1]);
    if middle > SLOW {
        return Finding::fault("latency", text, "use a closer or less busy server; see SLOWLOG");
    }
    Finding::good("latency", text)
}

/// Compares rate and time of each server's clock with this machine's clock.
pub(super) async fn of_clocks(nodes: &[Node]) -> Vec<Finding> {
    let mut first = Vec::new();
    for node in nodes {
        first.push(reading(node).await);
    }
    sleep(COMPARED).await;
    let mut findings = Vec::new();
    for (node, first) in nodes.iter().zip(first) {
        let second = reading(node).await;
        findings.push(match first.and_then(|first| Ok((first, second?))) {
            Ok((first, second)) => of_clock(&first, &second),
            Err(why) => Finding::note("clock", format!("TIME failed: {why}"), "grant TIME to this user"),
        });
    }
    findings
}

fn of_clock(first: &Reading, second: &Reading) -> Finding {
    let (here, there) = (second.at - first.at, second.server.saturating_sub(first.server));
    let drift = here.abs_diff(there);
    if drift > MOST_DRIFT + first.round_trip + second.round_trip {
        let text =
            format!("the server's clock advanced {there:.1?} in {here:.1?}: it jumped, or runs at the wrong rate");
        return Finding::fault("clock", text, "use a time service that slews the clock; leases expire by this clock");
    }
    let apart = second.here.abs_diff(second.server);
    if apart > Duration::from_secs(5) {
        let text = format!("the clocks of the server and of this machine differ by {apart:.1?}");
        return Finding::note(
            "clock",
            text,
            "harmless for locks, but correcting the clock in one step would shorten or extend leases",
        );
    }
    Finding::good("clock", format!("normal rate, {apart:.1?} from the clock of this machine"))
}

/// A reading of both clocks.
struct Reading {
    at: Instant,
    here: Duration,
    server: Duration,
    round_trip: Duration,
}

async fn reading(node: &Node) -> Result<Reading, String> {
    let begun = Instant::now();
    let words: Vec<String> = node.ask("TIME", &[]).await?;
    let round_trip = begun.elapsed();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).ok_or("invalid reply to TIME");
    let server = Duration::from_secs(number(0)?) + Duration::from_micros(number(1)?);
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Reading { at: begun + round_trip / 2, here: here.saturating_sub(round_trip / 2), server, round_trip })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn time_to_live_that_is_rounded_to_seconds_is_a_fault() {
        for (left, verdict) in [
            (1_500, Verdict::Good),
            (1_499, Verdict::Good),
            (1_001, Verdict::Good),
            (1_000, Verdict::Fault),
            (2_000, Verdict::Fault),
            (-1, Verdict::Fault),
            (-2, Verdict::Fault),
        ] {
            assert_eq!(of_life(left).verdict, verdict, "{left}");
        }
    }
}
