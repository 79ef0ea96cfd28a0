//! The cost of holding many locks: commands and server time of a renewal period, what others notice of it, and memory.

use crate::measure::{quantile, resident, scripts};
use fred::prelude::{Builder, ClientLike, Config};
use leasehold::{Client, Guard};
use leasehold_test_support::Server;
use std::time::{Duration, Instant};

/// A third of the default lease.
const PERIOD: Duration = Duration::from_secs(10);

pub(crate) async fn run(server: &Server) {
    let mut idle = ping(server, Duration::from_secs(2)).await;
    println!("PING of another client, idle: p50 {:?}, p99 {:?}", quantile(&mut idle, 0.5), quantile(&mut idle, 0.99));
    for locks in [10_000, 100_000] {
        hold(server, locks).await;
    }
}

async fn hold(server: &Server, locks: usize) {
    let client = Client::connect(&server.url()).await.expect("a client");
    let before = resident();
    let mut guards: Vec<Guard> = Vec::with_capacity(locks);
    let mut tasks = Vec::new();
    for task in 0..64 {
        let client = client.clone();
        tasks.push(tokio::spawn(async move {
            let mut guards = Vec::new();
            for number in (task..locks).step_by(64) {
                guards.push(client.lock(format!("bench:hold:{number}")).acquire().await.expect("the lock"));
            }
            guards
        }));
    }
    for task in tasks {
        guards.extend(task.await.expect("a task"));
    }
    let bytes = (resident().saturating_sub(before)) / locks;
    // One period to settle in, one to be measured: by then renewals have spread.
    tokio::time::sleep(PERIOD).await;
    let (calls, micros) = scripts(server);
    let mut pings = ping(server, PERIOD).await;
    let (calls_after, micros_after) = scripts(server);
    let held = guards.iter().filter(|guard| guard.is_held()).count();
    println!(
        "{locks} locks held ({held} still are): {} commands and {} ms of server time in {PERIOD:?}; \
         PING of another client p50 {:?}, p99 {:?}; {bytes} bytes a lock",
        calls_after - calls,
        (micros_after - micros) / 1000,
        quantile(&mut pings, 0.5),
        quantile(&mut pings, 0.99),
    );
    drop(guards);
    client.shutdown(Duration::from_secs(60)).await.expect("everything is released");
}

/// The times of PINGs, one after another, over a while.
async fn ping(server: &Server, over: Duration) -> Vec<Duration> {
    let config = Config::from_url(&server.url()).expect("a valid URL");
    let other = Builder::from_config(config).build().expect("a client");
    other.init().await.expect("a connection");
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < over {
        let sent = Instant::now();
        let _: String = other.ping(None).await.expect("a reply");
        times.push(sent.elapsed());
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    times
}
