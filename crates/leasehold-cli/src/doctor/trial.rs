//! Things that show only when they are tried: the rights of the user, the way of release notices, the server's speed, and its clock.

use super::Finding;
use crate::raw::Node;
use leasehold::{AnyLock, Client, Error};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::{sleep, timeout};

/// The kind that needs the fewest rights.
const PLAIN: &str = "lock";

/// A wait that is longer than any release notice takes, and shorter than the time after which a waiter asks by itself.
const NOTICE: Duration = Duration::from_secs(2);

/// How many pairs of acquire and release are measured.
const PAIRS: usize = 50;

/// A slow server is measured for no longer than this.
const MEASURED: Duration = Duration::from_secs(2);

/// An acquire and a release that take longer than this leave a renewal too little time.
const SLOW: Duration = Duration::from_millis(250);

/// How long the server's clock is compared with this machine's.
const COMPARED: Duration = Duration::from_millis(1_000);

/// Clocks whose rates differ by more than this are outside of what locks rest on.
const MOST_DRIFT: Duration = Duration::from_millis(10);

/// Takes a lock of each kind. Without the plain lock the others are not tried. A user needs the rights for the kinds that it uses; the plain lock needs the fewest.
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
                let advice = advice(&error, "docs/security.md has the rights that locks need");
                return vec![Finding::fault("rights", format!("no lock is to be had: {error}"), advice)];
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
        let text = format!("a lock of the kind {kind} was not to be had: {error}");
        Finding::note("rights", text, advice(&error, "allow it if this kind is used"))
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

/// Lets a second client wait, and sees whether the release wakes it.
pub(super) async fn of_notices(client: &Client, waiter: &Client, name: &str) -> Finding {
    // The trial of permits has left its counter under the name itself.
    let name = format!("{name}:notices");
    let waited = async {
        let guard = client.lock(&name).acquire().wait(NOTICE).await?;
        let lock = waiter.lock(&name);
        let waiting = lock.acquire().wait(NOTICE);
        let release = async {
            // The waiter listens, or does not get so far: then the wait says so.
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
    let advice = "allow SUBSCRIBE and PUBLISH to the lock's channel; see docs/security.md";
    match waited.await {
        Ok(took) if took < NOTICE / 2 => Finding::good("notices", format!("a waiter was woken after {took:.1?}")),
        Ok(took) => {
            let text = format!("a waiter was not woken by the release, and asked by itself after {took:.1?}");
            Finding::fault("notices", text, advice)
        }
        Err(error) => {
            let advice = self::advice(&error, advice);
            Finding::fault("notices", format!("a waiter was not woken: {error}"), advice)
        }
    }
}

/// Advice after a refused command: more rights, if the error message is about rights.
fn advice(error: &Error, rights: &'static str) -> &'static str {
    let text = error.to_string();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["NOPERM", "unknown command", "unknown subcommand", "disabled"]) {
        rights
    } else if says(&["OOM "]) {
        "the server is full: free memory, or raise maxmemory"
    } else if says(&["MISCONF"]) {
        "the server cannot save its data: see its log, and its disk"
    } else {
        ""
    }
}

/// Tries a command with keys of two hash slots. If the URL names no cluster and the server refuses the command, it is a
/// proxy in front of a cluster.
pub(super) async fn of_slots(node: &Node, name: &str) -> Option<Finding> {
    let keys = [format!("{name}:1"), format!("{name}:2")];
    let refusal = node.ask::<i64>("EVAL", &["return #KEYS", "2", &keys[0], &keys[1]]).await.err()?;
    let text = "keys of several hash slots are refused in one command, as by a proxy before a cluster: the client sends no batches, and \
                renews the locks of each slot by themselves";
    let advice = "use a URL with redis-cluster:// if the nodes are reachable; see docs/operations.md";
    refusal.contains("same slot").then(|| Finding::note("slots", text, advice))
}

/// Measures an acquire and a release.
pub(super) async fn of_latency(client: &Client, name: &str) -> Finding {
    let lock = client.lock(format!("{name}:latency")).into();
    let (all, mut times) = (Instant::now(), Vec::with_capacity(PAIRS));
    while times.len() < PAIRS && (times.is_empty() || all.elapsed() < MEASURED) {
        let begun = Instant::now();
        if let Err(error) = pair(&lock).await {
            return Finding::fault("latency", format!("no lock could be acquired: {error}"), advice(&error, ""));
        }
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let (pairs, middle) = (times.len(), times[times.len() / 2]);
    let text = format!("acquire and release take {middle:.1?}, the slowest of {pairs} took {:.1?}", times[pairs - 1]);
    if middle > SLOW {
        return Finding::fault("latency", text, "use a server that is nearer or less busy; see SLOWLOG");
    }
    Finding::good("latency", text)
}

/// Compares the rate of each server's clock with that of this machine, and its time with this machine's.
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
            Err(why) => Finding::note("clock", format!("TIME was not answered: {why}"), "allow TIME to this user"),
        });
    }
    findings
}

fn of_clock(first: &Reading, second: &Reading) -> Finding {
    let (here, there) = (second.at - first.at, second.server.saturating_sub(first.server));
    let drift = here.abs_diff(there);
    if drift > MOST_DRIFT + first.round_trip + second.round_trip {
        let text =
            format!("{here:.1?} here were {there:.1?} there: the server's clock was stepped, or has another rate");
        return Finding::fault("clock", text, "use a time service that slews; leases end by this clock");
    }
    let apart = second.here.abs_diff(second.server);
    if apart > Duration::from_secs(5) {
        let text = format!("the server's clock and this machine's are {apart:.1?} apart");
        return Finding::note("clock", text, "locks do not mind; a step to the right time would end or prolong leases");
    }
    Finding::good("clock", format!("its rate is right, and it is {apart:.1?} from this machine's"))
}

/// A reading of the server's clock beside ours.
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
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).ok_or("TIME is no time");
    let server = Duration::from_secs(number(0)?) + Duration::from_micros(number(1)?);
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Reading { at: begun + round_trip / 2, here: here.saturating_sub(round_trip / 2), server, round_trip })
}
