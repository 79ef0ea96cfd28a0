//! `leasehold bench`: the latency of locks on this server, relative to PING.

use crate::args::{BenchOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::ending::Ending;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::raw::Raw;
use crate::signals::Signals;
use leasehold::{AnyLock, Client, Error};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A measurement.
struct Figure {
    what: &'static str,
    times: Vec<Duration>,
    /// The elapsed time, which is less than the sum of concurrent times.
    within: Duration,
}

impl Figure {
    fn new(what: &'static str, mut times: Vec<Duration>, within: Duration) -> Self {
        times.sort_unstable();
        Self { what, times, within }
    }

    /// The percentile of the times.
    fn quantile(&self, percent: usize) -> Duration {
        let at = (self.times.len() * percent / 100).min(self.times.len().saturating_sub(1));
        self.times.get(at).copied().unwrap_or_default()
    }

    #[expect(clippy::cast_precision_loss, reason = "the counts are small")]
    fn each_second(&self) -> f64 {
        self.times.len() as f64 / self.within.as_secs_f64().max(f64::EPSILON)
    }

    fn tell(&self, ping: Duration, as_json: bool) -> Result<(), Failure> {
        let (middle, slow) = (self.quantile(50), self.quantile(99));
        let ratio = middle.as_secs_f64() / ping.as_secs_f64().max(f64::EPSILON);
        if as_json {
            let told = json!({
                "what": self.what, "p50_us": micros(middle), "p99_us": micros(slow),
                "per_second": self.each_second().round(), "p50_in_pings": (ratio * 100.0).round() / 100.0,
            });
            return output::print(&format!("{told}\n"));
        }
        let (what, each) = (self.what, self.each_second());
        let (middle, slow) = (micros(middle), micros(slow));
        output::print(&format!("{what:<44} {middle:>8} us {slow:>8} us {each:>9.0} /s {ratio:>7.2}\n"))
    }
}

/// Maximum number of PINGs.
const PINGS: u32 = 1_000;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Prints each measurement immediately.
///
/// # Errors
///
/// The server is unreachable or refuses a command.
pub(crate) async fn bench(options: &BenchOptions, server: &ServerOptions) -> Result<Ending, Failure> {
    let client = connection::connect(server, "leasehold bench").await?;
    let other = connection::connect(server, "leasehold bench").await?;
    let raw = Raw::connect(server).await.map_err(|why| Failure::new(Exit::Unreachable, why))?;
    let name = format!("leasehold:bench:{}", client.id());
    // The register of fencing tokens never expires, so the cleanup must also run after a signal.
    let mut signals = Signals::listen()?;
    let measured = signals.unless_ended(measure([&client, &other], &raw, &name, options, server.json)).await;
    // Pending releases finish before the keys are removed.
    let tidying = async {
        let _ = tokio::join!(client.shutdown(FAREWELL), other.shutdown(FAREWELL));
        raw.remove(server, &name).await;
    };
    // A second signal ends the wait for a silent server.
    match (measured, signals.unless_ended(tidying).await) {
        (Ok(measured), Ok(())) => measured,
        (Err(signal), _) | (_, Err(signal)) => Ok(Ending::by(signal)),
    }
}

async fn measure(
    [client, other]: [&Client; 2],
    raw: &Raw,
    name: &str,
    options: &BenchOptions,
    json: bool,
) -> Result<Ending, Failure> {
    if !json {
        let head = format!("{:<44} {:>11} {:>11} {:>12} {:>7}\n", "", "p50", "p99", "", "PINGs");
        output::print(&head)?;
    }
    let ping = pings(raw, options.pairs.min(PINGS)).await?;
    let unit = ping.quantile(50);
    ping.tell(unit, json)?;
    let kinds: [(&str, AnyLock); 3] = [
        ("acquire and release", client.lock(name).into()),
        ("acquire and release, fenced", client.fenced_lock(name).into()),
        ("acquire and release, fair", client.fair_lock(name).into()),
    ];
    for (what, lock) in kinds {
        pairs(what, &lock, options.pairs).await?.tell(unit, json)?;
    }
    at_once("concurrent tasks, one name per task", client, options, |task| format!("{name}:{task}"))
        .await?
        .tell(unit, json)?;
    at_once("concurrent tasks, one name", client, options, |_| name.to_owned()).await?.tell(unit, json)?;
    wake_ups(client, other, name, options.pairs).await?.tell(unit, json)?;
    Ok(0.into())
}

async fn pings(raw: &Raw, count: u32) -> Result<Figure, Failure> {
    let node = raw.primaries().first().ok_or_else(|| unanswered("no primary is reachable"))?;
    let mut times = Vec::new();
    let begun = Instant::now();
    for _ in 0..count {
        let begun = Instant::now();
        node.ask::<String>("PING", &[]).await.map_err(|why| unanswered(&why))?;
        times.push(begun.elapsed());
    }
    Ok(Figure::new("PING", times, begun.elapsed()))
}

/// Converts the error of a PING. An error reply begins with a code in capitals.
fn unanswered(why: &str) -> Failure {
    let code = why.split(' ').next().unwrap_or_default();
    let is_refused = code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    Failure::new(if is_refused { Exit::Refused } else { Exit::Unreachable }, format!("PING failed: {why}"))
}

async fn pairs(what: &'static str, lock: &AnyLock, count: u32) -> Result<Figure, Failure> {
    let begun = Instant::now();
    let times = timed(lock, count).await?;
    Ok(Figure::new(what, times, begun.elapsed()))
}

async fn timed(lock: &AnyLock, count: u32) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        lock.acquire().await?.release().await?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// Splits the pairs between concurrent tasks.
async fn at_once(
    what: &'static str,
    client: &Client,
    options: &BenchOptions,
    name: impl Fn(u32) -> String,
) -> Result<Figure, Failure> {
    let share = options.pairs.div_ceil(options.tasks);
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..options.tasks {
        let lock: AnyLock = client.lock(name(task)).into();
        tasks.spawn(async move { timed(&lock, share).await });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.extend(done.map_err(|error| Failure::new(Exit::Other, error.to_string()))??);
    }
    Ok(Figure::new(what, times, begun.elapsed()))
}

/// Measures the time from the release of one client to the grant of a waiting client.
async fn wake_ups(client: &Client, other: &Client, name: &str, count: u32) -> Result<Figure, Failure> {
    let (here, there) = (client.lock(name), other.lock(name));
    let mut times = Vec::new();
    let begun = Instant::now();
    // Each wake-up takes longer than a pair.
    for _ in 0..count.div_ceil(10) {
        let guard = here.acquire().await?;
        let waiting = async {
            let granted = there.acquire().await?;
            let at = Instant::now();
            granted.release().await.map(|()| at)
        };
        let releasing = async {
            while other.stats().subscriptions == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // The waiter retries after its SUBSCRIBE, and then sleeps.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let at = Instant::now();
            guard.release().await.map(|()| at)
        };
        let (granted, released) = tokio::join!(waiting, releasing);
        times.push(granted?.saturating_duration_since(released?));
    }
    Ok(Figure::new("release to grant of a waiter", times, begun.elapsed()))
}
